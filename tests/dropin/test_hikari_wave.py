"""The real classes of hikari-wave, with dvcrypto's backend and without it."""

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import opus
import peers
import pytest
from packets import CIPHERS, GCM, XCHACHA, open_sealed
from receive_cases import CASES, LAST, OPUS, SSRC, Case, last, rtp, sealer
from small_discord import SPEAKER_ID, SmallDiscord
from voice_server import SPEAKER_SSRC

import dvcrypto.dropin

pytest.importorskip("hikariwave", exc_type=ImportError)

from hikariwave.audio.player import AudioPlaybackState, AudioPlayer
from hikariwave.config import Config
from hikariwave.connection import VoiceConnection
from hikariwave.internal.constants import Audio, Opcode
from hikariwave.internal.tasks import TaskManager
from hikariwave.networking.gateway import GatewayReadyPayload, GatewaySessionDescriptionPayload
from hikariwave.networking.server import VoiceServer

Install = Callable[..., None]
MODES = (GCM, XCHACHA)
GUILD, CHANNEL, SPEAKER = 2001, 3001, 4001


class Cache:
    """Knows one speaker."""

    def check_ssrc_connected(self, ssrc: int) -> bool:
        return ssrc == SSRC

    def get_ssrc_member(self, _ssrc: int) -> int:
        return SPEAKER

    def get_member_channel(self, _member: int) -> int:
        return CHANNEL

    def get_channel_metadata(self, _channel: int) -> Any:
        return SimpleNamespace(guild_id=GUILD, members={SPEAKER: "a member"}, active=set())


class Client:
    """As much of a voice client as a connection needs."""

    def __init__(self, *, record: bool = True) -> None:
        self._bot_id = 1001
        self._config = Config(record=record)
        self._cache = Cache()
        self._tasks = TaskManager()
        self.events: list[type] = []
        self._event_factory = SimpleNamespace(emit=lambda event, **_: self.events.append(event))
        self._ffmpeg = SimpleNamespace(submit=self._submit)
        self.left: list[int] = []

    async def _submit(self, _source: Any, _connection: Any) -> None:
        """Frames are there already."""

    async def disconnect(self, *, guild_id: int) -> None:
        self.left.append(guild_id)


def connected(*, record: bool = True) -> Any:
    """A connection of the library's, without its sockets."""
    connection = VoiceConnection(Client(record=record), GUILD, CHANNEL, "wss://nowhere", "s", "t")
    connection._ssrc = SSRC
    return connection


async def describe(connection: Any, mode: str, key: bytes) -> None:
    """What the gateway does with a session description."""
    payload = GatewaySessionDescriptionPayload(0, mode, bytes(key))
    await connection._gateway._callbacks[Opcode.SESSION_DESCRIPTION](payload)


async def play(connection: Any, frames: Sequence[bytes]) -> list[bytes]:
    """Play frames by the library's player, as fast as it can: the packets on the wire."""
    sent: list[bytes] = []
    queue = [*frames, None]

    async def fetch_frame() -> bytes | None:
        return queue.pop(0)

    async def nothing(**_: Any) -> None:
        """Frames are there already."""

    async def send(data: bytes) -> None:
        sent.append(bytes(data))

    player = connection._player
    player._store = SimpleNamespace(fetch_frame=fetch_frame, wait=nothing)
    server, connection._server = connection._server, SimpleNamespace(send=send)
    player._state = AudioPlaybackState.BUFFERING
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Audio, "FRAME_LENGTH", 0.001)
        await player._play_internal(SimpleNamespace(_volume=1), None)
    connection._server = server
    return sent


# Installing.


def replaced() -> list[object]:
    """What is replaced, as it is now."""
    return [
        vars(VoiceConnection)["_connect"],
        vars(AudioPlayer)["_generate_rtp"],
        vars(VoiceServer)["_rtp_packet"],
    ]


def test_all_is_replaced_and_put_back(install: Install) -> None:
    before = replaced()
    install()
    (status,) = (library for library in dvcrypto.dropin.status() if library.name == "hikari-wave")
    assert status.state == "replaced"
    assert len(status.replaced) == len(before)
    assert all(old is not new for old, new in zip(before, replaced(), strict=True))
    dvcrypto.dropin.uninstall()
    assert replaced() == before


def test_a_release_that_seals_elsewhere_is_left_alone(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    before = replaced()
    monkeypatch.setattr(AudioPlayer, "_play_internal", lambda _: None)
    with pytest.warns(dvcrypto.dropin.DropinWarning, match="_play_internal is not as expected"):
        install()
    assert replaced() == before


# Sending.


@pytest.mark.parametrize("mode", MODES)
async def test_every_packet_is_what_other_libraries_make_of_it(install: Install, mode: str) -> None:
    install()
    key, connection = os.urandom(32), connected()
    await describe(connection, mode, key)
    connection._player._sequence, connection._player._timestamp = 65_000, 2**32 - 960 * 500
    cipher, random_ = CIPHERS[mode](key), random.Random(1)
    lens = [0, 1, 1275, *(random_.randrange(1276) for _ in range(997))]
    payloads = list(map(random_.randbytes, lens))
    packets = await play(connection, payloads)
    for packet, payload in zip(packets, payloads, strict=True):
        header, suffix = packet[:12], packet[-4:]
        assert packet == header + cipher.encrypt(suffix, payload, header) + suffix
        assert header[:2] + header[8:] == b"\x80\x78" + SSRC.to_bytes(4)
    suffixes = [packet[-4:] for packet in packets]
    assert suffixes == [(0x8000_0000 + number).to_bytes(4, "little") for number in range(1000)]
    sequences = [int.from_bytes(packet[2:4]) for packet in packets]
    timestamps = [int.from_bytes(packet[4:8]) for packet in packets]
    assert sequences[:2] == [65_000, 65_001]
    assert min(sequences) < 500
    assert min(timestamps) < 960 * 500 < max(timestamps)


@pytest.mark.parametrize("mode", MODES)
async def test_the_same_key_again_goes_on_and_a_new_one_begins(install: Install, mode: str) -> None:
    install()
    connection = connected()
    first, second = os.urandom(32), os.urandom(32)
    counts = []
    for key in (first, first, second, first):
        await describe(connection, mode, key)
        opened = [open_sealed(CIPHERS[mode](key), packet) for packet in await play(connection, [OPUS] * 3)]
        assert [packet.payload for packet in opened] == [OPUS] * 3
        counts.append(int.from_bytes(opened[0].suffix, "little") - 0x8000_0000)
    assert counts == [0, 3, 0, 6]


@pytest.mark.parametrize("mode", MODES)
async def test_after_uninstall_a_connection_stays_ours(install: Install, mode: str) -> None:
    install()
    key, connection = os.urandom(32), connected()
    await describe(connection, mode, key)
    await play(connection, [OPUS])
    dvcrypto.dropin.uninstall()
    await describe(connection, mode, key)
    suffixes = [packet[-4:] for packet in await play(connection, [OPUS] * 3)]
    assert suffixes == [(0x8000_0001 + number).to_bytes(4, "little") for number in range(3)]


async def test_a_connection_from_before_goes_on_with_counted_nonces(install: Install) -> None:
    key, connection = os.urandom(32), connected()
    await describe(connection, GCM, key)
    assert {packet[-4:] for packet in await play(connection, [OPUS] * 3)} == {bytes(4)}
    install()
    suffixes = [packet[-4:] for packet in await play(connection, [OPUS] * 3)]
    await describe(connection, GCM, key)
    suffixes += [packet[-4:] for packet in await play(connection, [OPUS] * 3)]
    assert suffixes == [(0x8000_0000 + number).to_bytes(4, "little") for number in range(6)]


async def test_at_the_end_of_the_nonces_the_connection_ends(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    def near_its_end(mode: str, key: bytes) -> dvcrypto.Sealer:
        return dvcrypto.Sealer(mode, key, first_nonce=2**32 - 3)

    monkeypatch.setattr("dvcrypto.dropin._sending.Sealer", near_its_end)
    install()
    connection = connected()
    await describe(connection, GCM, os.urandom(32))
    assert len(await play(connection, [OPUS] * 3)) == 3
    with pytest.raises(dvcrypto.NonceExhausted):
        await play(connection, [OPUS])
    await asyncio.sleep(0.01)
    assert connection._client.left == [GUILD]


# The mode.


async def joined(connection: Any, modes: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Connect to a gateway that offers these modes: what was selected."""
    selected = []

    class Gateway(type(connection._gateway)):  # type: ignore[misc]
        async def connect(self, _url: str) -> None:
            ready = GatewayReadyPayload("127.0.0.1", list(modes), 1, SSRC)
            connection._client._tasks.create(self._callbacks[Opcode.READY](ready))

        async def select_protocol(self, _ip: str, _port: int, mode: str) -> None:
            selected.append(mode)
            await describe(connection, mode, bytes(32))

    async def discover(*_: Any) -> tuple[str, int]:
        return "127.0.0.1", 1

    monkeypatch.setattr(type(connection._server), "connect", discover)
    callbacks = connection._gateway._callbacks
    connection._gateway = Gateway(connection)
    connection._gateway._callbacks.update(callbacks)
    await asyncio.wait_for(connection._connect(), 5)
    return selected


@pytest.mark.parametrize("offered", [MODES, MODES[::-1]])
@pytest.mark.parametrize("preferred", [*MODES, None])
async def test_the_mode_is_our_choice(
    install: Install, monkeypatch: pytest.MonkeyPatch, offered: Sequence[str], preferred: str | None
) -> None:
    install(prefer=preferred)
    selected = await joined(connected(), ["other", *offered], monkeypatch)
    assert selected == [dvcrypto.choose_mode(offered, prefer=preferred)]


async def test_without_a_common_mode_connecting_says_so(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    with pytest.raises(dvcrypto.NoCommonMode, match="other"):
        await joined(connected(), ["other"], monkeypatch)


# Receiving.


async def record(mode: str, case: Case) -> tuple[list[bytes], set[str]]:
    """What of a case is recorded but for its last packet, and what is raised."""
    connection = connected()
    key = os.urandom(32)
    await describe(connection, mode, key)
    seal = sealer(CIPHERS[mode](key))
    raised = set()
    for datagram in [*case.datagrams(seal), seal(last())]:
        try:
            connection._server._rtp_packet(datagram)
        except Exception as error:
            raised.add(type(error).__name__)
    recorded = connection._server._buffers.get(SSRC, [])
    assert recorded.pop() == LAST
    return recorded, raised


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("mode", MODES)
async def test_all_speech_is_recorded_and_nothing_else(install: Install, mode: str, case: Case) -> None:
    install()
    assert await record(mode, case) == (list(case.speech), set())


ORIGINAL = {
    "CSRCs": "InvalidTag or CryptoError",
    "CSRCs and extension": "InvalidTag or CryptoError",
    "CSRCs, extension, padding": "InvalidTag or CryptoError",
    "padding": "recorded with the padding",
    "padding only": "padding is recorded",
    "extension and padding only": "padding is recorded",
    "no payload": "an empty frame is recorded",
    "replay": "recorded twice",
    **{f"junk of {length} bytes": "InvalidTag or ValueError" for length in (*range(12, 20), 40)},
    **{f"flipped bit in the {part}": "InvalidTag or CryptoError" for part in ("payload", "header", "tag", "nonce")},
}
"""What the library gets wrong by itself, in both modes. Exceptions are raised into the event loop."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("mode", MODES)
async def test_what_the_original_gets_wrong(mode: str, case: Case) -> None:
    """A release that does better shows here."""
    right = await record(mode, case) == (list(case.speech), set())
    assert right == (case.name not in ORIGINAL)


@pytest.mark.parametrize("mode", MODES)
async def test_new_keys_are_heard_and_late_packets_of_the_old_one(install: Install, mode: str) -> None:
    install()
    connection = connected()
    keys = os.urandom(32), os.urandom(32)
    seal_first, seal_second = (sealer(CIPHERS[mode](key)) for key in keys)
    await describe(connection, mode, keys[0])
    connection._server._rtp_packet(seal_first(rtp(b"first", sequence=1)))
    await describe(connection, mode, keys[1])
    connection._server._rtp_packet(seal_second(rtp(b"second", sequence=2)))
    connection._server._rtp_packet(seal_first(rtp(b"late", sequence=0)))
    assert connection._server._buffers[SSRC] == [b"first", b"second", b"late"]


async def test_who_speaks_is_told_by_what_opens(install: Install) -> None:
    install()
    connection = connected(record=False)
    key = os.urandom(32)
    seal = sealer(CIPHERS[GCM](key))
    connection._server._rtp_packet(seal(rtp(OPUS)))  # there is no key yet
    await describe(connection, GCM, key)
    connection._server._rtp_packet(rtp(bytes(40)))
    assert connection._client.events == []
    connection._server._rtp_packet(seal(rtp(OPUS)))
    assert [event.__name__ for event in connection._client.events] == ["MemberStartSpeakingEvent"]
    assert connection._server._buffers == {}


@pytest.mark.parametrize("mode", MODES)
async def test_rtcp_is_not_speech_whoever_it_may_seem_to_be_of(install: Install, mode: str) -> None:
    """Where RTP has its SSRC, a report is sealed already, and can look like anyone's."""
    install()
    connection, key = connected(), os.urandom(32)
    connection._client._cache.check_ssrc_connected = lambda _: True
    await describe(connection, mode, key)
    report = bytes.fromhex("80c80006") + SSRC.to_bytes(4) + bytes(20)
    connection._server._rtp_packet(sealer(CIPHERS[mode](key))(report))
    assert connection._server._buffers == {}
    assert connection._client.events == []


# End to end.


@pytest.mark.parametrize("mode", MODES)
async def test_what_others_say_is_recorded_over_a_new_key(install: Install, mode: str) -> None:
    install()
    frames = list(opus.frames()[:60])
    async with SmallDiscord([mode]) as server, peers.logged_in(server) as peer:
        connection = (await peer.join()).connection
        await server.voice.announce(SPEAKER_ID)
        await peers.eventually(lambda: peer.client._cache.check_ssrc_connected(SPEAKER_SSRC))
        recorded: list[bytes] = connection._server._buffers.setdefault(SPEAKER_SSRC, [])
        server.voice.say(frames[:30])
        await peers.eventually(lambda: len(recorded) == 30)
        await server.voice.describe()
        await peers.eventually(lambda: connection._secret == server.voice.generations[-1].key)
        server.voice.say(frames[30:])
        await peers.eventually(lambda: len(recorded) == 60)
    assert recorded == frames


@pytest.mark.parametrize("mode", MODES)
async def test_at_the_end_of_the_nonces_the_session_ends(
    install: Install, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    def near_its_end(mode: str, key: bytes) -> dvcrypto.Sealer:
        return dvcrypto.Sealer(mode, key, first_nonce=2**32 - 20)

    monkeypatch.setattr("dvcrypto.dropin._sending.Sealer", near_its_end)
    install()
    async with SmallDiscord([mode]) as server, peers.logged_in(server) as peer:
        voice = await peer.join()
        assert isinstance(await peer.play(voice, opus.frames()[:50]), dvcrypto.NonceExhausted)
        await server.voice.until(lambda: not server.voice.sockets)
        assert not voice.is_connected()
        assert server.voice.payloads == list(opus.frames()[:20])
        assert server.voice.faults == []
