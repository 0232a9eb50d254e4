"""A library, unpatched, against a Discord on loopback: what it says arrives, what it is told it hears."""

import asyncio
from collections.abc import Sequence

import opus
import peers
from packets import XCHACHA
from small_discord import SmallDiscord

SILENCE = b"\xf8\xff\xfe"


def said(payloads: Sequence[bytes]) -> list[bytes]:
    """What was said, without the silence that players send between."""
    return [payload for payload in payloads if payload != SILENCE]


def test_the_original_plays_and_leaves() -> None:
    """What this server is worth: a library's own code, with its own encryption, goes all the way."""

    async def run() -> None:
        frames = opus.frames()[:50]
        async with SmallDiscord(modes=[XCHACHA]) as server, peers.logged_in(server) as peer:
            voice = await peer.join()
            played = await peer.play(voice, frames)
            assert played.error is None
            await server.voice.until(lambda: len(said(server.voice.payloads)) >= len(frames))
            assert said(server.voice.payloads) == list(frames)
            assert server.voice.faults == []
            assert server.voice.selected == [XCHACHA]
            await voice.disconnect()
            await server.voice.until(lambda: not server.voice.sockets)

    asyncio.run(run())
