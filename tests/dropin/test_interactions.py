"""The real classes of interactions.py, with dvcrypto's backend and without it."""

import asyncio
import logging
import os
import random
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import opus
import peers
import pytest
from packets import CIPHERS, GCM, XCHACHA, open_sealed
from receive_cases import CASES, LAST, OPUS, SSRC, Case, last, rtp, sealer
from small_discord import SPEAKER_ID, SmallDiscord
from voice_server import SPEAKER_SSRC

import dvcrypto.dropin

pytest.importorskip("interactions.api.voice.recorder", exc_type=ImportError)

from interactions.api.voice import audio, audio_writer, recorder, voice_gateway

Install = Callable[..., None]
MODES = (GCM, XCHACHA)
READY, SESSION_DESCRIPTION = 2, 4
ENCODER = SimpleNamespace(samples_per_frame=960)
SPEAKER = 4001


class Main:
    """The main gateway: takes note of the channel that is asked for."""

    def __init__(self) -> None:
        self.channels: list[int | None] = []

    async def voice_state_update(self, guild: str, channel: int | None) -> None:
        assert guild == "2001"
        self.channels.append(channel)


def make_gateway() -> Any:
    """A voice gateway, its UDP socket, and one that hears it."""
    state = SimpleNamespace(client=SimpleNamespace(logger=logging.getLogger("interactions")), gateway=Main())
    server = {"endpoint": "small.discord.media", "token": "t", "guild_id": "2001"}
    gateway = voice_gateway.VoiceGateway(state, {"session_id": "s"}, server)
    gateway.socket, gateway.heard = _socket(), _socket()
    gateway.ssrc = SSRC
    gateway.voice_ip, gateway.voice_port = gateway.heard.getsockname()
    gateway.voice_modes = list(MODES)
    gateway.user_ssrc_map[SSRC] = {"user_id": SPEAKER, "speaking": 1}
    return gateway


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.setblocking(False)
    return made


@pytest.fixture
def gateway() -> Iterator[Any]:
    made = make_gateway()
    yield made
    made.socket.close()
    made.heard.close()


def describe(gateway: Any, mode: str, key: bytes) -> None:
    """What the gateway does with a session description."""
    description = {"mode": mode, "secret_key": list(key)}
    asyncio.run(gateway.dispatch_opcode(description, SESSION_DESCRIPTION))


def send(gateway: Any, payload: bytes) -> bytes:
    """Send a payload as the player does: the packet on the wire."""
    gateway.send_packet(payload, ENCODER, needs_encode=False)
    return bytes(gateway.heard.recv(4096))


# Installing.


def replaced() -> list[object]:
    """What is replaced, as it is now."""
    gateway_class, audio_class, recorder_class = voice_gateway.VoiceGateway, audio.RawInputAudio, recorder.Recorder
    gateway = [vars(gateway_class)[name] for name in ("generate_packet", "dispatch_opcode", "wait_until_ready")]
    return [*gateway, vars(recorder_class)["run"], vars(audio_class)["ingest"]]


def test_all_is_replaced_and_put_back(install: Install) -> None:
    before = replaced()
    install()
    (status,) = (library for library in dvcrypto.dropin.status() if library.name == "discord-py-interactions")
    assert status.state == "replaced"
    assert len(status.replaced) == len(before)
    assert all(old is not new for old, new in zip(before, replaced(), strict=True))
    dvcrypto.dropin.uninstall()
    assert replaced() == before


def test_a_release_that_seals_elsewhere_is_left_alone(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    before = replaced()
    monkeypatch.setattr(voice_gateway.VoiceGateway, "send_packet", lambda _: None)
    with pytest.warns(dvcrypto.dropin.DropinWarning, match="send_packet is not as expected"):
        install()
    assert replaced() == before


# Sending.


@pytest.mark.parametrize("mode", MODES)
def test_every_packet_is_what_other_libraries_make_of_it(install: Install, gateway: Any, mode: str) -> None:
    install()
    key = os.urandom(32)
    describe(gateway, mode, key)
    gateway.sock_sequence, gateway.timestamp = 65_000, 2**32 - 960 * 500
    cipher, random_ = CIPHERS[mode](key), random.Random(1)
    lens = [0, 1, 1275, *(random_.randrange(1276) for _ in range(997))]
    packets = []
    for number, payload in enumerate(map(random_.randbytes, lens)):
        packet = send(gateway, payload)
        header, suffix = packet[:12], packet[-4:]
        assert packet == header + cipher.encrypt(suffix, payload, header) + suffix
        assert header[:4] == b"\x80\x78" + ((65_001 + number) % 2**16).to_bytes(2)
        assert header[8:] == SSRC.to_bytes(4)
        packets.append(packet)
    suffixes = [packet[-4:] for packet in packets]
    assert suffixes == [(0x8000_0000 + number).to_bytes(4, "little") for number in range(1000)]
    timestamps = [int.from_bytes(packet[4:8]) for packet in packets]
    assert min(timestamps) < 960 * 500 < max(timestamps)


@pytest.mark.parametrize("mode", MODES)
def test_the_same_key_again_goes_on_and_a_new_one_begins(install: Install, gateway: Any, mode: str) -> None:
    install()
    first, second = os.urandom(32), os.urandom(32)
    counts = []
    for key in (first, first, second, first):
        describe(gateway, mode, key)
        opened = [open_sealed(CIPHERS[mode](key), send(gateway, OPUS)) for _ in range(3)]
        assert [packet.payload for packet in opened] == [OPUS] * 3
        counts.append(int.from_bytes(opened[0].suffix, "little") - 0x8000_0000)
    assert counts == [0, 3, 0, 6]


@pytest.mark.parametrize("mode", MODES)
def test_after_uninstall_a_connection_stays_ours(install: Install, gateway: Any, mode: str) -> None:
    install()
    key = os.urandom(32)
    describe(gateway, mode, key)
    send(gateway, OPUS)
    dvcrypto.dropin.uninstall()
    describe(gateway, mode, key)
    suffixes = [send(gateway, OPUS)[-4:] for _ in range(3)]
    assert suffixes == [(0x8000_0001 + number).to_bytes(4, "little") for number in range(3)]


def test_a_connection_from_before_goes_on_with_counted_nonces(install: Install, gateway: Any) -> None:
    key = os.urandom(32)
    describe(gateway, GCM, key)
    open_sealed(CIPHERS[GCM](key), send(gateway, OPUS))
    install()
    assert send(gateway, OPUS)[-4:] == b"\x00\x00\x00\x80"


def test_threads_share_one_counter(install: Install, gateway: Any) -> None:
    install()
    describe(gateway, GCM, os.urandom(32))
    suffixes: list[bytes] = []

    def seal() -> None:
        suffixes.extend([gateway.generate_packet(OPUS)[-4:] for _ in range(500)])

    threads = [threading.Thread(target=seal) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(suffixes)) == 2000


@pytest.mark.parametrize("offered", [MODES, MODES[::-1]])
@pytest.mark.parametrize("preferred", [*MODES, None])
async def test_the_mode_is_our_choice(
    install: Install, gateway: Any, monkeypatch: pytest.MonkeyPatch, offered: Sequence[str], preferred: str | None
) -> None:
    install(prefer=preferred)

    async def establish() -> None:
        """No socket."""

    monkeypatch.setattr(gateway, "establish_voice_socket", establish)
    ready = {"ip": "127.0.0.1", "port": 1, "ssrc": 1, "modes": ["other", *offered]}
    await gateway.dispatch_opcode(ready, READY)
    assert gateway.voice_modes == [dvcrypto.choose_mode(offered, prefer=preferred)]


async def test_at_the_end_of_the_nonces_the_connection_ends(
    install: Install, gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def near_its_end(mode: str, key: bytes) -> dvcrypto.Sealer:
        return dvcrypto.Sealer(mode, key, first_nonce=2**32 - 3)

    monkeypatch.setattr("dvcrypto.dropin._sending.Sealer", near_its_end)
    install()
    await gateway.dispatch_opcode({"mode": GCM, "secret_key": list(os.urandom(32))}, SESSION_DESCRIPTION)
    gateway._stopping = asyncio.create_task(gateway._close_gateway.wait())
    for _ in range(3):
        send(gateway, OPUS)
    for _ in range(2):
        with pytest.raises(dvcrypto.NonceExhausted):
            await asyncio.to_thread(send, gateway, OPUS)
    await asyncio.wait_for(gateway._stopping, 5)
    await asyncio.sleep(0.01)
    assert gateway.state.gateway.channels == [None, None]


# Receiving.


class Recorded(NamedTuple):
    """What became of a case."""

    speech: list[bytes]
    """All that the decoder was given, but for the last packet."""
    outcome: str


class Decoder:
    """Takes note of what it gets."""

    sample_rate = 48000

    def __init__(self, taken: list[bytes]) -> None:
        self._taken = taken

    def decode(self, data: bytes) -> bytes:
        self._taken.append(bytes(data))
        return bytes(3840)


class Recording:
    """A recorder of the library's, at work."""

    def __init__(self, gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shutil.which", lambda _: "ffmpeg")
        self.gateway = gateway
        self.taken: list[bytes] = []
        state = SimpleNamespace(ws=gateway, channel=SimpleNamespace(id=3001))
        self.recorder = recorder.Recorder(state, None)
        self.recorder._decoders = defaultdict(lambda: Decoder(self.taken))
        self.recorder.audio = audio_writer.AudioWriter(self.recorder, 3001)
        self.recorder.recording = True
        self.died: list[Any] = []
        monkeypatch.setattr(threading, "excepthook", self.died.append)
        self.recorder.start()
        time.sleep(0.03)  # until the socket is purged

    def feed(self, datagrams: Sequence[bytes]) -> None:
        for datagram in datagrams:
            self.gateway.heard.sendto(datagram, self.gateway.socket.getsockname())

    def until_last(self) -> Recorded:
        """Wait for the last packet."""
        deadline = time.monotonic() + 5
        while LAST not in self.taken and not self.died and time.monotonic() < deadline:
            time.sleep(0.002)
        arrived = LAST in self.taken
        self.recorder.recording = False
        self.recorder.join(5)
        outcome = "recorder dies" if self.died else "" if arrived else "deaf from then on"
        return Recorded([payload for payload in self.taken if payload != LAST], outcome)


def record(gateway: Any, monkeypatch: pytest.MonkeyPatch, case: Case) -> Recorded:
    seal = sealer(CIPHERS[gateway.selected_mode](bytes(gateway.secret)))
    recording = Recording(gateway, monkeypatch)
    recording.feed([*case.datagrams(seal), seal(last())])
    return recording.until_last()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("mode", MODES)
def test_the_decoder_gets_all_speech_and_nothing_else(
    install: Install, gateway: Any, monkeypatch: pytest.MonkeyPatch, mode: str, case: Case
) -> None:
    install()
    describe(gateway, mode, os.urandom(32))
    assert record(gateway, monkeypatch, case) == Recorded(list(case.speech), "")


ORIGINAL = {
    **{f"{form} extension of {words} words": "InvalidTag" for form in ("one-byte", "two-byte") for words in range(4)},
    "CSRCs": "InvalidTag",
    "CSRCs and extension": "InvalidTag",
    "CSRCs, extension, padding": "InvalidTag",
    "padding": "decoded with the padding",
    "padding only": "padding is decoded",
    "payload that begins as an extension": "4 bytes and 4 for each word are cut off",
    "junk of 0 bytes": "IndexError ends the recorder's thread",
    "junk of 1 bytes": "IndexError ends the recorder's thread",
    "replay": "decoded twice",
}
"""What the library gets wrong by itself in AES-256-GCM; in XChaCha20-Poly1305 it opens nothing."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_original_gets_wrong(gateway: Any, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    """A release that does better shows here."""
    describe(gateway, GCM, os.urandom(32))
    right = record(gateway, monkeypatch, case) == Recorded(list(case.speech), "")
    assert right == (case.name not in ORIGINAL)


@pytest.mark.parametrize("mode", MODES)
def test_new_keys_are_heard_and_late_packets_of_the_old_one(
    install: Install, gateway: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    install()
    first, second = os.urandom(32), os.urandom(32)
    describe(gateway, mode, first)
    recording = Recording(gateway, monkeypatch)
    seal_first, seal_second = sealer(CIPHERS[mode](first)), sealer(CIPHERS[mode](second))
    recording.feed([seal_first(rtp(b"first", sequence=1))])
    while not recording.taken:
        time.sleep(0.002)
    describe(gateway, mode, second)
    recording.feed([seal_second(rtp(b"second", sequence=2)), seal_first(rtp(b"late", sequence=0))])
    recording.feed([seal_second(last())])
    assert recording.until_last() == Recorded([b"first", b"second", b"late"], "")


def test_after_a_new_key_a_new_socket_is_read(install: Install, gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The discovery's answer, which is the first on it, is the gateway's."""
    install()
    describe(gateway, GCM, os.urandom(32))
    recording = Recording(gateway, monkeypatch)
    old, gateway.socket = gateway.socket, _socket()
    recording.feed([b"discovered"])
    time.sleep(0.05)
    assert gateway.socket.recv(74) == b"discovered"
    describe(gateway, GCM, os.urandom(32))
    recording.feed([sealer(CIPHERS[GCM](bytes(gateway.secret)))(last())])
    assert recording.until_last() == Recorded([], "")
    old.close()


def test_who_is_not_asked_for_is_not_decoded(install: Install, gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    describe(gateway, GCM, os.urandom(32))
    seal = sealer(CIPHERS[GCM](bytes(gateway.secret)))
    recording = Recording(gateway, monkeypatch)
    recording.recorder.recording_whitelist = [SPEAKER + 1]
    recording.feed([seal(rtp(OPUS))])
    time.sleep(0.1)
    recording.recorder.recording_whitelist = [SPEAKER]
    recording.feed([seal(last())])
    assert recording.until_last() == Recorded([], "")


# End to end.


@pytest.mark.parametrize("mode", MODES)
async def test_what_others_say_is_recorded_over_a_new_key(
    install: Install, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    install()
    frames = list(opus.frames()[:60])
    taken: list[bytes] = []
    async with SmallDiscord([mode]) as server, peers.logged_in(server) as peer:
        monkeypatch.setattr(recorder, "Decoder", lambda: Decoder(taken))
        voice = await peer.join()
        await server.voice.announce(SPEAKER_ID)
        await peers.eventually(lambda: SPEAKER_SSRC in voice.state.ws.user_ssrc_map)
        await voice.state.start_recording("pcm")
        await asyncio.sleep(0.1)  # until the socket is purged
        server.voice.say(frames[:30])
        await peers.eventually(lambda: len(taken) == 30)
        await server.voice.describe()
        await peers.eventually(lambda: bytes(voice.state.ws.secret) == server.voice.generations[-1].key)
        server.voice.say(frames[30:])
        await peers.eventually(lambda: len(taken) == 60)
        voice.state.recorder.recording = False
        await asyncio.to_thread(voice.state.recorder.join)
    assert taken == frames


@pytest.mark.parametrize("mode", MODES)
async def test_at_the_end_of_the_nonces_the_channel_is_left(
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
        await peers.eventually(lambda: peer.client.get_bot_voice_state(2001) is None)
        assert server.voice.payloads == list(opus.frames()[:20])
        assert server.voice.faults == []
