"""Paced streams as a voice connection sends them, sealed and sent over loopback, and the CPU time that takes.

One stream is audio, 50 packets a second, and video, 60 frames a second, cut and sealed a frame at a time. The schedule
repeats every 100 ms, which is also the window in which CPU time is read, so that every window has the same work.
"""

import argparse
import math
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import dvcrypto
from dvcrypto.cli.bench.workers import Worker

AUDIO_RATE: Final = 50  # packets a second
VIDEO_RATE: Final = 60  # frames a second
WINDOW: Final = 0.1  # seconds: 5 audio packets and 6 video frames

_AUDIO_LEN: Final = 160  # bytes of payload: 20 ms of Opus at 64 kbit/s
_AUDIO_BITRATE: Final = 8 * _AUDIO_LEN * AUDIO_RATE
_VIDEO_LEN: Final = 1200  # bytes of payload of a full packet
_OVERHEAD_LEN: Final = 32  # RTP header, tag and nonce
_BITRATES: Final = (100_000, 1_000_000_000)
_UNITS: Final = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_TURN: Final = 5  # windows that one sender sends before the next one does
_HOPELESS: Final = 1.0  # seconds behind at which a turn is given up


def bitrate(text: str) -> int:
    """Bits a second, from text such as 500k, 10M or 2.5M."""
    written = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)", text)
    value = round(float(written[1]) * _UNITS[written[2]]) if written else 0
    if not _BITRATES[0] <= value <= _BITRATES[1]:
        message = f"the bitrate is {text!r}; it must be bits a second from 100k to 1G, such as 500k, 2.5M or 10M"
        raise argparse.ArgumentTypeError(message)
    return value


def in_words(bitrate: int) -> str:
    """A bitrate, as people read it."""
    unit = max((unit for unit in _UNITS if bitrate >= _UNITS[unit]), key=_UNITS.__getitem__)
    return f"{bitrate / _UNITS[unit]:.4g} {unit}bit/s"


@dataclass(frozen=True)
class Load:
    """What is sent at once."""

    bitrate: int
    """Bits of payload a second, of one stream."""
    streams: int
    windows: int
    """How many windows of 100 ms each contender sends."""

    def packets_per_second(self) -> int:
        """Of one stream."""
        return AUDIO_RATE + VIDEO_RATE * math.ceil(self.frame_len() / _VIDEO_LEN)

    def frame_len(self) -> int:
        """Bytes of one video frame."""
        return round((self.bitrate - _AUDIO_BITRATE) / 8 / VIDEO_RATE)


@dataclass(frozen=True)
class Sender:
    """What sends: a mode, or None for packets that were sealed beforehand, in the process that is measured."""

    name: str
    mode: dvcrypto.Mode | None
    worker: Worker


@dataclass
class Usage:
    """What one sender's process used."""

    shares: list[float] = field(default_factory=list)
    """The share of a core, 0 to 1, of each window of 100 ms."""
    seconds: list[float] = field(default_factory=list)
    """How long each window was."""
    late_ms: float = 0.0
    """How far the sending fell behind its schedule at worst."""
    windows: float = 0.0
    """How many windows' worth of the schedule was sent."""

    def pace(self) -> float:
        """How fast the schedule was sent; less than 1 where sending could not follow it."""
        return self.windows * WINDOW / sum(self.seconds)

    def mean(self) -> float:
        """Of all the time."""
        return sum(share * length for share, length in zip(self.shares, self.seconds, strict=True)) / sum(self.seconds)

    def percentile_95(self) -> float:
        """The share that 95 % of the windows do not exceed."""
        return sorted(self.shares)[math.ceil(0.95 * len(self.shares)) - 1]

    def worst(self) -> float:
        """Of the windows."""
        return max(self.shares)


def measure(senders: list[Sender], load: Load, advance: Callable[[], None]) -> dict[str, Usage]:
    """What each sender uses, by name. They send by turns, half a second each; ``advance`` is called after each window.

    Raises OSError where loopback cannot be used.
    """
    usages = {sender.name: Usage() for sender in senders}
    with Worker(drain) as receiver:
        port = receiver.ask()["port"]
        for start in range(0, load.windows, _TURN):
            windows = min(_TURN, load.windows - start)
            for sender in senders:
                told = sender.worker.ask(
                    mode=sender.mode, bitrate=load.bitrate, streams=load.streams, windows=windows, port=port
                )
                usage = usages[sender.name]
                usage.shares += told["shares"]
                usage.seconds += told["seconds"]
                usage.late_ms = max(usage.late_ms, told["late_ms"])
                usage.windows += told["windows"]
                for _ in range(windows):
                    advance()
    return usages


def drain() -> dict[str, Any]:
    """In the receiving process: take what comes and drop it, from now on.

    Without UDP_GRO, so that the sender's kernel cuts what left in one call, as it does for a device that cannot.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))

    def receive() -> None:
        datagram = bytearray(2048)
        while True:
            sock.recv_into(datagram)

    threading.Thread(target=receive, daemon=True).start()
    return {"port": sock.getsockname()[1]}


def answer(mode: str | None, bitrate: int, streams: int, windows: int, port: int) -> dict[str, Any]:
    """In the sending process: send so many windows, and tell what they used."""
    load = Load(bitrate, streams, windows)
    events = _schedule(mode, load, port)
    shares, seconds, late, sent = [], [], 0.0, 0
    began = time.perf_counter()
    for window in range(windows):
        wall, cpu = time.perf_counter(), time.process_time()
        for offset, send in events:
            late = max(late, _wait(began + window * WINDOW + offset))
            if late > _HOPELESS:
                break
            send()
            sent += 1
        _wait(began + (window + 1) * WINDOW)
        seconds.append(time.perf_counter() - wall)
        shares.append((time.process_time() - cpu) / seconds[-1])
        if late > _HOPELESS:
            break
    return {"shares": shares, "seconds": seconds, "late_ms": 1e3 * late, "windows": sent / len(events)}


def _wait(due: float) -> float:
    """Sleep until then; how much later it is."""
    left = due - time.perf_counter()
    if left > 0:
        time.sleep(left)
    return time.perf_counter() - due


@cache
def _schedule(mode: str | None, load: Load, port: int) -> list[tuple[float, Callable[[], None]]]:
    """What one window sends, and when: seconds from its start. The streams are spread evenly over time."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(("127.0.0.1", port))
    events: list[tuple[float, Callable[[], None]]] = []
    for stream in range(load.streams):
        phase = stream / load.streams
        audio, video = _sending(sock, mode, load, ssrc=2 * stream + 1)
        for rate, send, shift in ((AUDIO_RATE, audio, 0.0), (VIDEO_RATE, video, 0.5)):
            step = 1 / rate
            events += [((number + (phase + shift) % 1) * step, send) for number in range(round(WINDOW * rate))]
    return sorted(events, key=lambda event: event[0])


def _sending(
    sock: socket.socket, mode: str | None, load: Load, ssrc: int
) -> tuple[Callable[[], None], Callable[[], None]]:
    """What sends one audio packet and one video frame of a stream under a key of its own."""
    sealer = dvcrypto.Sealer(mode or dvcrypto.Mode.XCHACHA20_POLY1305, os.urandom(32))
    audio = dvcrypto.RtpStream(sealer, ssrc, 120)
    video = dvcrypto.RtpStream(sealer, ssrc + 1, 101, max_packet=_VIDEO_LEN + _OVERHEAD_LEN)
    payload, frame = bytes(_AUDIO_LEN), bytes(load.frame_len())

    def send_audio() -> None:
        sock.send(audio.seal(payload, advance=960))

    def send_video() -> None:
        video.send_frame(sock, frame, advance=1500)

    if mode:
        return send_audio, send_video
    sealed_audio, sealed_video = audio.seal(payload), video.seal_frame(frame)

    def send_sealed_audio() -> None:
        sock.send(sealed_audio)

    def send_sealed_video() -> None:
        sealed_video.send(sock)

    return send_sealed_audio, send_sealed_video
