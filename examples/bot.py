"""A discord.py bot that plays an Ogg Opus file in a voice channel, sealed by dvcrypto.

    DISCORD_TOKEN=... python examples/bot.py CHANNEL_ID speech.ogg

The two lines that name dvcrypto are all that an existing bot needs.
"""

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

import discord
from discord.oggparse import OggStream

import dvcrypto.dropin

dvcrypto.dropin.install()


class OggOpus(discord.AudioSource):
    """The packets of an Ogg Opus file, as they are."""

    def __init__(self, path: Path) -> None:
        """Open the file."""
        self._file = path.open("rb")
        self._packets = OggStream(self._file).iter_packets()
        for _ in ("OpusHead", "OpusTags"):
            next(self._packets)

    def read(self) -> bytes:
        """The next 20 ms, or nothing at the end."""
        return next(self._packets, b"")

    def is_opus(self) -> bool:
        """Nothing is left to be encoded."""
        return True

    def cleanup(self) -> None:
        """Close the file."""
        self._file.close()


class Player(discord.Client):
    """Joins a channel, plays a file, and leaves."""

    def __init__(self, channel_id: int, path: Path, **options: Any) -> None:
        """``options`` are discord.Client's."""
        super().__init__(intents=discord.Intents.default(), **options)
        self._channel_id = channel_id
        self._path = path

    async def on_ready(self) -> None:
        """Play, once the guilds are known."""
        channel = self.get_channel(self._channel_id)
        if not isinstance(channel, discord.VoiceChannel):
            raise TypeError(f"{self._channel_id} is no voice channel that the bot can see")
        voice = await channel.connect()
        played = asyncio.Event()
        voice.play(OggOpus(self._path), after=lambda _: self.loop.call_soon_threadsafe(played.set))
        await played.wait()
        print(f"played {self._path.name} in {voice.mode}")
        await voice.disconnect()
        await self.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("channel", type=int, help="the channel's id")
    parser.add_argument("file", type=Path, help="Ogg Opus, 20 ms a packet")
    options = parser.parse_args()
    if "DISCORD_TOKEN" not in os.environ:
        parser.error("the bot's token is to be in DISCORD_TOKEN")
    Player(options.channel, options.file).run(os.environ["DISCORD_TOKEN"])
