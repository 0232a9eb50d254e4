"""A library's receiver, unpatched but for dvcrypto's backend, is told things by a Discord on loopback.

The server seals them with `cryptography` and PyNaCl.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import opus
import peers
import pytest
from packets import GCM, XCHACHA
from small_discord import SPEAKER_ID, SmallDiscord

Install = Callable[..., None]
FRAME_SECONDS = 0.02
SILENCE = b"\xf8\xff\xfe"
FORGED = bytes.fromhex("80780102030405060a0b0c0d") + bytes(200)
"""Speech of the speaker's, with a tag that is wrong."""
SENDER_REPORT = bytes.fromhex("80c80006 0a0b0c0d 0000000000000000 00000000 00000001 00000002")
"""RFC 3550, section 6.4.1."""

pytestmark = pytest.mark.skipif(not peers.receives(), reason="no receiver here, or one that its own tests test")


@asynccontextmanager
async def listening(mode: str) -> AsyncIterator[tuple[SmallDiscord, list[bytes]]]:
    """The server, and what the library hears of a speaker there."""
    async with SmallDiscord([mode]) as server, peers.logged_in(server) as peer:
        voice = await peer.join_to_listen()
        await server.voice.until(lambda: server.voice.description_count)
        heard = peer.listen(voice)
        await server.voice.announce(SPEAKER_ID)
        yield server, heard
        assert voice.is_connected()


async def heard_all(server: SmallDiscord, heard: list[bytes], frames: Sequence[bytes]) -> None:
    """Hold what was heard against what was said. The receivers' jitter buffers keep the last packets back."""
    await say(server, [SILENCE] * 5)
    await peers.eventually(lambda: len(heard) >= len(frames))
    assert heard[: len(frames)] == list(frames)


async def say(server: SmallDiscord, frames: Iterable[bytes]) -> None:
    """Say frames at the pace of speech: the receivers drop what comes much faster."""
    for frame in frames:
        server.voice.say([frame])
        await asyncio.sleep(FRAME_SECONDS)


@pytest.mark.skipif(peers.installed()[0] == "py-cord", reason="py-cord's own receiver delivers nothing without DAVE")
async def test_the_original_hears() -> None:
    """What this server is worth: a receiver's own code hears what it says."""
    frames = opus.frames()[:50]
    async with listening(XCHACHA) as (server, heard):
        await say(server, frames)
        await heard_all(server, heard, frames)


@pytest.mark.parametrize("mode", [GCM, XCHACHA])
async def test_speech_is_heard_through_a_new_key_in_mid_stream(install: Install, mode: str) -> None:
    install()
    frames = opus.frames()[:100]
    async with listening(mode) as (server, heard):
        await say(server, frames[:50])
        described_count = server.voice.description_count
        await server.voice.describe()
        await server.voice.until(lambda: server.voice.description_count > described_count)
        await say(server, frames[50:])
        await heard_all(server, heard, frames)


@pytest.mark.parametrize("mode", [GCM, XCHACHA])
async def test_speech_is_heard_between_all_kinds_of_other_datagrams(install: Install, mode: str) -> None:
    install()
    frames = opus.frames()[:50]
    async with listening(mode) as (server, heard):
        for frame in frames:
            for datagram in (b"", b"\x80", bytes(8), b"\x80\x78" + bytes(60), os.urandom(200), FORGED):
                server.voice.send_raw(datagram)
            server.voice.send_packets([SENDER_REPORT])
            await say(server, [frame])
        await heard_all(server, heard, frames)
