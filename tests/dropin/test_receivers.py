"""The real readers and decryptors of discord-ext-voice-recv and py-cord, with dvcrypto in place of their decryption.

What they are sent is sealed by PyNaCl and ``cryptography``.
"""

import queue
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import receivers
from packets import CIPHERS, GCM, XCHACHA
from receivers import AUDIO, DAVE_MARK, KEYS, LIBRARY, SSRC, Case, DaveSession, Heard, Receiver, rtp, sealed

import dvcrypto

Install = Callable[..., None]
MODES = [GCM, XCHACHA]
CASES = receivers.cases()
DAVE_CASES = receivers.cases(DAVE_MARK) if LIBRARY == "py-cord" else []
discord_py = pytest.mark.skipif(LIBRARY != "discord.py", reason="of discord.py and discord-ext-voice-recv")
py_cord = pytest.mark.skipif(LIBRARY != "py-cord", reason="of py-cord")

pytestmark = pytest.mark.skipif(receivers.reader_module() is None, reason=f"{LIBRARY} has no receiver here")


def names(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


def check(receiver: Receiver, case: Case) -> None:
    """What had to be heard was heard and nothing else; the log tells of no fault, and not of the key."""
    assert receiver.heard == case.heard
    assert receiver.logged.tracebacks == []
    assert not receiver.logged.has_key


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=names(CASES))
def test_the_router_gets_what_was_said(install: Install, case: Case, mode: str) -> None:
    install()
    receiver = Receiver(mode)
    with receiver.watched():
        receiver.take(case.steps(mode))
    check(receiver, case)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", DAVE_CASES, ids=names(DAVE_CASES))
def test_dave_gets_the_payload_alone(install: Install, case: Case, mode: str) -> None:
    install()
    dave = DaveSession()
    receiver = Receiver(mode, dave=dave)
    with receiver.watched():
        receiver.take(case.steps(mode))
    check(receiver, case)
    assert dave.given == [DAVE_MARK + heard.payload for heard in case.heard if heard.kind == "rtp"]


@py_cord
def test_without_a_ready_dave_session_frames_are_as_they_came(install: Install) -> None:
    install()
    dave = DaveSession()
    dave.ready = False
    receiver = Receiver(GCM, dave=dave)
    receiver.take([sealed(GCM, rtp())])
    assert receiver.heard == [Heard("rtp", SSRC, AUDIO)]
    assert dave.given == []


def test_every_packet_sealed_otherwise_is_refused(install: Install) -> None:
    """Another mode, another key, a shorter tag, other associated data."""
    install()
    for mode, other in ((GCM, XCHACHA), (XCHACHA, GCM)):
        receiver = Receiver(mode)
        good = sealed(mode, rtp())
        header, suffix = good[:12], good[-4:]
        shortened = CIPHERS[mode](KEYS[0]).encrypt(suffix, AUDIO, b"")
        with receiver.watched():
            receiver.take(
                [sealed(other, rtp()), sealed(mode, rtp(), 1), good[:-5] + suffix, header + shortened + suffix, header]
            )
        assert receiver.heard == []
        assert receiver.logged.tracebacks == []


def test_unknown_senders_are_heard_but_for_their_silence(install: Install) -> None:
    install()
    receiver = Receiver(GCM)
    unknown = receivers.UNKNOWN_SSRC
    receiver.take([sealed(GCM, rtp(receivers.SILENCE, ssrc=unknown)), sealed(GCM, rtp(ssrc=unknown, sequence=2))])
    assert receiver.heard == [Heard("rtp", unknown, AUDIO)]


def test_random_datagrams_do_nothing(install: Install) -> None:
    install()
    draw = random.Random(11)
    for mode in MODES:
        receiver = Receiver(mode)
        with receiver.watched():
            for _ in range(3000):
                data = draw.randbytes(draw.randint(0, 120))
                receiver.take([bytes([0x80 | draw.randint(0, 63)]) + data if draw.random() < 0.7 else data])
        assert receiver.heard == []
        assert receiver.logged.tracebacks == []


def test_nothing_opens_and_nothing_fails_while_there_is_no_key(install: Install) -> None:
    install()
    receiver = Receiver(GCM)
    missing = sys.modules["discord.utils"].MISSING
    with receiver.watched():
        for key in (missing, None):
            receiver.client.secret_key = key
            receiver.take([sealed(GCM, rtp())])
    assert receiver.heard == []
    assert receiver.logged.tracebacks == []
    receiver.take([KEYS[1], sealed(GCM, rtp(), 1)])
    assert receiver.heard == [Heard("rtp", SSRC, AUDIO)]


def test_a_flood_of_forgeries_does_not_flood_the_log(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    receiver = Receiver(GCM)
    forged = [sealed(GCM, rtp(sequence=number), 1) for number in range(1, 101)]
    with receiver.watched():
        receiver.take(forged)
        monkeypatch.setattr("dvcrypto.dropin._receiving._WARNING_SECONDS", 0)  # as if they had passed
        receiver.take(forged[:1])
    warnings = [record.getMessage() for record in receiver.logged.records if record.levelname == "WARNING"]
    assert [message.partition(",")[0] for message in warnings] == [
        "packets with a wrong tag: 1",
        "packets with a wrong tag: 100",
    ]
    assert sum("has a wrong tag" in record.getMessage() for record in receiver.logged.records) == 101


# --- The decryptor called directly


def make_packet(data: bytes) -> Any:
    module = sys.modules["discord.ext.voice_recv.rtp" if LIBRARY == "discord.py" else "discord.voice.packets.rtp"]
    return module.RTPPacket(data)


@pytest.mark.parametrize("mode", MODES)
def test_a_decryptor_opens_what_it_is_given(install: Install, mode: str) -> None:
    install()
    decryptor = Receiver(mode).reader.decryptor
    for _ in range(2):  # the decryptor remembers nothing
        packet = make_packet(sealed(mode, rtp(csrcs=[1, 2], extension=receivers.ONE_WORD, padding=4)))
        assert decryptor.decrypt_rtp(packet) == AUDIO
        assert packet.extension_data == receivers.ONE_WORD_ELEMENTS
        assert packet.nonce == (5).to_bytes(4, "little")
    assert decryptor.decrypt_rtcp(sealed(mode, receivers.SENDER_REPORT)) == receivers.SENDER_REPORT
    decryptor.update_secret_key(KEYS[1])
    assert decryptor.decrypt_rtp(make_packet(sealed(mode, rtp(), 1))) == AUDIO


@pytest.mark.parametrize("mode", MODES)
def test_a_bad_packet_is_pynacls_crypto_error(install: Install, mode: str) -> None:
    from nacl.exceptions import CryptoError

    install()
    decryptor = Receiver(mode).reader.decryptor
    for bad in (sealed(mode, rtp(), 1), sealed(mode, rtp())[:20], receivers._flipped(sealed(mode, rtp()))[30]):
        with pytest.raises(CryptoError) as raised:
            decryptor.decrypt_rtp(make_packet(bad))
        assert KEYS[0].hex() not in repr(raised.value)
        with pytest.raises(CryptoError):
            decryptor.decrypt_rtcp(b"\x80\xc8" + bad[2:])


def test_what_a_reader_has_opened_is_not_given_to_another_packet(install: Install) -> None:
    """A report is opened for py-cord's reader, which never asks its decryptor for it."""
    install()
    receiver = Receiver(GCM)
    receiver.take([sealed(GCM, receivers.SENDER_REPORT)])
    assert receiver.reader.decryptor.decrypt_rtp(make_packet(sealed(GCM, rtp()))) == AUDIO


# --- Readers that were there before, and that are there after


def listeners(receiver: Receiver) -> list[Any]:
    """The callbacks that the reader's connection calls; it registers at once."""
    registered: list[Any] = []
    connection = receiver.client._connection
    connection.add_socket_listener, connection.remove_socket_listener = registered.append, registered.remove
    connection.socket = SimpleNamespace(sendto=lambda *_: None)
    connection.endpoint_ip, connection.voice_port = "127.0.0.1", 9
    receiver.client.wait_until_connected = receiver.client.is_connected = lambda *_: False
    receiver.client.stop_listening = receiver.client.stop_recording = lambda: None
    receiver.reader.sink.root = SimpleNamespace(walk_children=lambda **_: [])
    receiver.reader.start()
    return registered


def test_a_reader_that_was_there_before_stays_as_it_was(install: Install) -> None:
    receiver = Receiver(XCHACHA, dave=DaveSession() if LIBRARY == "py-cord" else None)
    registered = listeners(receiver)
    plain = rtp(DAVE_MARK + AUDIO, extension=(receivers.ONE_BYTE, bytes(8)))
    receiver.take([sealed(XCHACHA, plain)], feed=registered[0])
    install()
    receiver.take([sealed(XCHACHA, plain)], feed=registered[0])
    assert receiver.heard[0] == receiver.heard[1]
    receiver.reader.update_secret_key(KEYS[1])
    receiver.take([sealed(XCHACHA, plain, 1)], feed=registered[0])
    assert receiver.heard[2] == receiver.heard[1]
    receiver.reader.stop()
    assert registered == []


@pytest.mark.parametrize("mode", MODES)
def test_a_reader_of_ours_stays_so(install: Install, mode: str) -> None:
    install()
    receiver = Receiver(mode)
    registered = listeners(receiver)
    dvcrypto.dropin.uninstall()
    case = next(case for case in CASES if case.name == "a new key")
    with receiver.watched():
        if LIBRARY == "discord.py":
            receiver.take(case.steps(mode), feed=registered[0])
            check(receiver, case)
    receiver.reader.stop()
    assert registered == []


def test_after_uninstall_a_reader_is_the_librarys(install: Install) -> None:
    install()
    dvcrypto.dropin.uninstall()
    with pytest.raises(NotImplementedError):
        Receiver(GCM)
    assert type(Receiver(XCHACHA).reader.decryptor.box).__module__ == "nacl.secret"


# --- Through discord.py's own socket reader


class Wire:
    """A socket reader of discord.py's, on a loopback socket."""

    def __init__(self) -> None:
        from discord.voice_state import SocketReader

        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sender.connect(self.socket.getsockname())
        self.reader: Any = SocketReader(SimpleNamespace(socket=self.socket))

    def run(self, datagrams: list[bytes], callback: Callable[[bytes], Any]) -> None:
        """Have all of them wait on the socket before the reader first runs, and wait until it has read them."""
        read: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.reader.register(callback)
        self.reader.register(read.put)
        for datagram in datagrams:
            self.sender.send(datagram)
        if not self.reader.is_alive():
            self.reader.start()
        self.reader.resume()
        assert [read.get(timeout=10) for _ in datagrams] == datagrams
        self.reader.unregister(read.put)
        self.reader.unregister(callback)

    def close(self) -> None:
        self.reader.stop()
        self.sender.send(b"")  # wakes it
        self.reader.join(10)
        assert not self.reader.is_alive()
        self.sender.close()
        self.socket.close()


@pytest.fixture
def wire(install: Install) -> Iterator[Wire]:
    install()
    wire = Wire()
    yield wire
    wire.close()


@discord_py
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=names(CASES))
def test_bursts_off_a_socket_come_to_the_same(wire: Wire, case: Case, mode: str) -> None:
    receiver = Receiver(mode)
    with receiver.watched():
        waiting: list[bytes] = []
        for step in case.steps(mode):
            if step in KEYS:
                wire.run(waiting, receiver.reader.callback)
                receiver.take([step])
                waiting = []
            else:
                waiting.append(step)
        wire.run(waiting, receiver.reader.callback)
    check(receiver, case)


@discord_py
def test_all_that_waits_is_opened_in_one_burst(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    bursts: list[int] = []
    open_burst = dvcrypto.Opener.open_burst

    def counted(opener: Any, packets: Any) -> Any:
        bursts.append(len(packets))
        return open_burst(opener, packets)

    monkeypatch.setattr(dvcrypto.Opener, "open_burst", counted)
    receiver = Receiver(GCM)
    wire.run([sealed(GCM, rtp(sequence=number), counter=number) for number in range(150)], receiver.reader.callback)
    assert len(receiver.heard) == 150
    assert sum(bursts) == 150
    assert max(bursts) == 64


@discord_py
def test_a_callback_that_fails_takes_no_other_packet_with_it(wire: Wire) -> None:
    receiver = Receiver(GCM)
    notify = receiver.reader.speaking_timer.notify
    failures = iter([True, False, True])

    def failing(ssrc: int | None = None) -> None:
        if next(failures, False):
            raise RuntimeError("on purpose")
        notify(ssrc)

    receiver.reader.speaking_timer.notify = failing
    with receiver.watched():
        wire.run([sealed(GCM, rtp(sequence=number), counter=number) for number in range(9)], receiver.reader.callback)
    assert len(receiver.heard) == 7
    assert len(receiver.logged.tracebacks) == 2


@discord_py
def test_the_socket_reader_outlives_its_socket(wire: Wire) -> None:
    """As at a reconnect: no socket, a closed one, and another one in its place."""
    receiver, state = Receiver(GCM), wire.reader.state
    with receiver.watched():
        wire.run([sealed(GCM, rtp())], receiver.reader.callback)
        new, closed = wire.socket, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        closed.close()
        state.socket = closed
        wire.sender.send(b"")  # out of the wait for the old one
        for gone in (closed, sys.modules["discord.utils"].MISSING):
            state.socket = gone
            wire.reader.register(print)
            time.sleep(0.1)
            wire.reader.unregister(print)
            assert wire.reader.is_alive()
        state.socket = new
        wire.run([sealed(GCM, rtp(sequence=2), counter=6)], receiver.reader.callback)
    assert len(receiver.heard) == 2
    assert receiver.logged.tracebacks == []


@discord_py
def test_a_reader_that_is_paused_leaves_what_comes_on_the_socket(wire: Wire) -> None:
    read: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    wire.run([b"before"], read.put)
    wire.reader.register(read.put)
    wire.reader.pause()
    wire.sender.send(b"waited for already")
    assert [read.get(timeout=10), read.get(timeout=10)] == [b"before", b"waited for already"]
    wire.sender.send(b"while paused")
    time.sleep(0.2)
    assert read.empty()
    wire.reader.resume()
    assert read.get(timeout=10) == b"while paused"
