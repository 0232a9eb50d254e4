"""interactions.py and hikari-wave, as peers.py has the libraries that are made as discord.py is."""

import asyncio
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from small_discord import CHANNEL_ID, GUILD_ID, TOKEN, SmallDiscord


class InteractionsPeer:
    """interactions.py, logged in to a small Discord."""

    name = "discord-py-interactions"
    SEALS = COUNTS = False
    GOES_ON = False  # it resumes, and its player then waits for a session description that does not come

    def __init__(self, server: SmallDiscord) -> None:
        import interactions

        _have_ffmpeg()
        self.server = server
        self.client = interactions.Client(
            token=TOKEN, intents=interactions.Intents.DEFAULT, sync_interactions=False, disable_dm_commands=True
        )
        self.client.http.connector = server.connector()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Log in, and wait until the guild is there."""
        self._running = asyncio.create_task(self.client.astart(TOKEN))
        async with asyncio.timeout(20):
            while not self.client.is_ready or self.client.get_channel(CHANNEL_ID) is None:
                await asyncio.sleep(0.01)
                if self._running.done():
                    self._running.result()

    async def close(self) -> None:
        """Leave the channel, as the library does not by itself, and log out."""
        for state in list(self.client.cache.bot_voice_state_cache.values()):
            if state.player:
                state.player.stop()
            state.ws.close()
            while state.ws.ws is not None:
                await asyncio.sleep(0.01)
        # The library closes HTTP first, and then can go round and round, as its gateway's socket is closed with it.
        await asyncio.wait_for(self.client._connection_state.stop(), 20)
        if self._running is not None:
            await asyncio.wait([self._running], timeout=20)

    async def join(self, **_: Any) -> Any:
        """Connect to the voice channel."""
        async with asyncio.timeout(15):
            state = await self.client.connect_to_vc(GUILD_ID, CHANNEL_ID)

        async def disconnect() -> None:
            await state.disconnect()

        return SimpleNamespace(
            state=state,
            disconnect=disconnect,
            is_connected=lambda: state.ws.ws is not None,
            stop=lambda: state.player.stop(),
        )

    def play(self, voice: Any, frames: Iterable[bytes]) -> asyncio.Future[BaseException | None]:
        """Play Opus frames by the library's own player; the future is what its thread died of."""
        return asyncio.ensure_future(self._play(voice.state, frames))

    async def _play(self, state: Any, frames: Iterable[bytes]) -> BaseException | None:
        from interactions.api.voice.audio import BaseAudio

        left = iter(frames)

        class Frames(BaseAudio):  # type: ignore[misc]
            needs_encode = False
            locked_stream = False
            audio_complete = True
            bitrate = 64

            def read(self, _frame_size: int) -> bytes:
                return next(left, b"")

            def cleanup(self) -> None:
                """Nothing to do."""

        died: list[BaseException | None] = []
        hook, threading.excepthook = threading.excepthook, lambda arguments: died.append(arguments.exc_value)
        try:
            await state.play(Frames())
            await asyncio.to_thread(state.player.join)
        finally:
            threading.excepthook = hook
        return died[0] if died else None


class HikariWavePeer:
    """hikari and hikari-wave, logged in to a small Discord."""

    name = "hikari-wave"
    SEALS = COUNTS = False
    GOES_ON = False  # no signal of the gateway's reaches its connection

    def __init__(self, server: SmallDiscord) -> None:
        import hikari
        import hikariwave

        # Its own websocket is that of websockets, which takes proxy and certificate from the environment.
        os.environ["SSL_CERT_FILE"], os.environ["https_proxy"] = str(server.certificate_path), server.proxy
        self.server = server
        self.bot = hikari.GatewayBot(
            TOKEN,
            banner=None,
            suppress_optimization_warning=True,
            http_settings=hikari.impl.HTTPSettings(ssl=server.client_context()),
            proxy_settings=hikari.impl.ProxySettings(url=server.proxy),
        )
        hikariwave.VoiceClient._VoiceClient__instance = None  # there may be one in a process, and each test has one
        self.client = hikariwave.VoiceClient(self.bot, config=hikariwave.Config(record=True))

    async def start(self) -> None:
        """Log in, and wait until the guild is there."""
        await asyncio.wait_for(self.bot.start(check_for_updates=False), 20)
        async with asyncio.timeout(20):
            while self.bot.cache.get_guild_channel(CHANNEL_ID) is None or not self.client._accepting:
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Leave the channel, and log out."""
        await self.client.close()
        await asyncio.wait_for(self.bot.close(), 20)

    async def join(self, **_: Any) -> Any:
        """Connect to the voice channel."""
        connection = await asyncio.wait_for(self.client.connect(GUILD_ID, CHANNEL_ID, deaf=False), 15)

        async def disconnect() -> None:
            await self.client.disconnect(guild_id=GUILD_ID)

        return SimpleNamespace(
            connection=connection,
            disconnect=disconnect,
            is_connected=lambda: GUILD_ID in self.client.connections,
            stop=lambda: asyncio.ensure_future(connection.player.stop()),
        )

    def play(self, voice: Any, frames: Iterable[bytes]) -> asyncio.Future[BaseException | None]:
        """Play Opus frames by the library's own player, in place of FFmpeg; the future is what its task ended with."""
        return asyncio.ensure_future(self._play(voice.connection, frames))

    async def _play(self, connection: Any, frames: Iterable[bytes]) -> BaseException | None:
        from hikariwave import BufferAudioSource

        async def submit(_source: Any, _connection: Any) -> None:
            store = connection.player._store
            for frame in frames:
                await store.store_frame(frame, store._generation)
            await store.store_frame(None, store._generation)

        self.client._ffmpeg = SimpleNamespace(submit=submit, stop=_nothing)
        await connection.player.play(BufferAudioSource(b"frames"))
        await asyncio.wait([connection.player._player_task])
        task = connection.player._player_task
        return None if task.cancelled() else task.exception()


async def _nothing() -> None:
    """There is nothing to stop."""


def _have_ffmpeg() -> None:
    """Put a program of FFmpeg's name in the path, as interactions.py asks for its version, though it plays Opus."""
    folder = Path(tempfile.gettempdir(), f"dvcrypto-ffmpeg-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    program = folder / "ffmpeg"
    if not program.exists():
        program.write_text("#!/bin/sh\necho ffmpeg version 0\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    if str(folder) not in os.environ["PATH"]:
        os.environ["PATH"] += f":{folder}"


PEERS: dict[str, Callable[[SmallDiscord], Any]] = {
    "discord-py-interactions": InteractionsPeer,
    "hikari-wave": HikariWavePeer,
}
