"""Bursts through real sockets: every packet once, in order, byte for byte, by every method the kernel has."""

import asyncio
import contextlib
import copy
import errno
import gc
import importlib.util
import json
import os
import pickle
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dvcrypto
from dvcrypto import _sending
from dvcrypto._arrivals import ADDRESS
from dvcrypto._library import ffi, lib
from dvcrypto.endpoint import BurstProtocol, SealedTransport, create_datagram_endpoint

MODE = "aead_aes256_gcm_rtpsize"
KEY = bytes(range(32))
HEADER = bytes.fromhex("8078000100000000000a0d10")
RELAY = Path(__file__).with_name("relay.py")
METHODS = [name for name, method in _sending.METHODS.items() if method <= lib.dv_wire_best()]
LINUX = sys.platform.startswith("linux")
by_every_method = pytest.mark.usefixtures("method")
on_linux = pytest.mark.skipif(not LINUX, reason="Linux alone has these calls")


def has_ipv6() -> bool:
    if not socket.has_ipv6:
        return False
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.bind(("::1", 0))
        return True
    return False


FAMILIES = [
    pytest.param(socket.AF_INET, id="IPv4"),
    pytest.param(
        socket.AF_INET6, id="IPv6", marks=pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
    ),
]


class Pair:
    """A sender and a receiver on loopback."""

    def __init__(self, family: int = socket.AF_INET) -> None:
        self.receiver = socket.socket(family, socket.SOCK_DGRAM)
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.receiver.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        self.receiver.settimeout(5)
        self.address = self.receiver.getsockname()
        self.sender = socket.socket(family, socket.SOCK_DGRAM)
        self.sealer = dvcrypto.Sealer(MODE, KEY)
        self.stream = dvcrypto.RtpStream(self.sealer, 1, 101)
        self.opener = dvcrypto.Opener(MODE, KEY)

    def connect(self) -> "Pair":
        self.sender.connect(self.address)
        return self

    def refuse(self) -> None:
        """From now on, what the sender sends. The port stays taken: one that is given back is somebody else's next."""
        self.receiver.connect(self.address)  # it hears nobody but itself

    def accept(self) -> None:
        """From now on, what the connected sender sends."""
        self.receiver.connect(self.sender.getsockname())

    def get(self, count: int) -> list[bytes]:
        return [self.receiver.recv(65536) for _ in range(count)]

    def nothing_more(self) -> bool:
        return not select.select([self.receiver], [], [], 0.02)[0]

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    monkeypatch.setattr(_sending, "best_method", _sending.METHODS[name])
    monkeypatch.setattr(dvcrypto.wire, "best_method", _sending.METHODS[name])
    return name


def burst_of(pair: Pair, lens: list[int]) -> dvcrypto.Burst:
    return pair.sealer.seal_burst([HEADER + os.urandom(length) for length in lens])


def send_natively(sock: socket.socket, to: Any, burst: dvcrypto.Burst, rate: float = 0.0) -> Any:
    """Send a burst; its dv_sending."""
    told: list[bytes] = []
    address, method = _sending.native_address(sock, to), _sending.method_of(sock)
    where = sock.fileno(), id(address) if address else 0, id(burst._sealed), id(burst._ends)
    result = lib.dv_python_send(*where, 0, 0, -1, method, rate, 0, 1, id(told))
    assert _sending.read_progress(sock, result, told).sent == len(burst)
    return ffi.from_buffer("dv_sending *", told[0])


def system_calls(pair: Pair, burst: dvcrypto.Burst) -> int:
    """How many it takes to send a burst."""
    return int(send_natively(pair.sender, pair.address, burst).system_calls)


LENS = {
    "equal": [1200] * 40,
    "a shorter last": [1200] * 40 + [7],
    "none alike": [3 + 17 * i for i in range(50)],
    "growing and falling": [100, 100, 200, 200, 50, 50, 60, 1200, 1200, 3],
    "more than a call takes": [30] * 150,
    "large": [40000, 40000, 40000, 60000, 1],
    "one": [200],
    "none": [],
}


# Sending


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "with an address"])
@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
@by_every_method
def test_every_packet_arrives_once_in_order_byte_for_byte(family: int, connected: bool, lens: list[int]) -> None:
    with contextlib.closing(Pair(family)) as pair:
        if connected:
            pair.connect()
        burst = burst_of(pair, lens)
        assert burst.send(pair.sender, None if connected else pair.address) == len(lens)
        assert pair.get(len(lens)) == burst.tolist()
        assert pair.nothing_more()


@pytest.mark.parametrize(("name", "calls"), [("gso", 1), ("mmsg", 1), ("loop", 40)])
def test_a_frame_takes_as_few_system_calls_as_the_method_has(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, name: str, calls: int
) -> None:
    if name not in METHODS:
        pytest.skip(f"this system has no {name}")
    monkeypatch.setattr(_sending, "best_method", _sending.METHODS[name])
    assert system_calls(pair, burst_of(pair, [1200] * 40)) == calls


@by_every_method
def test_a_burst_in_the_callers_buffer_is_sent_from_there(pair: Pair) -> None:
    out = bytearray(100_000)
    burst = pair.sealer.seal_burst_into([HEADER + bytes(1000)] * 30, out)
    assert burst.send(pair.sender, pair.address) == 30
    assert pair.get(30) == burst.tolist()


@by_every_method
def test_start_goes_on_from_there(pair: Pair) -> None:
    burst = burst_of(pair, [500] * 10)
    assert burst.send(pair.sender, pair.address, start=7) == 3
    assert pair.get(3) == burst.tolist()[7:]
    assert burst.send(pair.sender, pair.address, start=10) == 0
    for wrong in (-1, 11, 2**70):
        with pytest.raises(ValueError, match=f"start is {wrong}; it must be from 0 to 10"):
            burst.send(pair.sender, pair.address, start=wrong)


@by_every_method
def test_a_stream_seals_and_sends_a_frame_in_one_call(pair: Pair) -> None:
    result = pair.stream.send_frame(pair.sender, bytes(50_000), pair.address, advance=3000)
    assert result.sent == len(result.burst) == 43
    assert pair.get(43) == result.burst.tolist()
    assert (pair.stream.sequence, pair.stream.timestamp) == (43, 3000)
    opened = pair.opener.open_burst(result.burst)
    assert b"".join(packet.payload for packet in opened if packet) == bytes(50_000)
    assert [packet.header.marker for packet in opened if packet] == [False] * 42 + [True]


@on_linux
@by_every_method
def test_a_full_non_blocking_socket_says_how_many_left(pair: Pair) -> None:
    ours, theirs = small_socket_pair()
    with ours, theirs:
        burst = burst_of(pair, [1200] * 400)
        ours.setblocking(False)
        sent = burst.send(ours)
        assert 0 < sent < 400
        assert burst.send(ours, start=sent) == 0
        got = 0
        while sent < 400:
            for _ in range(sent - got):
                assert theirs.recv(65536) == burst[got]
                got += 1
            sent += burst.send(ours, start=sent)
        assert [theirs.recv(65536) for _ in range(400 - got)] == burst.tolist()[got:]


def small_socket_pair() -> tuple[socket.socket, socket.socket]:
    """UNIX datagrams: unlike UDP on loopback they wait in the sender's account until they are read. No GSO there.

    By then the kernel was asked, over UDP, what it has.
    """
    with socket.socket(type=socket.SOCK_DGRAM) as udp:
        dvcrypto.Burst(bytes(2), ends_of([1, 1])).send(udp, ("127.0.0.1", 9))
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


def wait_for_the_first_of(sock: socket.socket) -> None:
    """Until something is there. A long send is under way by then, without the GIL."""
    assert select.select([sock], [], [], 60)[0]


@on_linux
@by_every_method
def test_a_timeout_counts_what_left_and_is_raised_where_nothing_did(pair: Pair) -> None:
    ours, theirs = small_socket_pair()
    with ours, theirs:
        burst = burst_of(pair, [1200] * 400)
        ours.settimeout(0.05)
        sent = burst.send(ours)
        assert 0 < sent < 400
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            burst.send(ours, start=sent)
        assert 0.04 < time.monotonic() - began < 5
        with pytest.raises(TimeoutError) as caught:
            pair.stream.send_frame(ours, bytes(5000))
        assert len(caught.value.burst) == 5  # type: ignore[attr-defined]
        assert pair.stream.sequence == 5


@on_linux
@by_every_method
def test_a_blocking_socket_waits_without_the_gil(pair: Pair) -> None:
    ours, theirs = small_socket_pair()
    with ours, theirs:
        burst = burst_of(pair, [1200] * 400)
        got: list[bytes] = []
        reader = threading.Thread(daemon=True, target=lambda: got.extend(theirs.recv(65536) for _ in range(400)))
        threading.Timer(0.05, reader.start).start()
        assert burst.send(ours) == 400
        reader.join()
        assert got == burst.tolist()


@on_linux
def test_a_socket_closed_meanwhile_does_not_send_into_another(pair: Pair) -> None:
    """The number is used again at once, by a socket of somebody else; what is under way keeps the old one."""
    ours, theirs = small_socket_pair()
    burst = burst_of(pair, [1200] * 400)
    sent: list[int] = []
    number = ours.fileno()
    with theirs:
        sender = threading.Thread(daemon=True, target=lambda: sent.append(burst.send(ours)))
        sender.start()
        wait_for_the_first_of(theirs)
        ours.close()
        others = small_socket_pair()
        assert number in {other.fileno() for other in others}
        assert [theirs.recv(65536) for _ in range(400)] == burst.tolist()
        sender.join()
        assert sent == [400]
        for other in others:
            other.setblocking(False)
            with pytest.raises(BlockingIOError):
                other.recv(1)
            other.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers")
@pytest.mark.parametrize("at_once", [True, False], ids=["send_frame", "send"])
def test_signal_handlers_run_while_a_send_waits(pair: Pair, at_once: bool) -> None:
    ours, theirs = small_socket_pair()
    handled: list[float] = []
    got: list[bytes] = []

    def read_slowly() -> None:
        while len(got) < 300:
            time.sleep(0.001)
            got.append(theirs.recv(65536))

    with ours, theirs:
        ours.settimeout(30)
        reader = threading.Thread(daemon=True, target=read_slowly)
        reader.start()
        before = signal.signal(signal.SIGALRM, lambda *_: handled.append(time.monotonic()))
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        try:
            if at_once:
                burst, sent = pair.stream.send_frame(ours, bytes(300 * 1168))
            else:
                burst = burst_of(pair, [1200] * 300)
                sent = burst.send(ours)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert sent == 300
        reader.join()
        assert got == burst.tolist()
        assert len(handled) >= 5


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers")
def test_a_signal_handler_may_send_while_a_send_waits(pair: Pair) -> None:
    """The handler's sending is over when the one that it interrupted reads how far it came."""
    ours, theirs = small_socket_pair()
    burst, tick = burst_of(pair, [1200] * 300), burst_of(pair, [5])
    got: list[bytes] = []

    def read_slowly() -> None:
        with contextlib.suppress(TimeoutError):
            while len(got) < 300:
                time.sleep(0.001)
                got.append(theirs.recv(65536))

    with ours, theirs:
        theirs.settimeout(5)
        ours.settimeout(30)
        reader = threading.Thread(daemon=True, target=read_slowly)
        reader.start()
        before = signal.signal(signal.SIGALRM, lambda *_: tick.send(pair.sender, pair.address))
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        try:
            sent = burst.send(ours)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        reader.join()
        assert sent == 300
        assert got == burst.tolist()
        assert pair.get(1) == tick.tolist()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers")
@pytest.mark.parametrize("at_once", [True, False], ids=["send_frame", "send"])
def test_a_socket_that_a_signal_handler_closes_does_not_hide_what_left(pair: Pair, at_once: bool) -> None:
    ours, theirs = small_socket_pair()

    def close(*_: object) -> None:
        if select.select([theirs], [], [], 0)[0]:  # not before something has left
            ours.close()

    with ours, theirs:
        before = signal.signal(signal.SIGALRM, close)
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        try:
            if at_once:
                burst, sent = pair.stream.send_frame(ours, bytes(400 * 1168))
            else:
                burst = burst_of(pair, [1200] * 400)
                sent = burst.send(ours)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        theirs.setblocking(False)
        assert 0 < sent < 400
        assert [theirs.recv(65536) for _ in range(sent)] == burst.tolist()[:sent]
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers")
def test_signals_do_not_lengthen_a_timeout(pair: Pair) -> None:
    ours, theirs = small_socket_pair()
    with ours, theirs:
        ours.settimeout(0.2)
        before = signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        began = time.monotonic()
        try:
            assert 0 < burst_of(pair, [1200] * 400).send(ours) < 400
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert 0.15 < time.monotonic() - began < 5


@by_every_method
def test_a_refused_connection_is_told_as_an_error_or_a_count(pair: Pair) -> None:
    pair.connect().refuse()
    burst = burst_of(pair, [100] * 3)
    counted, refused = 0, 0
    for _ in range(6):
        try:
            counted += burst.send(pair.sender)
        except ConnectionRefusedError:
            refused += 1
        time.sleep(0.01)
    assert refused or counted < 18
    assert counted <= 3 * (6 - refused)


def refused_before(pair: Pair) -> None:
    """The sender's next call is told of a packet that nobody took; then somebody listens there."""
    pair.connect().refuse()
    pair.sender.send(b"to nobody")
    pair.accept()


@on_linux
@by_every_method
def test_an_earlier_refusal_is_raised_before_the_first_packet_and_sending_again_sends_all_once(pair: Pair) -> None:
    burst = burst_of(pair, [100] * 3)
    refused_before(pair)
    with pytest.raises(ConnectionRefusedError):
        burst.send(pair.sender)
    assert pair.nothing_more()
    assert burst.send(pair.sender) == 3
    assert pair.get(3) == burst.tolist()
    refused_before(pair)
    with pytest.raises(ConnectionRefusedError) as caught:
        pair.stream.send_frame(pair.sender, bytes(5000))
    assert pair.nothing_more()
    burst = caught.value.burst  # type: ignore[attr-defined]
    assert burst.send(pair.sender) == 5
    assert pair.get(5) == burst.tolist()


@on_linux
@by_every_method
def test_a_peer_that_refuses_every_packet_stops_no_burst_and_is_told_before_the_next(pair: Pair) -> None:
    pair.connect().refuse()
    for _ in range(3):
        assert burst_of(pair, [100, 100, 50, 70]).send(pair.sender) == 4
        with pytest.raises(ConnectionRefusedError):
            pair.stream.send_frame(pair.sender, bytes(5000))


@on_linux
@by_every_method
def test_a_packet_longer_than_the_path_is_an_error_where_it_is_the_first(pair: Pair) -> None:
    pair.connect()
    pair.sender.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: never in pieces
    burst = dvcrypto.Burst(bytes(3 * 100 + 65535), ends_of([100, 100, 100, 65535]))
    assert burst.send(pair.sender) == 3
    with pytest.raises(OSError) as caught:  # noqa: PT011
        burst.send(pair.sender, start=3)
    assert caught.value.errno == errno.EMSGSIZE
    assert len(pair.get(3)) == 3


def ends_of(lens: list[int]) -> bytes:
    ends, end = b"", 0
    for length in lens:
        end += length
        ends += end.to_bytes(8, sys.byteorder)
    return ends


def test_ends_that_lead_out_of_the_buffer_are_refused(pair: Pair) -> None:
    for wrong in (ends_of([100, 1]), ends_of([50, 60]), (90).to_bytes(8, sys.byteorder) + bytes(8)):
        with pytest.raises(ValueError, match="no packets in its buffer"):
            dvcrypto.Burst(bytes(100), wrong).send(pair.sender, pair.address)
    assert pair.nothing_more()


@on_linux
def test_a_refusal_is_remembered_for_the_socket_and_for_no_other(pair: Pair) -> None:
    if "gso" not in METHODS:
        pytest.skip("no GSO here")
    pair.sender.setsockopt(socket.SOL_SOCKET, 11, 1)  # SO_NO_CHECK: no checksums, and then the kernel cuts nothing
    burst = burst_of(pair, [1200] * 40)
    for calls in (2, 1):
        assert system_calls(pair, burst) == calls
        assert pair.get(40) == burst.tolist()
    assert _sending.method_of(pair.sender) == lib.DV_WIRE_MMSG
    with socket.socket(type=socket.SOCK_DGRAM) as other:
        assert _sending.method_of(other) == lib.DV_WIRE_GSO


def test_a_socket_wrapper_without_weak_references_sends_too(pair: Pair) -> None:
    """There is nothing to remember a refusal by, neither its own nor another socket's."""
    burst = burst_of(pair, [1200] * 40)
    for refused in (True, False):
        wrapper = TransportSocket(pair.sender)
        wrapper.setsockopt(socket.SOL_SOCKET, 11 if LINUX else socket.SO_REUSEADDR, refused)  # SO_NO_CHECK
        assert burst.send(wrapper, pair.address) == 40  # type: ignore[arg-type]
        assert pair.get(40) == burst.tolist()
        burst.send(pair.sender, pair.address)
        pair.get(40)


def test_sockets_that_are_none_are_refused(pair: Pair) -> None:
    burst = burst_of(pair, [10])
    closed = socket.socket(type=socket.SOCK_DGRAM)
    closed.close()
    with pytest.raises(OSError, match="the socket is closed") as caught:
        burst.send(closed, pair.address)
    assert caught.value.errno == errno.EBADF
    with socket.socket() as tcp, pytest.raises(ValueError, match="must be a UDP socket"):
        burst.send(tcp)
    for none in (5, None, "udp"):
        for call in (
            lambda: burst.send(none),  # type: ignore[arg-type]  # noqa: B023
            lambda: burst.send(none, pair.address, rate=1e6),  # type: ignore[arg-type]  # noqa: B023
            lambda: pair.stream.send_frame(none, b"frame", pair.address),  # type: ignore[arg-type]  # noqa: B023
            lambda: asyncio.run(burst.send_async(none, pair.address)),  # type: ignore[arg-type]  # noqa: B023
        ):
            with pytest.raises(TypeError, match=f"sock is {none!r}; it must be a UDP socket"):
                call()
    assert pair.stream.sequence == 0


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        (("example.org", 5), ValueError, "address host is 'example.org'; it must be a numeric IPv4 address"),
        (("localhost", 5), ValueError, "address host is 'localhost'"),
        (("", 5), ValueError, "address host is ''"),
        (("::1", 5), ValueError, "address host is '::1'"),
        (("127.0.0.1", 65536), ValueError, "address port is 65536"),
        (("127.0.0.1", "5"), TypeError, "address is"),
        (("127.0.0.1",), TypeError, "address is"),
        (("127.0.0.1", 5, 0), TypeError, "address is"),
        ("127.0.0.1:5", TypeError, "address is"),
        (5, TypeError, "address is 5"),
    ],
)
def test_addresses_that_are_none_are_named(pair: Pair, address: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        burst_of(pair, [10]).send(pair.sender, address)


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
def test_an_interface_that_was_made_anew_is_looked_up_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    scopes = []
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        for number in (7, 8):
            found = [(socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("fe80::1%dv0", 9, 0, number))]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
            native = _sending.native_address(sender, ("fe80::1%dv0", 9))
            scopes.append(ADDRESS.unpack(native)[2] if native else None)
    assert scopes == [7, 8]


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
def test_an_ipv6_socket_reaches_an_ipv4_address(pair: Pair) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        burst = burst_of(pair, [10, 10])
        assert burst.send(sender, pair.address) == 2
        assert pair.get(2) == burst.tolist()


@pytest.mark.parametrize("name", ["gso", "mmsg", "loop", "fast"])
def test_the_environment_forces_a_method_or_says_which_there_are(name: str) -> None:
    program = "import dvcrypto; from dvcrypto import _sending; print(_sending.best_method)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "DVCRYPTO_WIRE": name},
        capture_output=True,
        text=True,
        check=False,
    )
    if name in METHODS:
        assert run.stdout.strip() == str(_sending.METHODS[name])
    elif name == "fast":
        assert "ValueError: DVCRYPTO_WIRE is 'fast'; it must be loop, mmsg, gso" in run.stderr
    else:
        assert f"DVCRYPTO_WIRE is {name!r}; this system has" in run.stderr


def test_threads_share_a_socket(pair: Pair) -> None:
    pair.connect()
    bursts = [burst_of(pair, [1000 + i] * 20) for i in range(8)]
    threads = [threading.Thread(daemon=True, target=lambda burst=burst: burst.send(pair.sender)) for burst in bursts]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = pair.get(160)
    for burst in bursts:
        assert [packet for packet in got if len(packet) == len(burst[0])] == burst.tolist()


# Receiving


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("gro", [True, False], ids=["GRO", "no GRO"])
def test_a_receiver_opens_all_in_order(method: str, family: int, gro: bool) -> None:
    with contextlib.closing(Pair(family)) as pair, dvcrypto.Receiver(pair.receiver, pair.opener, gro=gro) as receiver:
        assert receiver.gro == (gro and method == "gso")
        frame = os.urandom(100_000)
        pair.stream.send_frame(pair.sender, frame, pair.address)
        packets: list[Any] = []
        addresses: set[Any] = set()
        while len(packets) < 86:
            burst = receiver.receive(max_packets=17, timeout=5)
            assert 1 <= len(burst) <= 17
            packets += burst
            addresses |= set(burst.addresses)
        assert b"".join(packet.payload for packet in packets) == frame
        port = pair.sender.getsockname()[1]
        assert addresses == {("127.0.0.1", port) if family == socket.AF_INET else ("::1", port, 0, 0)}
        assert not receiver.receive(timeout=0)
        assert pair.opener.stats.ok == 86


@by_every_method
def test_what_does_not_open_has_a_status_and_touches_nothing(pair: Pair) -> None:
    with dvcrypto.Receiver(pair.receiver, pair.opener) as receiver:
        sealed = burst_of(pair, [50] * 3).tolist()
        forged = sealed[1][:-1] + bytes([sealed[1][-1] ^ 1])
        for datagram in (sealed[0], forged, b"", bytes(8), b"junk", sealed[2]):
            pair.sender.sendto(datagram, pair.address)
        burst = gather(receiver, 6)
        expected = ["ok", "bad_tag", "truncated", "not_media", "truncated", "ok"]
        assert [str(status) for status in burst] == expected


def gather(receiver: dvcrypto.Receiver, count: int) -> list[dvcrypto.Status]:
    statuses: list[dvcrypto.Status] = []
    while len(statuses) < count:
        burst = receiver.receive(timeout=5)
        assert burst
        statuses += burst.statuses
    return statuses


@by_every_method
@pytest.mark.parametrize("gro", [True, False], ids=["GRO", "no GRO"])
def test_a_datagram_longer_than_there_is_room_for_is_truncated(pair: Pair, gro: bool) -> None:
    with dvcrypto.Receiver(pair.receiver, pair.opener, max_packet=500, gro=gro) as receiver:
        good = burst_of(pair, [400, 468])
        good.send(pair.sender, pair.address)
        burst_of(pair, [469, 469, 100]).send(pair.sender, pair.address)
        bursts: list[dvcrypto.OpenedBurst] = []
        while sum(map(len, bursts)) < 5:
            bursts.append(receiver.receive(timeout=5))
        statuses = [str(status) for burst in bursts for status in burst.statuses]
        assert statuses == ["ok", "ok", "truncated", "truncated", "ok"]
        reasons = [burst.reason(i) for burst in bursts for i in range(len(burst))]
        assert reasons[2]
        assert "is a datagram of 501 bytes or more; the receiver has room for 500" in reasons[2]
        assert pair.opener.stats.truncated == 2


def test_a_receiver_waits_as_long_as_it_is_told(pair: Pair) -> None:
    with dvcrypto.Receiver(pair.receiver, pair.opener) as receiver:
        began = time.monotonic()
        assert not receiver.receive(timeout=0.05)
        pair.receiver.settimeout(0.05)
        assert not receiver.receive()
        assert 0.09 < time.monotonic() - began < 5
        pair.receiver.setblocking(False)
        assert not receiver.receive()
        pair.receiver.setblocking(True)
        threading.Timer(0.05, lambda: burst_of(pair, [9]).send(pair.sender, pair.address)).start()
        assert len(receiver.receive()) == 1


@pytest.mark.parametrize(
    ("timeout", "error", "message"),
    [
        (-0.5, ValueError, "timeout is -0.5; it must be at least 0"),
        (float("nan"), ValueError, "timeout is nan; it must be at least 0"),
        ("1", TypeError, "timeout must be a number, not str"),
    ],
)
def test_a_timeout_that_is_none_is_refused(pair: Pair, timeout: Any, error: type[Exception], message: str) -> None:
    with dvcrypto.Receiver(pair.receiver, pair.opener) as receiver:
        burst_of(pair, [9]).send(pair.sender, pair.address)
        with pytest.raises(error, match=message):
            receiver.receive(timeout=timeout)
        with pytest.raises(error, match=message):
            asyncio.run(receiver.receive_async(timeout=timeout))
        assert len(receiver.receive(timeout=5)) == 1


@pytest.mark.parametrize("timeout", [float("inf"), 1e300, 10**400], ids=["inf", "1e300", "10**400"])
def test_a_timeout_may_be_longer_than_anyone_lives(pair: Pair, runner: asyncio.Runner, timeout: float) -> None:
    with dvcrypto.Receiver(pair.receiver, pair.opener) as receiver:
        threading.Timer(0.05, lambda: burst_of(pair, [9]).send(pair.sender, pair.address)).start()
        assert len(receiver.receive(timeout=timeout)) == 1
        threading.Timer(0.05, lambda: burst_of(pair, [9]).send(pair.sender, pair.address)).start()
        assert len(runner.run(receiver.receive_async(timeout=timeout))) == 1


@on_linux
def test_a_socket_that_is_shut_down_for_reading_is_not_waited_for(pair: Pair) -> None:
    """It is always ready and has nothing: a receiver would ask it for ever."""
    pair.connect()
    with dvcrypto.Receiver(pair.sender, pair.opener) as receiver:
        threading.Timer(0.05, lambda: pair.sender.shutdown(socket.SHUT_RD)).start()
        began = time.monotonic()
        assert not receiver.receive(timeout=30)
        assert time.monotonic() - began < 25


def test_times_are_the_kernels(pair: Pair) -> None:
    try:
        receiver = dvcrypto.Receiver(pair.receiver, pair.opener, timestamps=True)
    except OSError as error:
        pytest.skip(str(error))
    with receiver:
        before = time.time_ns()
        burst_of(pair, [30] * 5).send(pair.sender, pair.address)
        burst = receiver.receive(timeout=5)
        assert all(before - 10**7 < at < time.time_ns() + 10**7 for at in burst.times if at is not None)
        assert None not in burst.times
    assert pair.opener.open_burst([b""]).times == (None,)
    assert pair.opener.open_burst([b""]).addresses == (None,)


def test_a_closed_opener_loses_nothing_and_a_closed_receiver_says_so(pair: Pair) -> None:
    receiver = dvcrypto.Receiver(pair.receiver, pair.opener)
    burst_of(pair, [30]).send(pair.sender, pair.address)
    pair.opener.close()
    for _ in range(2):
        with pytest.raises(ValueError, match="the opener is closed"):
            receiver.receive(timeout=5)
    receiver.close()
    receiver.close()
    with pytest.raises(ValueError, match="the receiver is closed"):
        receiver.receive(timeout=0)
    other = dvcrypto.Receiver(pair.receiver, dvcrypto.Opener(MODE, KEY))
    pair.receiver.close()
    with pytest.raises(OSError, match="the socket is closed"):
        other.receive(timeout=0)
    other.close()


def test_a_signal_handler_may_receive_and_close(pair: Pair) -> None:
    receiver = dvcrypto.Receiver(pair.receiver, pair.opener)
    burst_of(pair, [30]).send(pair.sender, pair.address)
    with receiver._lock:  # as a handler finds it that came in between
        assert len(receiver.receive(timeout=5)) == 1
        receiver.close()


def test_closing_turns_gro_off(pair: Pair) -> None:
    with dvcrypto.Receiver(pair.receiver, pair.opener):
        pass
    burst = burst_of(pair, [1000] * 5)
    burst.send(pair.sender, pair.address)
    assert pair.get(5) == burst.tolist()


def test_what_another_has_left_on_is_turned_off_where_there_is_no_room_for_it(pair: Pair) -> None:
    left_on = dvcrypto.Receiver(pair.receiver, pair.opener)
    with dvcrypto.Receiver(pair.receiver, pair.opener, gro=False) as receiver:
        burst_of(pair, [1000] * 5).send(pair.sender, pair.address)
        assert gather(receiver, 5) == [dvcrypto.Status.OK] * 5
    left_on.close()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_packet": 0}, ValueError, "max_packet is 0; it must be from 1 to 65535"),
        ({"max_packet": 65536}, ValueError, "max_packet is 65536"),
        ({"opener": 5}, TypeError, "opener must be an Opener, not int"),
    ],
)
def test_a_receiver_refuses_wrong_arguments(
    pair: Pair, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        dvcrypto.Receiver(pair.receiver, **{"opener": pair.opener, **arguments})
    with pytest.raises(ValueError, match="max_packets is 0; it must be from 1 to 1024"):
        dvcrypto.Receiver(pair.receiver, pair.opener).receive(max_packets=0)


@pytest.mark.parametrize("most", [5, 1024])
def test_threads_share_a_receiver(pair: Pair, most: int) -> None:
    """With more than 32 KiB at a time, opening gives up the GIL."""
    with dvcrypto.Receiver(pair.receiver, pair.opener) as receiver:
        counts: list[int] = []
        room, done = threading.Semaphore(120), threading.Event()  # of packets, which any socket's buffer holds

        def take() -> None:
            count = 0
            while (burst := receiver.receive(max_packets=most, timeout=0.05)) or not done.is_set():
                count += burst.statuses.count(dvcrypto.Status.OK)
                if burst:
                    room.release(len(burst))
            counts.append(count)

        threads = [threading.Thread(daemon=True, target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(40):
            assert all(room.acquire(timeout=60) for _ in range(40))
            burst_of(pair, [1200] * 40).send(pair.sender, pair.address)
        done.set()
        for thread in threads:
            thread.join()
        assert sum(counts) == 1600


@on_linux
@by_every_method
def test_a_refused_connection_is_told_to_the_receiver(pair: Pair) -> None:
    pair.connect().refuse()
    with dvcrypto.Receiver(pair.sender, pair.opener) as receiver:
        pair.sender.send(b"to nobody")
        with pytest.raises(ConnectionRefusedError):
            receiver.receive(timeout=5)
        assert not receiver.receive(timeout=0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_receives_too(pair: Pair) -> None:
    with dvcrypto.Receiver(pair.receiver, pair.opener) as receiver:
        receiver._lock.acquire()  # as another thread may hold it
        child = os.fork()
        if child == 0:
            burst_of_child = receiver.receive(timeout=5)
            os._exit(len(burst_of_child))
        receiver._lock.release()
        burst_of(pair, [30] * 7).send(pair.sender, pair.address)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# asyncio


def loop_factories() -> list[Any]:
    factories = [pytest.param(asyncio.SelectorEventLoop, id="asyncio")]
    if importlib.util.find_spec("uvloop"):
        import uvloop  # type: ignore[import-not-found,unused-ignore]

        factories.append(pytest.param(uvloop.new_event_loop, id="uvloop"))
    else:
        factories.append(pytest.param(None, id="uvloop", marks=pytest.mark.skip(reason="uvloop is not installed")))
    return factories


@pytest.fixture(params=loop_factories())
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=request.param) as made:
        yield made


@by_every_method
def test_coroutines_send_and_receive(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        pair.receiver.setblocking(False)
        with dvcrypto.Receiver(pair.receiver, pair.opener) as receiver:
            burst = burst_of(pair, [1200] * 100)
            waiting = asyncio.create_task(receiver.receive_async())
            await asyncio.sleep(0.01)
            assert await burst.send_async(pair.sender, pair.address) == 100
            packets = list(await waiting)
            while len(packets) < 100:
                packets += await receiver.receive_async(timeout=5)
            assert [packet.plain for packet in packets if packet] == [
                packet.plain for packet in dvcrypto.Opener(MODE, KEY).open_burst(burst) if packet
            ]
            assert not await receiver.receive_async(timeout=0)
            assert not await receiver.receive_async(timeout=0.02)

    runner.run(main())


@by_every_method
def test_a_coroutine_seals_and_sends_a_frame(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        counting = asyncio.create_task(count())
        for rate in (None, 20e6):
            before, frame = turns, os.urandom(50_000)
            sending = pair.stream.send_frame_async(pair.sender, frame, pair.address, advance=3000, rate=rate)
            result = await sending
            assert result.sent == len(result.burst) == 43
            assert pair.get(43) == result.burst.tolist()
            opened = pair.opener.open_burst(result.burst)
            assert b"".join(packet.payload for packet in opened if packet) == frame
        assert turns > before  # while the paced one slept
        assert (pair.stream.sequence, pair.stream.timestamp) == (86, 6000)
        with pytest.raises(ValueError, match="frame"):
            await pair.stream.send_frame_async(pair.sender, b"no NAL unit", pair.address, packetizer="h264")
        assert pair.nothing_more()
        counting.cancel()

    runner.run(main())


@on_linux
@by_every_method
def test_a_cancelled_frame_says_what_has_left_and_the_rest_can_follow(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        ours, theirs = small_socket_pair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            sending = asyncio.create_task(pair.stream.send_frame_async(ours, bytes(300 * 1168)))
            await asyncio.sleep(0.01)
            got = waiting_in(theirs)
            await asyncio.sleep(0.01)  # which lets some more leave
            sending.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await sending
            burst, sent = caught.value.burst, caught.value.sent  # type: ignore[attr-defined]
            got += waiting_in(theirs)
            assert 0 < sent < len(burst) == pair.stream.sequence == 300
            assert got == burst.tolist()[:sent]
            rest = asyncio.create_task(burst.send_async(ours, start=sent))
            while not rest.done():
                got += waiting_in(theirs)
                await asyncio.sleep(0)
            assert await rest == 300 - sent
            assert got + waiting_in(theirs) == burst.tolist()
            filling = asyncio.create_task(burst.send_async(ours, rate=1e6))
            await asyncio.sleep(0.01)
            filling.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await filling
            assert waiting_in(theirs) == burst.tolist()[: caught.value.sent]  # type: ignore[attr-defined]

    runner.run(main())


def waiting_in(sock: socket.socket) -> list[bytes]:
    got: list[bytes] = []
    with contextlib.suppress(BlockingIOError):
        while True:
            got.append(sock.recv(65536))
    return got


@on_linux
@by_every_method
def test_a_frame_that_meets_an_error_in_a_coroutine_counts_or_has_its_burst(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        ours, theirs = small_socket_pair()
        with ours:
            ours.setblocking(False)
            sending = asyncio.create_task(pair.stream.send_frame_async(ours, bytes(300 * 1168)))
            await asyncio.sleep(0.01)
            theirs.close()
            result = await sending
            assert 0 < result.sent < len(result.burst) == 300
            with pytest.raises(OSError) as caught:  # noqa: PT011
                await pair.stream.send_frame_async(ours, bytes(5000))
            assert len(caught.value.burst) == 5  # type: ignore[attr-defined]
            assert pair.stream.sequence == 305

    runner.run(main())


@on_linux
@by_every_method
def test_a_refusal_while_a_burst_is_paced_does_not_stop_it(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        pair.connect().refuse()
        burst = burst_of(pair, [1200] * 100)
        sending = asyncio.create_task(burst.send_async(pair.sender, rate=20e6))  # 49 ms
        await asyncio.sleep(0.01)
        pair.accept()
        assert await sending == 100
        pair.receiver.setblocking(False)
        got = waiting_in(pair.receiver)
        assert 0 < len(got) < 100
        assert got == burst.tolist()[-len(got) :]

    runner.run(main())


@on_linux
def test_coroutines_wait_for_room_each_in_its_turn(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        ours, theirs = small_socket_pair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            bursts = [burst_of(pair, [1000 + i] * 100) for i in range(3)]
            senders = [asyncio.create_task(burst.send_async(ours)) for burst in bursts]
            cancelled = asyncio.create_task(burst_of(pair, [1] * 9).send_async(ours))
            await asyncio.sleep(0.01)
            cancelled.cancel()
            got: list[bytes] = []
            while not all(sender.done() for sender in senders):
                with contextlib.suppress(BlockingIOError):
                    got.append(theirs.recv(65536))
                await asyncio.sleep(0)
            with contextlib.suppress(BlockingIOError):
                while True:
                    got.append(theirs.recv(65536))
            assert [sender.result() for sender in senders] == [100] * 3
            for burst in bursts:
                assert [packet for packet in got if len(packet) == len(burst[0])] == burst.tolist()

    runner.run(main())


def test_a_cancelled_coroutine_leaves_nothing_behind(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        with dvcrypto.Receiver(pair.receiver, pair.opener) as receiver:
            waiting = [asyncio.create_task(receiver.receive_async()) for _ in range(2)]
            await asyncio.sleep(0.01)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            assert not asyncio.get_running_loop().remove_reader(pair.receiver.fileno())

    runner.run(main())


def test_a_coroutine_sends_from_a_start_within_the_burst(pair: Pair, runner: asyncio.Runner) -> None:
    burst = burst_of(pair, [500] * 10)
    assert runner.run(burst.send_async(pair.sender, pair.address, start=7)) == 3
    assert pair.get(3) == burst.tolist()[7:]
    for wrong in (-1, 11, 2**70):
        with pytest.raises(ValueError, match=f"start is {wrong}; it must be from 0 to 10"):
            runner.run(burst.send_async(pair.sender, pair.address, start=wrong))


def test_a_coroutine_waits_for_its_own_socket_where_the_number_was_anothers(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        first = socket.socket(type=socket.SOCK_DGRAM)
        with dvcrypto.Receiver(first, pair.opener) as one:
            left_behind = asyncio.create_task(one.receive_async())
            await asyncio.sleep(0.01)
            number = first.fileno()
            first.close()
            with socket.socket(type=socket.SOCK_DGRAM) as second, dvcrypto.Receiver(second, pair.opener) as two:
                assert second.fileno() == number
                second.bind(("127.0.0.1", 0))
                waiting = asyncio.create_task(two.receive_async())
                await asyncio.sleep(0.01)
                burst_of(pair, [9]).send(pair.sender, second.getsockname())
                assert len(await asyncio.wait_for(waiting, 5)) == 1
                with pytest.raises(OSError, match="the socket is closed"):
                    await asyncio.wait_for(left_behind, 5)

    runner.run(main())


@on_linux
def test_a_coroutine_whose_socket_is_closed_meanwhile_tells_what_left(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        ours, theirs = small_socket_pair()
        with ours, theirs:
            ours.setblocking(False)
            burst = burst_of(pair, [1200] * 400)
            sending = asyncio.create_task(burst.send_async(ours, rate=20e6))
            await asyncio.sleep(0.01)
            ours.close()
            sent = await asyncio.wait_for(sending, 5)
            assert 0 < sent < 400
            assert [theirs.recv(65536) for _ in range(sent)] == burst.tolist()[:sent]

    runner.run(main())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_loops_that_were_closed_while_somebody_waited_are_let_go_of(pair: Pair) -> None:
    def leave_waiting() -> "weakref.ref[asyncio.AbstractEventLoop]":
        loop = asyncio.SelectorEventLoop()
        loop.set_exception_handler(lambda *_: None)  # a task was pending, as it should be
        task = loop.create_task(dvcrypto.Receiver(pair.receiver, pair.opener).receive_async())
        loop.call_soon(loop.call_soon, loop.stop)
        loop.run_forever()
        loop.close()
        assert not task.done()
        return weakref.ref(loop)

    left = [leave_waiting() for _ in range(3)]
    asyncio.run(dvcrypto.Receiver(pair.receiver, pair.opener).receive_async(timeout=0.01))
    gc.collect()
    assert [loop() for loop in left] == [None] * 3


class Bursts(BurstProtocol):
    def __init__(self) -> None:
        self.packets: list[bytes] = []
        self.statuses: list[str] = []
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def burst_received(self, burst: dvcrypto.OpenedBurst) -> None:
        self.statuses += map(str, burst.statuses)
        super().burst_received(burst)

    def datagram_received(self, data: bytes, _: Any) -> None:
        self.packets.append(data)

    def connection_lost(self, _: Exception | None) -> None:
        self.lost.set_result(None)


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.packets: list[bytes] = []
        self.addresses: set[Any] = set()
        self.errors: list[Exception] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def error_received(self, exc: Exception) -> None:
        self.errors.append(exc)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.packets.append(data)
        self.addresses.add(addr)


@by_every_method
def test_a_transport_takes_the_place_of_asyncios(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        plain = [HEADER + os.urandom(1000) for _ in range(60)]
        mine, theirs = dvcrypto.Opener(MODE, KEY), dvcrypto.Opener(MODE, KEY)
        here, bursts = await create_datagram_endpoint(Bursts, mine, pair.receiver)
        there, datagrams = await create_datagram_endpoint(Datagrams, theirs, pair.sender)
        assert isinstance(there, SealedTransport)
        assert datagrams.transport is there
        there.send_burst(pair.sealer.seal_burst(plain), pair.address)
        there.send_burst(pair.sealer.seal_burst(plain), pair.address, rate=1e8)
        there.sendto(b"junk", pair.address)
        while len(bursts.statuses) < 121:
            await asyncio.sleep(0.001)
        assert bursts.packets == plain * 2
        assert bursts.statuses == ["ok"] * 120 + ["truncated"]
        back = ("127.0.0.1", pair.sender.getsockname()[1])
        here.sendto(bytearray(pair.sealer.seal(HEADER, b"back")), back)
        while not datagrams.packets:
            await asyncio.sleep(0.001)
        assert datagrams.packets == [HEADER + b"back"]
        assert datagrams.addresses == {pair.address}
        here.close()
        there.abort()
        await bursts.lost
        await asyncio.sleep(0.01)
        assert pair.receiver.fileno() == pair.sender.fileno() == -1
        here.sendto(b"after the end", back)

    runner.run(main())


@on_linux
@pytest.mark.parametrize("rate", [None, 1e9], ids=["at once", "paced"])
@by_every_method
def test_a_transport_tells_of_an_earlier_refusal_and_sends_all_the_same(
    pair: Pair, runner: asyncio.Runner, rate: float | None
) -> None:
    async def main() -> None:
        transport, protocol = await create_datagram_endpoint(Datagrams, pair.opener, pair.sender)
        await asyncio.sleep(0)
        refused_before(pair)
        burst = burst_of(pair, [100] * 5)
        transport.send_burst(burst, rate=rate)
        await until(lambda: protocol.errors and not transport.get_write_buffer_size())
        await asyncio.sleep(0.01)  # would there be more
        assert [type(error) for error in protocol.errors] == [ConnectionRefusedError]
        assert pair.get(5) == burst.tolist()
        assert pair.nothing_more()
        transport.abort()

    runner.run(main())


@on_linux
@by_every_method
def test_a_transport_tells_once_of_a_packet_that_cannot_leave(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        pair.connect()
        transport, protocol = await create_datagram_endpoint(Datagrams, pair.opener, pair.sender)
        for before in (0, 2):
            protocol.errors.clear()
            lens = [*[100] * before, 65535, 100]
            transport.send_burst(dvcrypto.Burst(bytes(sum(lens)), ends_of(lens)))
            await until(lambda: protocol.errors and not transport.get_write_buffer_size())
            await asyncio.sleep(0.01)  # would there be more
            assert [getattr(error, "errno", None) for error in protocol.errors] == [errno.EMSGSIZE]
            assert pair.get(before) == [bytes(100)] * before
            assert pair.nothing_more()
        transport.abort()

    runner.run(main())


class Watched(asyncio.DatagramProtocol):
    """Counts what it is told; ``reaction`` is called with the name of what that was."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.faults: list[Exception | None] = []
        self.reaction: Callable[[str], object] = lambda _: None

    def tell(self, name: str) -> None:
        self.told.append(name)
        self.reaction(name)

    def datagram_received(self, *_: Any) -> None:
        self.tell("datagram")

    def error_received(self, _: Exception) -> None:
        self.tell("error")

    def pause_writing(self) -> None:
        self.tell("pause")

    def resume_writing(self) -> None:
        self.tell("resume")

    def connection_lost(self, fault: Exception | None) -> None:
        self.faults.append(fault)


def fail(_: str) -> None:
    message = "a protocol's own fault"
    raise RuntimeError(message)


def collect_faults() -> list[Any]:
    """What the running loop is told of."""
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    return faults


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_what_a_protocol_raises_for_one_packet_takes_no_other_with_it(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        faults = collect_faults()
        transport, protocol = await create_datagram_endpoint(Watched, pair.opener, pair.receiver)
        protocol.reaction = fail
        burst_of(pair, [100] * 10).send(pair.sender, pair.address)
        await until(lambda: len(protocol.told) == 10)
        assert len(faults) == 10
        transport.abort()

    runner.run(main())


def test_behind_its_close_a_transport_hands_on_nothing(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        transport, protocol = await create_datagram_endpoint(Watched, pair.opener, pair.receiver)
        protocol.reaction = lambda _: transport.close()
        burst_of(pair, [100] * 10).send(pair.sender, pair.address)
        await until(lambda: protocol.faults)
        assert protocol.told == ["datagram"]

    runner.run(main())


def test_a_closed_opener_aborts_its_transport(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        _, protocol = await create_datagram_endpoint(Watched, pair.opener, pair.receiver)
        pair.opener.close()
        burst_of(pair, [100]).send(pair.sender, pair.address)
        await until(lambda: protocol.faults)
        assert [str(fault) for fault in protocol.faults] == ["the opener is closed"]
        assert pair.receiver.fileno() == -1

    runner.run(main())


def too_long_for_the_path(pair: Pair) -> dvcrypto.Burst:
    pair.sender.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: never in pieces
    return dvcrypto.Burst(bytes(2 * 100 + 65535), ends_of([100, 100, 65535]))


@on_linux
@pytest.mark.parametrize("rate", [None, 1e8])
def test_an_error_in_the_middle_of_a_burst_is_told(pair: Pair, runner: asyncio.Runner, rate: float | None) -> None:
    async def main() -> None:
        transport, protocol = await create_datagram_endpoint(Watched, pair.opener, pair.sender)
        transport.send_burst(too_long_for_the_path(pair), pair.address, rate=rate)
        await until(lambda: protocol.told)
        assert protocol.told == ["error"]
        assert transport.get_write_buffer_size() == 0
        transport.abort()

    runner.run(main())
    assert len(pair.get(2)) == 2


@on_linux
def test_a_protocol_that_raises_does_not_stop_its_transport(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        faults = collect_faults()
        transport, protocol = await create_datagram_endpoint(Watched, pair.opener, pair.sender)
        protocol.reaction = fail
        for _ in range(5):
            transport.send_burst(too_long_for_the_path(pair), pair.address)
        transport.close()
        await until(lambda: protocol.faults)
        assert protocol.told.count("error") == 5
        assert [name for name in protocol.told if name != "error"] == ["pause", "resume"]
        assert len(faults) == 7

    runner.run(main())


@on_linux
@pytest.mark.parametrize("cancelled", [True, False])
def test_a_transport_ends_once_however_it_is_ended(pair: Pair, runner: asyncio.Runner, cancelled: bool) -> None:
    """By its protocol when it is told of an error, or by whoever cancels all tasks and then closes it."""

    async def main() -> None:
        transport, protocol = await create_datagram_endpoint(Watched, pair.opener, pair.sender)
        protocol.reaction = lambda _: transport.abort()
        transport.send_burst(too_long_for_the_path(pair), pair.address)
        if cancelled:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            transport.close()
        await until(lambda: protocol.faults)
        await asyncio.sleep(0.01)
        assert protocol.faults == [None]
        assert pair.sender.fileno() == -1

    runner.run(main())


@on_linux
def test_a_buffer_may_be_used_again_while_its_burst_is_queued(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        ours, theirs = small_socket_pair()
        with theirs:
            transport, _ = await create_datagram_endpoint(Watched, pair.opener, ours)
            out = bytearray(500_000)
            burst = pair.sealer.seal_burst_into([HEADER + bytes(1168)] * 400, out)
            sealed = burst.tolist()
            transport.send_burst(burst)
            out[:] = bytes(len(out))
            theirs.setblocking(False)
            got: list[bytes] = []

            def came() -> bool:
                with contextlib.suppress(BlockingIOError):
                    got.append(theirs.recv(65536))
                return len(got) == 400

            await until(came)
            assert got == sealed
            transport.abort()

    runner.run(main())


def test_an_endpoint_that_nobody_waited_for_is_closed(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        made = asyncio.create_task(create_datagram_endpoint(Watched, pair.opener, pair.receiver))
        await asyncio.sleep(0)
        made.cancel()
        await asyncio.wait([made])
        await asyncio.sleep(0.01)
        assert made.cancelled()
        assert pair.receiver.fileno() == -1

    runner.run(main())


def test_a_transport_knows_its_peer(pair: Pair, runner: asyncio.Runner) -> None:
    async def main() -> None:
        transport, _ = await create_datagram_endpoint(Watched, pair.opener, pair.connect().sender)
        assert transport.get_extra_info("peername") == pair.address
        transport.abort()
        with socket.socket() as tcp:
            with pytest.raises(ValueError, match="must be a UDP socket"):
                await create_datagram_endpoint(Watched, pair.opener, tcp)
            assert tcp.getblocking()

    runner.run(main())


# Paths that lose, and paths with a rate


@contextlib.contextmanager
def relay(*arguments: str, before: tuple[str, ...] = ()) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A relay's port, and behind the block what it has done."""
    done: list[dict[str, Any]] = []
    command = [*before, sys.executable, str(RELAY), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdin
        try:
            yield int(process.stdout.readline()), done
            time.sleep(0.2)
            process.stdin.close()
            done.append(json.loads(process.stdout.readline()))
        finally:
            process.kill()


def through_a_queue(pair: Pair, rate: float | None) -> tuple[int, dict[str, Any]]:
    """Send a frame of 500 packets through a relay of 20 Mbit/s and 64 packets; how many came, and what the relay did.

    They are taken in as they come: a socket's buffer may hold fewer. So may the relay's own, where it is not at work.
    """
    listening = f"127.0.0.1:{pair.address[1]}"
    statuses: list[dvcrypto.Status] = []
    done: list[dict[str, Any]] = []

    def take() -> None:
        with dvcrypto.Receiver(pair.receiver, pair.opener) as receiver:
            while (burst := receiver.receive(timeout=0.05)) or not done:
                statuses.extend(burst.statuses)

    taking = threading.Thread(daemon=True, target=take)
    taking.start()
    with relay("queue", "127.0.0.1:0", listening, "20e6", "64") as (port, done_there):
        result = pair.stream.send_frame(pair.sender, bytes(500 * 1168), ("127.0.0.1", port), rate=rate)
        assert result.sent == len(result.burst) == 500
    done += done_there
    taking.join()
    assert statuses == [dvcrypto.Status.OK] * done[0]["sent"]
    return len(statuses), done[0]


def test_a_key_frame_paced_at_the_paths_rate_loses_nothing_and_unpaced_it_does(pair: Pair) -> None:
    came, _ = through_a_queue(pair, None)
    assert came < 500
    # A machine that is busy elsewhere stops the relay now and then: one of three must come through.
    runs = []
    for _ in range(3):
        came, paced = through_a_queue(pair, 20e6)
        runs.append(came)
        if came == 500:
            assert 0.18 < paced["departures"][-1] < 2
            break
    assert max(runs) == 500


def test_a_paced_send_holds_no_gil(pair: Pair) -> None:
    """With the GIL held, who waits for the first packet would go on when the last one has left."""
    burst = burst_of(pair, [1200] * 200)
    sender = threading.Thread(daemon=True, target=lambda: burst.send(pair.sender, pair.address, rate=5e6))  # 0.4 s
    sender.start()
    pair.get(1)
    pair.receiver.setblocking(False)
    assert len(waiting_in(pair.receiver)) < 100
    sender.join()


PEERS = {
    "IPv4": (socket.AF_INET, ("127.0.0.1", 9), 28),
    "IPv6": (socket.AF_INET6, ("::1", 9), 48),
    "IPv4 by an IPv6 socket": (socket.AF_INET6, ("::ffff:127.0.0.1", 9), 28),
}


@on_linux  # whose clock of both kinds is one
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "with an address"])
@pytest.mark.parametrize(("family", "peer", "header_len"), PEERS.values(), ids=PEERS)
def test_a_rate_counts_the_headers_of_ip_and_udp(
    connected: bool, family: int, peer: tuple[str, int], header_len: int
) -> None:
    if family == socket.AF_INET6 and not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    burst = dvcrypto.Burst(bytes(1000), ends_of([1000]))
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if connected:
            sock.connect(peer)
        before_ns = time.monotonic_ns()
        due_ns = send_natively(
            sock, None if connected else peer, burst, 8.0
        ).due_ns  # of the next packet; 1 byte a second
    assert before_ns <= due_ns - (1000 + header_len) * 10**9 <= time.monotonic_ns()


@pytest.mark.parametrize(
    ("rate", "error"), [(0, ValueError), (7, ValueError), (-1, ValueError), (1e300, ValueError), ("1", TypeError)]
)
def test_a_rate_that_is_none_is_refused(pair: Pair, rate: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="rate"):
        burst_of(pair, [10]).send(pair.sender, pair.address, rate=rate)


NAMESPACES = ("dvcrypto-test-a", "dvcrypto-test-b")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def namespaces() -> Iterator[tuple[str, str]]:
    """Two network namespaces, a pair of devices between them, an MTU of 1280."""
    if not LINUX or not shutil.which("ip") or os.geteuid() != 0:
        pytest.skip("network namespaces need Linux, ip and root")
    here, there = (f"{name}-{os.getpid()}" for name in NAMESPACES)
    made = []
    try:
        try:
            for name in (here, there):
                ip("netns", "add", name)
                made.append(name)
            ip("-n", here, "link", "add", "dv0", "mtu", "1280", "type", "veth", "peer", "name", "dv1", "netns", there)
            ip("-n", there, "link", "set", "dv1", "mtu", "1280")
            for name, device, host in ((here, "dv0", "10.77.0.1/24"), (there, "dv1", "10.77.0.2/24")):
                ip("-n", name, "addr", "add", host, "dev", device)
                ip("-n", name, "link", "set", device, "up")
                ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no network namespaces: {error.stderr.decode().strip()}")
        yield here, there
    finally:
        for name in made:
            ip("netns", "del", name)


# Sends so many frames, some of which have packets longer than the MTU: those leave in pieces.
SENDER = """
import socket, sys, time, dvcrypto
port, frames = int(sys.argv[1]), int(sys.argv[2])
sealer = dvcrypto.Sealer("aead_aes256_gcm_rtpsize", bytes(range(32)))
sock = socket.socket(type=socket.SOCK_DGRAM)
sock.connect(("10.77.0.2", port))
sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
total = 0
for number in range(frames):
    stream = dvcrypto.RtpStream(sealer, number, 101, max_packet=1232 if number % 4 else 1400)
    total += stream.send_frame(sock, bytes([number % 256]) * 40000, rate=200e6).sent
print(total)
"""


@pytest.mark.parametrize("name", METHODS)
def test_over_a_path_that_loses_doubles_and_reorders_what_arrives_opens_and_counts_add_up(
    namespaces: tuple[str, str], name: str
) -> None:
    here, there = namespaces
    program = f"""
import json, select, socket, sys, dvcrypto
sock = socket.socket(type=socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE, of root: room for all, whatever the system's limit is
sock.bind(("127.0.0.1", 0))
print(sock.getsockname()[1], flush=True)
opener = dvcrypto.Opener({MODE!r}, bytes(range(32)), replay_window=1024)
count, payloads = 0, set()
with dvcrypto.Receiver(sock, opener) as receiver:
    while (burst := receiver.receive(timeout=0.05)) or not select.select([sys.stdin], [], [], 0)[0]:
        count += len(burst)
        payloads |= {{byte for packet in burst if packet for byte in packet.payload}}
print(json.dumps([count, len(payloads), *opener.stats]))
"""
    environment = {**os.environ, "DVCRYPTO_WIRE": name}
    inside = ("ip", "netns", "exec", there)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*inside, sys.executable, "-c", program], text=True, env=environment, **pipes) as receiver:
        assert receiver.stdin
        assert receiver.stdout
        port = int(receiver.stdout.readline())
        with relay("faults", "10.77.0.2:0", f"127.0.0.1:{port}", "7", before=inside) as (relay_port, done):
            sender = subprocess.run(
                ["ip", "netns", "exec", here, sys.executable, "-c", SENDER, str(relay_port), "100"],
                capture_output=True,
                text=True,
                check=True,
                env=environment,
            )
        receiver.stdin.close()
        count, kinds, *stats = json.loads(receiver.stdout.readline())
    assert receiver.returncode == 0
    sent = int(sender.stdout)
    (relayed,) = done
    assert relayed["received"] == sent
    assert relayed["sent"] == sent - relayed["lost"] + relayed["doubled"]
    assert relayed["lost"] > 0 < relayed["doubled"]
    assert relayed["reordered"] > 0
    by_status = dvcrypto.OpenerStats(*stats)
    assert count == relayed["sent"] == sum(stats)
    assert by_status.ok == sent - relayed["lost"]
    assert by_status.replayed == relayed["doubled"]
    assert kinds == 100


def test_a_receiver_is_neither_copied_nor_pickled_and_says_what_it_reads_with(pair: Pair) -> None:
    with dvcrypto.Receiver(pair.receiver, pair.opener) as receiver:
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="its socket has one reader"):
                duplicate(receiver)
        assert str(pair.address[1]) in repr(receiver)
        assert repr(pair.opener) in repr(receiver)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this system has no Unix sockets")
def test_an_address_of_a_socket_that_is_not_of_the_internet_is_refused(pair: Pair) -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock,
        pytest.raises(ValueError, match=f"address family {socket.AF_UNIX}; it must be IPv4 or IPv6"),
    ):
        burst_of(pair, [40]).send(sock, pair.address)
