"""The wire: a frame sealed and sent over loopback by every method, and a receiver under a steady load.

Loopback does the receiver's work in the sender's call. A receiver of ours (UDP_GRO) takes a run of packets whole; any
other makes the kernel cut it first, as a network card would. Both are measured.
"""

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dvcrypto
from benchmarks import peers
from dvcrypto import _sending
from dvcrypto._library import ffi, lib

_MODE = dvcrypto.Mode.AES256_GCM
_HEADER = bytes.fromhex("8078000100000000000a0d10")
_COUNT, _SIZE = 40, 1200
_PACKET_LEN = len(_HEADER) + _SIZE + 20
_FRAMES_A_TURN = 10
_RATE = 50_000  # packets a second


def measure(*, full: bool) -> dict[str, Any]:
    """Sending by every path, with and without GRO at the other end; receiving at a rate."""
    rounds, seconds = (301, 30.0) if full else (41, 2.0)
    return {
        "sending": [row for gro in (True, False) for row in _sending_rows(rounds, gro=gro)],
        "receiving": [_receiving(seconds, gro=gro) for gro in (True, False)],
        "seconds": seconds,
    }


_ROOM = bytearray(65536)


def _drain(sock: socket.socket) -> None:
    try:
        while True:
            sock.recv_into(_ROOM)
    except BlockingIOError:
        return


def _sending_rows(rounds: int, *, gro: bool) -> Iterator[dict[str, Any]]:
    best = _sending.best_method
    with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sender.connect(receiver.getsockname())
        if gro and lib.dv_wire_set(receiver.fileno(), lib.DV_OPTION_GRO, 1):
            return
        contenders = dict(_contenders(sender))
        _check(contenders, receiver)
        samples: dict[str, list[int]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, (method, work, _) in contenders.items():
                _sending.best_method = method
                for _ in range(_FRAMES_A_TURN):
                    began = time.perf_counter_ns()
                    work()
                    samples[name].append(time.perf_counter_ns() - began)
                    _drain(receiver)
        _sending.best_method = best
        medians = {name: statistics.median(times) for name, times in samples.items()}
        ours = medians["dvcrypto send_frame, " + _name(best)]
        for name, median in medians.items():
            yield {
                "receiver": "UDP_GRO" if gro else "plain",
                "path": name,
                "us a frame": median / 1e3,
                "system calls": contenders[name][2],
                "x ours": median / ours,
            }


def _name(method: int) -> str:
    return next(name for name, number in _sending.METHODS.items() if number == method)


_Contender = tuple[int, Callable[[], object], int]


def _contenders(sender: socket.socket) -> Iterator[tuple[str, _Contender]]:
    """Name; method, work and its system calls."""
    best = _sending.best_method
    sealer = dvcrypto.Sealer(_MODE, peers.KEY)
    stream = dvcrypto.RtpStream(sealer, 1, 101, max_packet=_PACKET_LEN)
    frame = bytes(_SIZE * _COUNT)
    packets = [_HEADER + bytes(_SIZE)] * _COUNT

    for name, method in reversed(_sending.METHODS.items()):
        if method <= best:
            _sending.best_method = method
            calls = _system_calls(sender, stream.seal_frame(frame))
            yield f"dvcrypto send_frame, {name}", (method, lambda: stream.send_frame(sender, frame), calls)
    _sending.best_method = best
    yield "dvcrypto seal_burst, Burst.send", (best, lambda: sealer.seal_burst(packets).send(sender), 1)

    def one_by_one() -> None:
        for packet in sealer.seal_burst(packets):
            sender.send(packet)

    yield "dvcrypto seal_burst, socket.send", (best, one_by_one, _COUNT)
    payload = bytes(_SIZE)
    for name, seal in peers.installed(_MODE).items():
        if name == "pycryptodome":
            continue  # 250 times as long: it would take most of the time
        yield f"{name}, socket.send", (best, _sealed_by(seal, payload, sender), _COUNT)


def _system_calls(sender: socket.socket, burst: dvcrypto.Burst) -> int:
    number, method, told = sender.fileno(), _sending.best_method, list[bytes]()
    lib.dv_python_send(number, 0, id(burst._sealed), id(burst._ends), 0, 0, -1, method, 0.0, 0, 1, id(told))
    return int(ffi.from_buffer("dv_sending *", told[0]).system_calls)


def _sealed_by(seal: peers.Seal, payload: bytes, sender: socket.socket) -> Callable[[], None]:
    def work() -> None:
        for _ in range(_COUNT):
            sender.send(seal(_HEADER, payload))

    return work


def _check(contenders: dict[str, _Contender], receiver: socket.socket) -> None:
    """Every path sends all packets, and they open, in order."""
    opener = dvcrypto.Opener(_MODE, peers.KEY)
    _drain(receiver)
    for name, (method, work, _) in contenders.items():
        _sending.best_method = method
        with dvcrypto.Receiver(receiver, opener) as ours:
            work()
            opened = [packet for _ in range(_COUNT) for packet in ours.receive(timeout=0)]
            gro = ours.gro
        if gro:
            lib.dv_wire_set(receiver.fileno(), lib.DV_OPTION_GRO, 1)
        if [packet.payload for packet in opened if packet] != [bytes(_SIZE)] * _COUNT:
            message = f"{name}: not all packets came as they were sent"
            raise RuntimeError(message)


# A process that sends bursts of 50 packets, one a millisecond, and says how many left.
_SENDER = """
import socket, sys, time, dvcrypto
from benchmarks import peers, wire
port, seconds = int(sys.argv[1]), float(sys.argv[2])
sock = socket.socket(type=socket.SOCK_DGRAM)
sock.connect(("127.0.0.1", port))
sealer = dvcrypto.Sealer(wire._MODE, peers.KEY)
packets = [wire._HEADER + bytes(1200)] * 50
began, sent = time.perf_counter(), 0
while (due := began + sent / wire._RATE) < began + seconds:
    time.sleep(max(0.0, due - time.perf_counter()))
    sent += sealer.seal_burst(packets).send(sock)
print(sent, time.perf_counter() - began)
"""


def _receiving(seconds: float, *, gro: bool) -> dict[str, Any]:
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind(("127.0.0.1", 0))
        opener = dvcrypto.Opener(_MODE, peers.KEY)
        calls, pause = 0, 0.0
        with dvcrypto.Receiver(sock, opener, gro=gro) as receiver:
            command = [sys.executable, "-c", _SENDER, str(sock.getsockname()[1]), str(seconds)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
                receiver.receive(timeout=10)
                began = os.times()
                last = time.perf_counter()
                while receiver.receive(timeout=1.0):
                    calls += 1
                    pause, last = max(pause, time.perf_counter() - last), time.perf_counter()
                ended = os.times()
                assert sender.stdout
                sent, took = sender.stdout.read().split()
        stats, dropped = opener.stats, _dropped(sock)
    return {
        "GRO": gro and receiver.gro,
        "packets a second": int(sent) / float(took),
        "sent": int(sent),
        "opened": stats.ok,
        "lost": int(sent) - stats.ok,
        "of them the full socket buffer's": dropped,
        "longest pause, ms": 1e3 * pause,
        "packets a call": stats.ok / max(calls, 1),
        "CPU, us a packet": 1e6 * (ended.user + ended.system - began.user - began.system) / max(stats.ok, 1),
    }


def _dropped(sock: socket.socket) -> int | None:
    """How many packets the kernel has dropped because the socket's buffer was full; None where it does not say."""
    table = Path("/proc/net/udp")
    if not table.exists():
        return None
    lines = (line.split() for line in table.read_text().splitlines()[1:])
    return next(int(line[-1]) for line in lines if int(line[1].rpartition(":")[2], 16) == sock.getsockname()[1])


def tables(report: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """One for sending, one for receiving."""
    yield f"A frame of {_COUNT} x {_SIZE} bytes, sealed and sent over loopback, {_MODE}", report["sending"]
    yield f"A receiver of {_RATE:,} packets a second for {report['seconds']:.0f} s", report["receiving"]
