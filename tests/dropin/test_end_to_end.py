"""A library, unpatched but for dvcrypto's backend, says things to a Discord on loopback.

The server opens what comes with `cryptography` and PyNaCl. It notes as faults what no client may do: use a nonce twice
under a key, or send what no key opens.
"""

import itertools
from collections.abc import Callable, Sequence

import opus
import peers
import pytest
from packets import GCM, XCHACHA
from small_discord import SmallDiscord
from voice_server import SERVER_CRASHED, SESSION_TIMED_OUT

import dvcrypto

Install = Callable[..., None]
BOTH = [(GCM, XCHACHA), (XCHACHA, GCM)]
FIRST_NONCE = 0x8000_0000  # the official client's
SILENCE = b"\xf8\xff\xfe"  # players send it where a source pauses


def said(payloads: Sequence[bytes]) -> list[bytes]:
    """What was said, without the silence between."""
    return [payload for payload in payloads if payload != SILENCE]


async def heard_all(server: SmallDiscord, frames: Sequence[bytes]) -> None:
    """Wait until as many frames were heard, and hold them against those that were played."""
    await server.voice.until(lambda: len(said(server.voice.payloads)) >= len(frames))
    assert said(server.voice.payloads) == list(frames)
    assert server.voice.faults == []


async def test_the_original_plays_and_leaves() -> None:
    """What this server is worth: a library's own code, with its own encryption, goes all the way."""
    frames = opus.frames()[:50]
    async with SmallDiscord(modes=[XCHACHA]) as server, peers.logged_in(server) as peer:
        peers.skip_unless_it("SEALS", peer)
        voice = await peer.join()
        assert await peer.play(voice, frames) is None
        await heard_all(server, frames)
        assert server.voice.selected == [XCHACHA]
        await voice.disconnect()
        await server.voice.until(lambda: not server.voice.sockets)


@pytest.mark.parametrize("offered", BOTH, ids=["gcm-first", "xchacha-first"])
async def test_without_preference_the_mode_is_the_choice_of_choose_mode(
    install: Install, offered: Sequence[str]
) -> None:
    install()
    frames = opus.frames()[:110]
    async with SmallDiscord(offered) as server, peers.logged_in(server) as peer:
        voice = await peer.join()
        assert await peer.play(voice, frames) is None
        await heard_all(server, frames)
        assert server.voice.selected == [dvcrypto.choose_mode(offered)]
        suffixes = [packet.suffix for packet in server.voice.heard]
        assert suffixes == [(FIRST_NONCE + number).to_bytes(4, "little") for number in range(len(suffixes))]


@pytest.mark.parametrize("offered", BOTH, ids=["gcm-first", "xchacha-first"])
@pytest.mark.parametrize("preferred", [GCM, XCHACHA])
async def test_the_preferred_mode_is_taken_wherever_it_is_in_the_offer(
    install: Install, preferred: str, offered: Sequence[str]
) -> None:
    install(prefer=preferred)
    frames = opus.frames()[:25]
    async with SmallDiscord(offered) as server, peers.logged_in(server) as peer:
        voice = await peer.join()
        assert await peer.play(voice, frames) is None
        await heard_all(server, frames)
        assert server.voice.selected == [preferred]


@pytest.mark.parametrize("mode", [GCM, XCHACHA])
async def test_a_new_key_in_mid_stream_seals_all_that_follows(install: Install, mode: str) -> None:
    install()
    frames = opus.frames()[:120]
    async with SmallDiscord([mode]) as server, peers.logged_in(server) as peer:
        voice = await peer.join()
        playing = peer.play(voice, frames)
        await server.voice.until(lambda: len(server.voice.heard) >= 40)
        await server.voice.describe()
        assert await playing is None
        await heard_all(server, frames)
        generations = [packet.generation for packet in server.voice.heard]
        assert generations == sorted(generations)
        assert generations.count(0) >= 40
        assert generations.count(1) >= 40


@pytest.mark.parametrize("mode", [GCM, XCHACHA])
async def test_the_same_key_again_does_not_begin_its_nonces_again(install: Install, mode: str) -> None:
    install()
    frames = opus.frames()[:100]
    async with SmallDiscord([mode]) as server, peers.logged_in(server) as peer:
        voice = await peer.join()
        playing = peer.play(voice, frames)
        for heard_count in (30, 60):
            await server.voice.until(lambda count=heard_count: len(server.voice.heard) >= count)
            await server.voice.describe_again()
        assert await playing is None
        await heard_all(server, frames)
        assert len(server.voice.generations) == 1


@pytest.mark.parametrize("mode", [GCM, XCHACHA])
async def test_after_a_lost_gateway_no_nonce_comes_again(install: Install, mode: str) -> None:
    install()
    async with SmallDiscord([mode]) as server, peers.logged_in(server) as peer:
        # nextcord resumes on the very socket that was closed, which fails; it does begin anew.
        code = SESSION_TIMED_OUT if peer.name == "nextcord" else SERVER_CRASHED
        peers.skip_unless_it("GOES_ON", peer)
        voice = await peer.join(reconnect=True)
        playing = peer.play(voice, itertools.cycle(opus.frames()))
        await server.voice.until(lambda: len(server.voice.heard) >= 30)
        await server.voice.drop(code)
        await server.voice.until(lambda: (server.voice.resumed_count, len(server.voice.selected)) != (0, 1))
        assert server.voice.resumed_count == (code == SERVER_CRASHED)
        heard_count = len(server.voice.heard)
        await server.voice.until(lambda: len(server.voice.heard) >= heard_count + 60)
        voice.stop()
        assert await playing is None
        assert server.voice.faults == []


async def test_without_a_common_mode_connecting_says_so(install: Install) -> None:
    install()
    async with SmallDiscord(["aead_future"]) as server, peers.logged_in(server) as peer:
        with pytest.raises(dvcrypto.NoCommonMode, match="aead_future"):
            await peer.join()
        assert server.voice.selected == []


@pytest.mark.parametrize("mode", [GCM, XCHACHA])
async def test_at_the_end_of_the_nonces_the_connection_ends(install: Install, mode: str) -> None:
    """The library has counted almost to the end when its first packet comes to dvcrypto, which goes on from there."""
    install()
    async with SmallDiscord([mode]) as server, peers.logged_in(server) as peer:
        peers.skip_unless_it("COUNTS", peer)
        voice = await peer.join()
        peer.set_counter(voice, 2**32 - 20)
        error = await peer.play(voice, opus.frames()[:50])
        assert isinstance(error, dvcrypto.NonceExhausted)
        await server.voice.until(lambda: not server.voice.sockets)
        await peers.eventually(lambda: not peer.client.voice_clients)
        assert not voice.is_connected()
        assert server.voice.payloads == list(opus.frames()[:20])
        assert server.voice.heard[-1].suffix == b"\xff\xff\xff\xff"
        assert server.voice.faults == []
