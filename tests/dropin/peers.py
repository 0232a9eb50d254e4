"""The libraries under test, as one: what is imported here is whichever of them this environment has."""

import asyncio
import contextlib
import importlib
import importlib.metadata
import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from other_peers import PEERS
from small_discord import CHANNEL_ID, TOKEN, SmallDiscord

MODULES = {
    "discord.py": "discord",
    "discord.py-self": "discord",
    "py-cord": "discord",
    "disnake": "disnake",
    "nextcord": "nextcord",
    "discord-py-interactions": "interactions",
    "hikari-wave": "hikariwave",
}


def installed() -> tuple[str, Any]:
    """The name of the library that is here, and its module. RuntimeError where it is not exactly one."""
    found = [name for name in MODULES if _is_installed(name)]
    if len(found) != 1:
        raise RuntimeError(
            f"one of {', '.join(MODULES)} has to be installed; there is {found}. `make dropin` does that"
        )
    return found[0], importlib.import_module(MODULES[found[0]])


def receives() -> bool:
    """Whether the library that is here has a receiver."""
    name, _ = installed()
    return name == "py-cord" or (name == "discord.py" and _is_installed("discord-ext-voice-recv"))


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


async def eventually(condition: Callable[[], object], timeout: float = 10) -> None:
    """Wait for what no message tells of. AssertionError after `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {timeout} s") from None


CANNOT = {
    "SEALS": "cannot seal by itself so that all of it opens",
    "COUNTS": "does not count its packets",
    "GOES_ON": "does not go on after its gateway's socket was lost",
}


def skip_unless_it(ability: str, peer: Any) -> None:
    """Skip a test for which a library is not good enough."""
    if not getattr(peer, ability):
        pytest.skip(f"{peer.name} {CANNOT[ability]}")


class Peer:
    """A library, logged in to a small Discord."""

    SEALS = True  # by itself, so that all of it opens under nonces that differ
    COUNTS = True  # its packets, so that a test can set the count
    GOES_ON = True  # after its gateway's socket was lost

    def __init__(self, server: SmallDiscord) -> None:
        self.name, self.library = installed()
        self.server = server
        self.client: Any = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Log in, and wait until the guild is there."""
        self.client = self._make_client()
        self._running = asyncio.create_task(self.client.start(TOKEN))
        seen = asyncio.create_task(self._see_channel())
        await asyncio.wait([self._running, seen], timeout=20, return_when=asyncio.FIRST_COMPLETED)
        if not seen.done():
            seen.cancel()
            if self._running.done():
                self._running.result()
            raise AssertionError(f"{self.name} did not log in; unknown requests: {self.server.unknown}")

    async def close(self) -> None:
        """Leave, and log out. py-cord, told to log out only, hangs up first and then waits long for an answer."""
        if self.client is not None:
            for voice in list(self.client.voice_clients):
                await asyncio.wait_for(voice.disconnect(force=True), 20)
            await asyncio.wait_for(self.client.close(), 20)
        if self._running is not None:
            self._running.cancel()  # py-cord would connect anew first
            await asyncio.wait([self._running], timeout=20)

    @property
    def channel(self) -> Any:
        """The voice channel, as the library has it."""
        return self.client.get_channel(CHANNEL_ID)

    async def join(self, *, reconnect: bool = False, **options: Any) -> Any:
        """Connect to the voice channel: the library's voice client."""
        return await self.channel.connect(timeout=15, reconnect=reconnect, **options)

    def play(self, voice: Any, frames: Iterable[bytes]) -> asyncio.Future[BaseException | None]:
        """Play Opus frames by the library's own player; the future is what it calls `after` with."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[BaseException | None] = loop.create_future()

        def after(error: BaseException | None = None) -> None:
            loop.call_soon_threadsafe(done.set_result, error)

        voice.play(self.source(frames), after=after)
        return done

    async def join_to_listen(self) -> Any:
        """Connect to the voice channel, with what the library receives by."""
        if self.name == "discord.py":
            return await self.join(cls=importlib.import_module("discord.ext.voice_recv").VoiceRecvClient)
        return await self.join()

    def listen(self, voice: Any) -> list[bytes]:
        """Receive by the library's own receiver: the list that its Opus frames go to as they come."""
        heard: list[bytes] = []
        if self.name == "discord.py":
            receiver = importlib.import_module("discord.ext.voice_recv")
            voice.listen(receiver.BasicSink(lambda _, data: heard.append(data.opus), decode=False))
        else:
            voice.start_recording(_sink_class(self.library.sinks.Sink)(voice, heard))
        return heard

    def set_counter(self, voice: Any, count: int) -> None:
        """Set the library's own count of packets."""
        name = "_lite_nonce" if self.name == "disnake" else "_incr_nonce"
        assert isinstance(getattr(voice, name), int)
        setattr(voice, name, count)

    def source(self, frames: Iterable[bytes]) -> Any:
        """The library's audio source over frames that are Opus already."""
        return _source_class(self.library.AudioSource)(frames)

    def _make_client(self) -> Any:
        if self.name == "discord.py-self":
            # Its REST and gateways are curl's, which takes a proxy and, from the environment, a certificate.
            os.environ["REQUESTS_CA_BUNDLE"] = str(self.server.certificate_path)
            connector = self.server.connector()
            return self.library.Client(proxy=self.server.proxy, connector=connector, guild_subscriptions=False)
        intents = self.library.Intents.default()
        return self.library.Client(intents=intents, connector=self.server.connector(), guild_ready_timeout=0.1)

    async def _see_channel(self) -> None:
        while self.channel is None or not self.client.is_ready():
            await asyncio.sleep(0.01)


def _source_class(base: type) -> Callable[[Iterable[bytes]], Any]:
    class Frames(base):  # type: ignore[misc]  # whichever library's
        def __init__(self, frames: Iterable[bytes]) -> None:
            self._frames = iter(frames)

        def read(self) -> bytes:
            return next(self._frames, b"")

        def is_opus(self) -> bool:
            return True

    return Frames


def _sink_class(base: type) -> Callable[[Any, list[bytes]], Any]:
    class OpusSink(base):  # type: ignore[misc]
        """With what py-cord's reader asks of a sink, and its own sinks lack."""

        __sink_listeners__ = ()

        def __init__(self, voice: Any, heard: list[bytes]) -> None:
            super().__init__()
            self.vc, self._heard = voice, heard

        def is_opus(self) -> bool:
            return True

        def walk_children(self) -> tuple[()]:
            return ()

        def write(self, data: Any, _: Any) -> None:
            self._heard.append(data.opus)

    return OpusSink


@contextlib.asynccontextmanager
async def logged_in(server: SmallDiscord) -> AsyncIterator[Any]:
    """The library that is here, logged in to the server."""
    peer = PEERS.get(installed()[0], Peer)(server)
    try:
        await peer.start()
        yield peer
    finally:
        await peer.close()
