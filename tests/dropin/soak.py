"""discord.py and discord-ext-voice-recv, with dvcrypto's backend, in a full voice channel for a long time.

``python tests/dropin/soak.py --minutes 10 --voices 20``, or ``nox -s dropin-soak``; a failed check is exit status 1.

The server, a process of its own, speaks with many SSRCs, 50 packets a second each, sealed by `cryptography` and PyNaCl,
under new keys again and again; some packets come late, have extensions, CSRCs or padding, and forgeries, replays and
junk come between. The client plays without pause meanwhile. It leaves after each turn and comes back in the other mode.
What a speaker's packets are follows from their sequence numbers, so that the client can tell them without being told.
"""

import argparse
import asyncio
import gc
import itertools
import json
import logging
import multiprocessing
import os
import random
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import opus
import peers
from packets import CIPHERS, GCM, XCHACHA, seal
from receivers import ONE_WORD, ONE_WORD_ELEMENTS, TWO_BYTE, rtp
from small_discord import SmallDiscord

import dvcrypto.dropin

MODES = {"gcm": (GCM,), "xchacha": (XCHACHA,), "both": (GCM, XCHACHA)}
PACKETS_PER_SECOND = 50
TURN_SECONDS, KEY_SECONDS = 120, 55
WARM_UP_SECONDS = 60
LEAST_MINUTES, MOST_VOICES = 0.2, 500
FIRST_SSRC, FIRST_USER = 0x5000, 5001
FIRST_SEQUENCE = 64_000  # goes on with 0 after half a minute
SILENCE = b"\xf8\xff\xfe"
EXTENSIONS = (
    (ONE_WORD, ONE_WORD_ELEMENTS),
    ((TWO_BYTE, bytes.fromhex("0101ff0902abcd00")), {1: b"\xff", 9: b"\xab\xcd"}),
)
LATE_EVERY, BAD_EVERY, AHEAD = 37, 400, 100
ON_THEIR_WAY_SECONDS = 0.1  # packets that the old key still seals after the client has the new one
SETTLE_SECONDS = 0.5
MOST_LATE = 100
"""Packets. A server that was kept from running for longer says less, and not all of it at once."""
KEEP_ALIVE = "voice-udp-keepalive-"
"""Threads of discord-ext-voice-recv, one for each time that one has listened: they sleep on for 5,000 seconds, with or
without dvcrypto, and keep the client that they were for."""
MOST_KIB_A_MINUTE = 400
"""Of growth while they speak. With 20 voices, 8 bytes left behind for each packet come to more."""
RECEIVE_BUFFER = 1 << 22
"""Bytes, as a shared machine may keep the client from reading for longer than its usual buffer lasts."""


class Said(NamedTuple):
    """A packet, and what must come of it."""

    plain: bytes
    payload: bytes
    elements: dict[int, bytes]


def said(speaker: int, sequence: int) -> Said:
    """What a speaker says under a sequence number."""
    frames = opus.frames()
    payload = frames[(7 * speaker + sequence) % len(frames)]
    extension, elements = EXTENSIONS[sequence % 2] if sequence % 5 == 0 else (None, {})
    csrcs = range(1 + sequence % 15) if sequence % 11 == 0 else ()
    padding = 1 + sequence % 40 if sequence % 13 == 0 else 0
    ssrc = FIRST_SSRC + speaker
    return Said(
        rtp(payload, sequence=sequence, ssrc=ssrc, csrcs=csrcs, extension=extension, padding=padding), payload, elements
    )


# The server's process.


class Speakers:
    """All the others in the channel, for one turn."""

    def __init__(self, server: SmallDiscord, voices: int) -> None:
        self._voice, self._voices = server.voice, voices
        self._generation = self._voice.generations[-1]
        self._sent = 0
        self._held: dict[int, bytes] = {}
        self._last = b""
        self._draw = random.Random(1)
        self.counts: Counter[str] = Counter()

    async def speak(self, seconds: float, key_seconds: float) -> dict[str, int]:
        """Speak that long, all of them; return how often what was sent."""
        for speaker in range(self._voices):
            await self._voice.announce(FIRST_USER + speaker, FIRST_SSRC + speaker)
        await asyncio.sleep(SETTLE_SECONDS)
        now = asyncio.get_running_loop().time
        start, end, pace = now(), round(seconds * PACKETS_PER_SECOND) * self._voices, PACKETS_PER_SECOND * self._voices
        keys = asyncio.create_task(self._change_keys(key_seconds))
        while self._sent < end:
            due = min(end, int((now() - start) * pace))
            if due - self._sent > MOST_LATE:
                start += (due - self._sent) / pace
                self.counts["stalls"] += 1
            for _ in range(self._sent, due):
                self._say_next()
            await asyncio.sleep(0.002)
        keys.cancel()
        await asyncio.wait([keys])
        if not keys.cancelled():
            keys.result()
        for packet in self._held.values():
            self._voice.send_raw(packet)
        self.counts["said"] = self._sent
        return dict(self.counts)

    def _say_next(self) -> None:
        number, speaker = divmod(self._sent, self._voices)
        self._sent += 1
        plain = said(speaker, (FIRST_SEQUENCE + number) % 2**16).plain
        packet = seal(self._generation.cipher, self._generation.sealed_count, plain)
        self._generation.sealed_count += 1
        self.counts[f"speaker {speaker}"] += 1
        held = self._held.pop(speaker, None)
        if number % LATE_EVERY == speaker % LATE_EVERY:
            self._held[speaker] = packet
            self.counts["late"] += 1
        else:
            self._voice.send_raw(packet)
            self._last = packet
        if held:
            self._voice.send_raw(held)
        if self._sent % BAD_EVERY == 0:
            self._send_bad(speaker, number)

    def _send_bad(self, speaker: int, number: int) -> None:
        # Forgeries of what is yet to be said, and must be heard then. What was heard is a replay, forged or not.
        plain = said(speaker, (FIRST_SEQUENCE + number + AHEAD) % 2**16).plain
        kinds = ("flipped", "of another key", "junk", "replayed", "keep-alive")
        kind = kinds[self._sent // BAD_EVERY % len(kinds)]
        self.counts[kind] += 1
        if kind == "flipped":
            packet = bytearray(seal(self._generation.cipher, self._generation.sealed_count, plain))
            self._generation.sealed_count += 1
            packet[self._draw.randrange(12, len(packet))] ^= 4
            self._voice.send_raw(bytes(packet))
        elif kind == "of another key":
            self._voice.send_raw(seal(CIPHERS[self._generation.mode](bytes(32)), self._sent, plain))
        elif kind == "junk":
            self._voice.send_raw(self._draw.randbytes(self._draw.randrange(12)))
        elif kind == "replayed":
            self._voice.send_raw(self._last)
        else:
            self._voice.send_raw(bytes(8))

    async def _change_keys(self, key_seconds: float) -> None:
        while True:
            await asyncio.sleep(key_seconds)
            described = self._voice.description_count
            await self._voice.describe()
            await self._voice.until(lambda before=described: self._voice.description_count > before)
            await asyncio.sleep(ON_THEIR_WAY_SECONDS)
            self._generation = self._voice.generations[-1]
            self.counts["new keys"] += 1


async def serve(pipe: Connection) -> None:
    """Do what the client's process says, until it says nothing."""
    async with SmallDiscord() as server:
        pipe.send((server.port, str(server.certificate_path)))
        while request := await asyncio.to_thread(pipe.recv):
            name, *arguments = request
            if name == "offer":
                server.voice.modes = list(arguments)
                server.voice.heard.clear()
                server.voice.datagrams.clear()
                server.voice.faults.clear()
                pipe.send(None)
            elif name == "speak":
                voices, seconds, key_seconds = arguments
                pipe.send(await Speakers(server, voices).speak(seconds, key_seconds))
            else:
                heard = [packet.payload for packet in server.voice.heard if packet.payload != SILENCE]
                frames = itertools.islice(itertools.cycle(opus.frames()), len(heard))
                pipe.send((len(heard), heard == list(frames), list(server.voice.faults)))


def run_server(pipe: Connection) -> None:
    """The server's process."""
    asyncio.run(serve(pipe))


# The client's process.


class Server:
    """The server's process, as the client's has it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=run_server, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    async def where(self) -> SmallDiscord:
        """What knows the way there; it is not a server itself."""
        way = SmallDiscord()
        way.port, certificate = await asyncio.to_thread(self._pipe.recv)
        way.certificate_path = Path(certificate)
        return way

    async def ask(self, *request: Any) -> Any:
        """Have something done, and wait for the answer. EOFError when the server died."""
        self._pipe.send(request)
        return await asyncio.to_thread(self._pipe.recv)

    def stop(self) -> None:
        """End the process."""
        if self._process.is_alive():
            self._pipe.send(None)
            self._process.join(10)


class Log(logging.Handler):
    """Counts what is logged as a warning or worse, and what is raised where nobody sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.wrong_tags = self.wrong_tag_warnings = self.lost_by_library = 0
        logging.getLogger().addHandler(self)
        logging.getLogger("dvcrypto.dropin").setLevel(logging.DEBUG)
        threading.excepthook = lambda args: self._raised("a thread", args.exc_value)
        sys.unraisablehook = lambda args: self._raised("a finalizer", args.exc_value)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("dvcrypto.dropin.") and "wrong tag" in record.getMessage():
            self.wrong_tags += record.levelno == logging.DEBUG
            self.wrong_tag_warnings += record.levelno == logging.WARNING
        elif record.levelno < logging.WARNING:
            pass
        elif record.name == "discord.gateway" and record.msg.startswith("Can't keep up"):
            pass  # a heartbeat was answered before the thread that sent it had noted the time
        elif record.name == "discord.ext.voice_recv.opus" and "were lost being flushed" in record.msg:
            self.lost_by_library += int(record.args[0])  # type: ignore[index,arg-type]
        else:
            self.counts[f"{record.levelname} {record.name}: {record.getMessage()[:200]}"] += 1

    def _raised(self, where: str, error: object) -> None:
        self.counts[f"raised in {where}: {error!r}"[:200]] += 1


class Ear:
    """Holds what comes against what was said."""

    def __init__(self, voices: int) -> None:
        self.delivered = [0] * voices
        self.to_sink = [0] * voices
        self.wrong = self.twice = 0
        self._seen = [bytearray(2**16) for _ in range(voices)]

    def begin(self) -> None:
        """Another turn, whose numbers begin again."""
        for seen in self._seen:
            seen[:] = bytes(2**16)

    def listen(self, voice: Any) -> None:
        """Be what the library's receiver speaks to, and look at what its packet router gets."""
        from discord.ext import voice_recv

        voice.listen(voice_recv.BasicSink(self._sink, decode=False))
        router = voice._reader.packet_router
        router.feed_rtp = self._tapped(router.feed_rtp)

    def _tapped(self, feed_rtp: Callable[[Any], None]) -> Callable[[Any], None]:
        def feed(packet: Any) -> None:
            self._deliver(packet)
            feed_rtp(packet)

        return feed

    def _deliver(self, packet: Any) -> None:
        speaker, sequence = packet.ssrc - FIRST_SSRC, packet.sequence
        if not 0 <= speaker < len(self.delivered):
            self.wrong += 1
            return
        expected = said(speaker, sequence)
        elements = {number: bytes(value) for number, value in packet.extension_data.items()}
        self.wrong += (bytes(packet.decrypted_data), elements) != (expected.payload, expected.elements)
        self.twice += self._seen[speaker][sequence]
        self._seen[speaker][sequence] = 1
        self.delivered[speaker] += 1

    def _sink(self, _: object, data: Any) -> None:
        if data.packet:  # and not one that the library makes up
            self.to_sink[data.packet.ssrc - FIRST_SSRC] += 1


class Sample(NamedTuple):
    """What the process has at one time."""

    seconds: float
    turn: int
    resident: int
    """KiB."""
    descriptors: int
    threads: int
    """But for those of KEEP_ALIVE."""
    keep_alives: int


def sample(start: float, turn: int) -> Sample:
    """Now. Linux only."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    resident = pages * os.sysconf("SC_PAGE_SIZE") // 1024
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    names = [thread.name for thread in threading.enumerate()]
    keep_alives = sum(name.startswith(KEEP_ALIVE) for name in names)
    return Sample(time.monotonic() - start, turn, resident, descriptors, len(names) - keep_alives, keep_alives)


def slope(samples: list[Sample], *, within: Callable[[Sample], object]) -> float | None:
    """KiB of resident memory a minute, by least squares, each group at a level of its own; None for under a minute."""
    if samples[-1].seconds - samples[0].seconds < 60:
        return None
    over = spread = 0.0
    for _, group in itertools.groupby(samples, key=within):
        minutes, levels = zip(*((sample.seconds / 60, sample.resident) for sample in group), strict=True)
        mean, level = statistics.fmean(minutes), statistics.fmean(levels)
        over += sum((x - mean) * (y - level) for x, y in zip(minutes, levels, strict=True))
        spread += sum((x - mean) ** 2 for x in minutes)
    return round(over / spread, 1)


def kernel_drops(voice_socket: socket.socket) -> int:
    """Datagrams that came when the socket's buffer was full."""
    inode = str(os.fstat(voice_socket.fileno()).st_ino)
    rows = (line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:])
    return next(int(row[12]) for row in rows if row[9] == inode)


class Soak:
    """The whole run, from the client's side."""

    def __init__(self, minutes: float, voices: int, modes: tuple[str, ...]) -> None:
        self._seconds, self._voices, self._modes = 60 * minutes, voices, modes
        self._server = Server()
        self._log, self._ear = Log(), Ear(voices)
        self._start = time.monotonic()
        self._samples: list[Sample] = []
        self._sent: Counter[str] = Counter()
        self._played = self._heard = self._dropped = 0
        self._modes_taken: list[str] = []
        self._faults: list[str] = []

    async def run(self) -> dict[str, Any]:
        """All turns, and then the figures."""
        dvcrypto.dropin.install()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self._log._raised("the loop", context))
        turns = max(len(self._modes), round(self._seconds / TURN_SECONDS))
        try:
            async with peers.logged_in(await self._server.where()) as peer:
                self._start = time.monotonic()
                for mode in itertools.islice(itertools.cycle(self._modes), turns):
                    await self._turn(peer, mode, self._seconds / turns)
        finally:
            self._server.stop()
        return self._figures()

    async def _turn(self, peer: Any, mode: str, seconds: float) -> None:
        await self._server.ask("offer", mode)
        voice = await peer.join_to_listen()
        voice._connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self._modes_taken.append(voice.mode)
        self._ear.begin()
        self._ear.listen(voice)
        is_over = threading.Event()
        playing = peer.play(voice, self._frames(is_over))
        watching = asyncio.create_task(self._watch(mode))
        self._sent.update(await self._server.ask("speak", self._voices, seconds, min(KEY_SECONDS, seconds / 2.5)))
        watching.cancel()
        is_over.set()
        if error := await playing:
            self._faults.append(f"the player ended with {error!r}")
        await asyncio.sleep(SETTLE_SECONDS)
        heard, is_right, faults = await self._server.ask("heard")
        self._heard += heard
        self._faults += faults if is_right else [*faults, "what the server heard is not what was played"]
        self._dropped += kernel_drops(voice._connection.socket)
        await voice.disconnect()
        await asyncio.sleep(SETTLE_SECONDS)
        gc.collect()

    def _frames(self, is_over: threading.Event) -> Iterator[bytes]:
        for frame in itertools.cycle(opus.frames()):
            if is_over.is_set():
                return
            self._played += 1
            yield frame

    async def _watch(self, mode: str) -> None:
        await asyncio.sleep(2)  # until all that a turn begins with has begun
        while True:
            self._samples.append(now := sample(self._start, len(self._modes_taken)))
            delivered = sum(self._ear.delivered)
            line = f"{now.seconds:5.0f} s  {mode}  {delivered} packets  {now.resident} KiB  {now.threads} threads"
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{line} ")
            elif len(self._samples) % 30 == 1:
                sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
            await asyncio.sleep(1)

    def _figures(self) -> dict[str, Any]:
        by_speaker = [self._sent[f"speaker {speaker}"] for speaker in range(self._voices)]
        lost = [there - here for there, here in zip(by_speaker, self._ear.delivered, strict=True)]
        settled = [sample for sample in self._samples if sample.seconds >= WARM_UP_SECONDS] or self._samples
        forged = self._sent["flipped"] + self._sent["of another key"]
        growth = slope(settled, within=lambda sample: sample.turn)
        figures: dict[str, Any] = {
            "seconds": round(time.monotonic() - self._start),
            "modes": self._modes_taken,
            "new keys": self._sent["new keys"],
            "voices": self._voices,
            "said": self._sent["said"],
            "delivered": sum(self._ear.delivered),
            "lost": sum(lost),
            "lost by speaker": lost,
            "dropped by the kernel": self._dropped,
            "wrong": self._ear.wrong,
            "delivered twice": self._ear.twice,
            "to the sink": sum(self._ear.to_sink),
            "lost by the library's jitter buffer, as it logs": self._log.lost_by_library,
            "late": self._sent["late"],
            "forged": forged,
            "junk, replays and keep-alives": sum(self._sent[kind] for kind in ("junk", "replayed", "keep-alive")),
            "logged for a wrong tag": self._log.wrong_tags,
            "warnings of wrong tags": self._log.wrong_tag_warnings,
            "played": self._played,
            "heard by the server": self._heard,
            "nonces used twice": sum("used twice" in fault for fault in self._faults),
            "server's faults": self._faults[:10],
            "other warnings and errors": dict(self._log.counts),
            "server's stalls": self._sent["stalls"],
            "KiB after the first minute": [sample.resident for sample in (settled[0], settled[-1])],
            "KiB, least and most": _range(sample.resident for sample in settled),
            "KiB a minute": slope(settled, within=lambda _: None),
            "KiB a minute, within a turn": growth,
            "descriptors, least and most": _range(sample.descriptors for sample in settled),
            "threads, least and most": _range(sample.threads for sample in settled),
            "threads that the library leaves": settled[-1].keep_alives,
        }
        is_wrong = {
            "lost": sum(lost) > self._dropped,
            "logged for a wrong tag": forged - self._log.wrong_tags not in range(self._dropped + 1),
            "warnings of wrong tags": self._log.wrong_tag_warnings > self._seconds / 10 + len(self._modes_taken),
            "heard by the server": self._heard != self._played,
            "KiB a minute, within a turn": growth is not None and growth > MOST_KIB_A_MINUTE,
            "descriptors, least and most": settled[-1].descriptors > settled[0].descriptors + 1,
            "threads, least and most": settled[-1].threads > settled[0].threads + 4,  # asyncio's executor makes some
        }
        must_be_none = ("wrong", "delivered twice", "server's faults", "other warnings and errors")
        is_wrong |= {name: bool(figures[name]) for name in must_be_none}
        return figures | {"not as it should be": [name for name, fails in is_wrong.items() if fails]}


def _range(values: Iterator[int]) -> list[int]:
    numbers = list(values)
    return [min(numbers), max(numbers)]


def main() -> int:
    """Run it, and print the figures."""
    parser = argparse.ArgumentParser(description="discord.py with dvcrypto in a full voice channel, on loopback")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--voices", type=int, default=20, help="speakers besides the client")
    parser.add_argument("--mode", choices=MODES, default="both", help="both: by turns")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    if options.minutes < LEAST_MINUTES:
        parser.error(f"--minutes is {options.minutes:g}; it must be {LEAST_MINUTES} or more")
    if not 1 <= options.voices <= MOST_VOICES:
        parser.error(f"--voices is {options.voices}; it must be 1 to {MOST_VOICES}")
    figures = asyncio.run(Soak(options.minutes, options.voices, MODES[options.mode]).run())
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, figure in figures.items():
            print(f"{name}: {figure}")
    return 1 if figures["not as it should be"] else 0


if __name__ == "__main__":
    sys.exit(main())
