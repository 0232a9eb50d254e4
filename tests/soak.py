"""1,000 sealers and openers at work in threads for a long time: nothing is lost or wrong, and nothing grows.

``make soak MINUTES=10``, or ``python tests/soak.py --minutes 10 --json``. Linux; a failed check is exit status 1.

Four threads seal bursts, frames and single packets with sealers that they share, in both modes and byte orders; some
travel through a socket. Every packet is opened and compared with what it was, and some also by `cryptography`. Sealers
are closed meanwhile, also while another thread seals with them, and made anew with another key.
"""

import argparse
import ctypes
import itertools
import json
import os
import platform
import random
import resource
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import oracle
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import dvcrypto
from dvcrypto import Mode, Opener, Receiver, RtpStream, Sealer, SealerClosed
from dvcrypto.cli import reference

PAIRS, THREADS = 1000, 4
CLOSE_EVERY, ORACLE_EVERY, SOCKET_EVERY, RECEIVER_EVERY = 50, 100, 40, 2000
"""Steps of one thread."""
BURST_MAX = 64
REPLAY_WINDOW = 8192
"""Many bursts: threads that share a stream open its bursts in another order."""
FRAMES_MAX_LEN = 60_000
WARM_UP = 0.25
"""Of the time: until each pair has worked, and the allocator has what it needs for all threads."""
MOST_GROWTH_KIB = 1024
RECEIVE_BUFFER = 1 << 22
LEAST_MINUTES = 0.05
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""Of glibc's malloc.h."""


def plain_packets(draw: random.Random) -> list[bytes]:
    """RTP with CSRCs, extensions and padding, of all lengths, and RTCP."""
    packets = [bytes.fromhex("80c8 0006 0000 0d10") + draw.randbytes(20)]
    for sequence in range(255):
        csrcs, extends, pads = draw.choice((0, 0, 0, 1, 15)), draw.random() < 0.3, draw.random() < 0.1
        first = 0x80 | csrcs | extends << 4 | pads << 5
        fixed = bytes((first, 120)) + sequence.to_bytes(2, "big") + bytes(4) + b"\0\0\x0d\x10"
        extension = b"\xbe\xde\0\1\x10\xff\0\0" if extends else b""
        payload = draw.randbytes(draw.choice((0, 1, 60, 160, 543, 700, 1200)))
        padding = b"\0\0\3" if pads else b""
        packets.append(fixed + draw.randbytes(4 * csrcs) + extension + payload + padding)
    return packets


class Pair:
    """A sealer, a stream under it, and their opener."""

    def __init__(self, draw: random.Random) -> None:
        self.mode = draw.choice(tuple(Mode))
        self.key = draw.randbytes(32)
        self.watches = draw.random() < 0.5
        byteorder: Any = draw.choice(("little", "big"))
        self.sealer = Sealer(self.mode, self.key, first_nonce=draw.randrange(2**31), byteorder=byteorder)
        self.stream = RtpStream(self.sealer, 1, 101, sequence=draw.randrange(2**16))
        self.opener = Opener(self.mode, self.key, replay_window=REPLAY_WINDOW if self.watches else 0)


class Wire:
    """A socket that sends to itself."""

    def __init__(self) -> None:
        self._sock = socket.socket(type=socket.SOCK_DGRAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self._sock.bind(("127.0.0.1", 0))

    def carry(self, burst: dvcrypto.Burst, opener: Opener) -> list[bytes | None]:
        """Send a burst, and receive and open it."""
        opened: list[bytes | None] = []
        with Receiver(self._sock, opener) as receiver:
            burst.send(self._sock, self._sock.getsockname())
            while len(opened) < len(burst) and (came := receiver.receive(timeout=2)):
                opened += plain_of(came)
        return opened

    def close(self) -> None:
        self._sock.close()


def plain_of(opened: dvcrypto.OpenedBurst) -> list[bytes | None]:
    """What was opened; None for what did not."""
    return [packet.plain if packet else None for packet in opened]


class Worker(threading.Thread):
    """Seals, opens and compares until it is told to stop."""

    def __init__(self, seed: int, pairs: list[Pair], is_over: threading.Event) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._draw = random.Random(seed)
        self._pairs = pairs
        self._is_over = is_over
        self._packets = plain_packets(self._draw)
        self._frame = self._draw.randbytes(FRAMES_MAX_LEN)

    def run(self) -> None:
        """Step by step."""
        wire = Wire()
        try:
            for step in itertools.count(1):
                if self._is_over.is_set():
                    break
                if step % CLOSE_EVERY == 0:
                    self._renew()
                if step % RECEIVER_EVERY == 0:
                    wire.close()
                    wire = Wire()
                self._work(step, self._draw.choice(self._pairs), wire)
        except BaseException as error:
            self.faults.append(f"a thread ended with {error!r}")
            raise
        finally:
            wire.close()

    def _renew(self) -> None:
        """Close one, perhaps while another thread seals with it; the opener ends with its last burst."""
        number = self._draw.randrange(len(self._pairs))
        old, self._pairs[number] = self._pairs[number], Pair(self._draw)
        old.sealer.close()
        self.counts["closed"] += 1

    def _work(self, step: int, pair: Pair, wire: Wire) -> None:
        try:
            burst, plain = self._seal(pair)
        except SealerClosed:
            self.counts["closed by another thread meanwhile"] += 1
            return
        if step % SOCKET_EVERY == 0 and self._fits(burst):
            opened = wire.carry(burst, pair.opener)
            self.counts["through a socket"] += len(burst)
        else:
            opened = plain_of(pair.opener.open_burst(burst))
        self.counts["sealed"] += len(burst)
        self.counts["lost"] += len(burst) - len(opened) + opened.count(None)
        self.counts["wrong"] += bool(None not in opened and not self._is_right(opened, plain))
        if step % ORACLE_EVERY == 0:
            packet = self._draw.randrange(len(burst))
            by_other = oracle.open_sealed(pair.mode.value, pair.key, bytes(burst[packet]))
            for remembered in (reference._gcm, reference._chacha):
                remembered.cache_clear()  # else 4,096 keys are growth for a long time
            self.counts["opened by cryptography too"] += 1
            self.counts["wrong"] += by_other != opened[packet]

    @staticmethod
    def _fits(burst: dvcrypto.Burst) -> bool:
        return max(map(len, burst)) <= 1500

    @staticmethod
    def _is_right(opened: Sequence[bytes | None], plain: list[bytes] | bytes) -> bool:
        """Packets as they were; of a frame, the payloads behind the 12 bytes of each header."""
        if isinstance(plain, bytes):
            return b"".join(packet[12:] for packet in opened if packet) == plain
        return list(opened) == plain

    def _seal(self, pair: Pair) -> tuple[dvcrypto.Burst, list[bytes] | bytes]:
        """A burst; and its packets, or the frame that it was."""
        if pair.watches or self._draw.random() < 0.3:  # a replay window wants the stream's own numbers
            frame = self._frame[: self._draw.randrange(FRAMES_MAX_LEN)]
            return pair.stream.seal_frame(frame), frame
        packets = self._draw.choices(self._packets, k=self._draw.randint(1, BURST_MAX))
        if len(packets) > 1:
            return pair.sealer.seal_burst(packets), packets
        header_len = oracle.clear_header_len(packets[0])
        sealed = pair.sealer.seal(packets[0][:header_len], packets[0][header_len:])
        return dvcrypto.Burst(sealed, len(sealed).to_bytes(8, sys.byteorder)), packets


class Sample(NamedTuple):
    """What the process has at one time."""

    packets: int
    resident: int
    """KiB."""
    descriptors: int


class Soak:
    """The threads, and what is measured meanwhile."""

    def __init__(self, minutes: float) -> None:
        draw = random.Random(1)
        self._seconds = 60 * minutes
        self._is_over = threading.Event()
        pairs = [Pair(draw) for _ in range(PAIRS)]
        self._workers = [Worker(seed, pairs, self._is_over) for seed in range(THREADS)]
        self._samples: list[Sample] = []

    def run(self) -> dict[str, Any]:
        """All of it; the figures."""
        began = time.monotonic()
        for worker in self._workers:
            worker.start()
        try:
            self._watch(began)
        finally:
            self._is_over.set()
            for worker in self._workers:
                worker.join()
        return self._figures(time.monotonic() - began)

    def _watch(self, began: float) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("soaking", total=self._seconds)
            while (passed := time.monotonic() - began) < self._seconds and all(w.is_alive() for w in self._workers):
                time.sleep(min(0.5, self._seconds / 40))
                now = self._sample()
                text = f"{now.packets:,} packets, {now.resident:,} KiB, {now.descriptors} descriptors"
                progress.update(task, completed=passed, description=text)

    def _sample(self) -> Sample:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
        sealed = sum(worker.counts["sealed"] for worker in self._workers)
        self._samples.append(Sample(sealed, pages * os.sysconf("SC_PAGE_SIZE") // 1024, descriptors))
        return self._samples[-1]

    def _figures(self, seconds: float) -> dict[str, Any]:
        counts = sum((worker.counts for worker in self._workers), Counter[str]())
        faults = [fault for worker in self._workers for fault in worker.faults]
        settled = self._samples[int(len(self._samples) * WARM_UP) :]
        growth = round(growth_of([sample.resident for sample in settled]))
        descriptors = [sample.descriptors for sample in settled]
        is_wrong = {
            "packets": not counts["sealed"],
            "lost": counts["lost"] > 0,
            "wrong": counts["wrong"] > 0,
            "faults": bool(faults),
            "KiB grown": growth > MOST_GROWTH_KIB,
            "descriptors": growth_of(descriptors) > 1,
        }
        return {
            "packets": counts["sealed"],
            "minutes": round(seconds / 60, 1),
            "lost": counts["lost"],
            "wrong": counts["wrong"],
            "faults": faults,
            "through a socket": counts["through a socket"],
            "opened by cryptography too": counts["opened by cryptography too"],
            "pairs": PAIRS,
            "closed and made anew": counts["closed"],
            "closed by another thread meanwhile": counts["closed by another thread meanwhile"],
            "KiB resident, least and most": [f(sample.resident for sample in settled) for f in (min, max)],
            "KiB grown": growth,
            "packets meanwhile": settled[-1].packets - settled[0].packets,
            "descriptors, least and most": [min(descriptors), max(descriptors)],
            "processor seconds": round(resource.getrusage(resource.RUSAGE_SELF).ru_utime),
            "not as it should be": [name for name, fails in is_wrong.items() if fails],
        }


def settle_allocator() -> None:
    """Have glibc share one heap and give long buffers back: heaps of each thread's fill up for many minutes."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, 1)
        libc.mallopt(M_MMAP_THRESHOLD, 32 * 1024)


def growth_of(numbers: list[int]) -> float:
    """How much higher the last quarter lies than the first, by their medians."""
    quarter = max(1, len(numbers) // 4)
    return statistics.median(numbers[-quarter:]) - statistics.median(numbers[:quarter])


def main() -> int:
    """Run it, and print the figures."""
    parser = argparse.ArgumentParser(description="1,000 sealers and openers in threads, for a long time")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    if options.minutes < LEAST_MINUTES:
        parser.error(f"--minutes is {options.minutes:g}; it must be {LEAST_MINUTES} or more")
    settle_allocator()
    figures = Soak(options.minutes).run()
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, figure in figures.items():
            print(f"{name}: {figure}")
    return 1 if figures["not as it should be"] else 0


if __name__ == "__main__":
    sys.exit(main())
