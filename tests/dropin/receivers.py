"""The real readers of discord-ext-voice-recv and py-cord, what is sent to them, and what they make of it.

``python tests/dropin/receivers.py`` prints, for the library that is here, what becomes of each case without dvcrypto
and with it: the tables of docs/dropin.md.
"""

import base64
import importlib
import logging
import random
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import peers
from packets import CIPHERS, GCM, XCHACHA, seal

import dvcrypto.dropin

SSRC, UNKNOWN_SSRC, USER = 0x0A0D10, 0x0B0E20, 4242
KEYS = [bytes(range(start, start + 32)) for start in (0, 100, 200)]
AUDIO = bytes(range(40, 100))
SILENCE = b"\xf8\xff\xfe"
ONE_BYTE, TWO_BYTE = 0xBEDE, 0x1000
READERS = {"discord.py": "discord.ext.voice_recv.reader", "py-cord": "discord.voice.receive.reader"}
LIBRARY = peers.installed()[0]
DAVE_MARK = b"dave:"


def reader_module() -> Any:
    """The module of the reader that is here, or None."""
    try:
        return importlib.import_module(READERS[LIBRARY])
    except (KeyError, ImportError):
        return None


class Heard(NamedTuple):
    """What reached the packet router."""

    kind: str
    """``rtp``, or the name of the RTCP packet's class."""
    ssrc: int
    payload: bytes | int | None
    """Of a sender report its packet count, of a receiver report the last sequence number."""
    extension: dict[int, bytes] = {}  # noqa: RUF012  # nobody writes to it


class DaveSession:
    """End-to-end encryption that puts a mark before a frame, and remembers what it was given."""

    ready = True

    def __init__(self) -> None:
        self.given: list[bytes] = []

    def decrypt(self, user: int, _media: object, frame: bytes) -> bytes:
        assert user == USER
        self.given.append(bytes(frame))
        if not frame.startswith(DAVE_MARK):
            raise ValueError("no DAVE frame")
        return bytes(frame[len(DAVE_MARK) :])


class Logged(logging.Handler):
    """Everything that is logged, from DEBUG up."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def text(self) -> str:
        """All of it, tracebacks and arguments too."""
        formatter = logging.Formatter()
        return "\n".join(f"{formatter.format(record)} {record.args!r}" for record in self.records)

    @property
    def has_key(self) -> bool:
        """Whether a key is in it, in whatever form, or a good part of one."""
        return any(form in self.text for key in KEYS for form in _forms(key[:16]) | _forms(key[16:]))

    @property
    def tracebacks(self) -> list[str]:
        return [record.getMessage() for record in self.records if record.exc_info]


def _forms(key: bytes) -> set[str]:
    return {
        repr(key)[2:-1],
        str(list(key))[1:-1],
        key.hex(),
        key.hex().upper(),
        key.hex(" "),
        str(base64.b64encode(key[:15]))[2:-1],
    }


class Receiver:
    """A real reader with its real decryptor; what stands around it is fake, and its router writes down what it gets."""

    def __init__(self, mode: str, *, dave: DaveSession | None = None) -> None:
        self.heard: list[Heard] = []
        self.logged = Logged()
        users = {SSRC: USER}
        connection = SimpleNamespace(dave_session=dave, ssrc_user_map=users)
        self.client = SimpleNamespace(
            mode=mode,
            secret_key=list(KEYS[0]),
            guild=None,
            _connection=connection,
            _ssrc_to_id=users,
            _get_id_from_ssrc=lambda _: None,
        )
        sink: Any = SimpleNamespace(__sink_listeners__=[], walk_children=list)
        self.reader: Any = reader_module().AudioReader(sink, self.client)
        self.reader.packet_router.feed_rtp = self._feed_rtp
        self.reader.packet_router.feed_rtcp = self._feed_rtcp

    def take(self, steps: Sequence[bytes], *, feed: Callable[[bytes], object] | None = None) -> None:
        """Be sent these datagrams; a step that is one of KEYS is a new key instead."""
        for step in steps:
            if step in KEYS:
                self.client.secret_key = list(step)
                if LIBRARY == "discord.py":  # its receiver hears of it; py-cord's does not
                    self.reader.update_secret_key(bytes(step))
            else:
                (feed or self.reader.callback)(step)

    @contextmanager
    def watched(self) -> Iterator["Receiver"]:
        """Keep all that is logged meanwhile."""
        root = logging.getLogger()
        level = root.level
        root.setLevel(logging.DEBUG)
        root.addHandler(self.logged)
        try:
            yield self
        finally:
            root.removeHandler(self.logged)
            root.setLevel(level)

    def _feed_rtp(self, packet: Any) -> None:
        extension = {number: bytes(value) for number, value in packet.extension_data.items()}
        payload = packet.decrypted_data
        self.heard.append(Heard("rtp", packet.ssrc, None if payload is None else bytes(payload), extension))

    def _feed_rtcp(self, packet: Any) -> None:
        info, reports = getattr(packet, "info", None), getattr(packet, "reports", ())
        number = info.packet_count if info else reports[0].last_seq if reports else None
        self.heard.append(Heard(type(packet).__name__, getattr(packet, "ssrc", 0), number))


def rtp(
    payload: bytes = AUDIO,
    *,
    sequence: int = 1,
    ssrc: int = SSRC,
    csrcs: Sequence[int] = (),
    extension: tuple[int, bytes] | None = None,
    padding: int = 0,
) -> bytes:
    """A plain RTP packet (RFC 3550, section 5.1; RFC 8285)."""
    first = 0x80 | (0x20 if padding else 0) | (0x10 if extension else 0) | len(csrcs)
    packet = struct.pack("!BBHII", first, 120, sequence, 960 * sequence, ssrc)
    packet += b"".join(struct.pack("!I", csrc) for csrc in csrcs)
    if extension:
        profile, body = extension
        packet += struct.pack("!HH", profile, len(body) // 4) + body
    packet += payload
    return packet + (bytes(padding - 1) + bytes([padding]) if padding else b"")


def rtcp(packet_type: int, body: bytes, count: int = 0) -> bytes:
    """A plain RTCP packet (RFC 3550, section 6.4)."""
    return struct.pack("!BBHI", 0x80 | count, packet_type, 1 + len(body) // 4, SSRC) + body


SENDER_REPORT = rtcp(200, struct.pack("!5I", 0x83AA7E80, 0, 4800, 1234, 56789))
REPORT_BLOCK = struct.pack("!IIIIII", SSRC, 0x0500_0001, 77, 3, 0, 0)
RECEIVER_REPORT = rtcp(201, REPORT_BLOCK, 1)
SDES = struct.pack("!BBHI", 0x81, 202, 3, SSRC) + b"\x01\x04user\0\0"
BYE = struct.pack("!BBHI", 0x81, 203, 1, SSRC)
APP = rtcp(204, b"test" + bytes(4))
FEEDBACK = rtcp(206, struct.pack("!I", SSRC))
EXTENSIONS = {
    "one-byte extension, 0 words": (ONE_BYTE, b"", {}),
    "one-byte extension, 1 word": (ONE_BYTE, bytes.fromhex("10ff0000"), {1: b"\xff"}),
    "one-byte extension, 2 words": (ONE_BYTE, bytes.fromhex("10ff900151000000"), {1: b"\xff", 9: b"\x01", 5: b"\0\0"}),
    "one-byte extension, 3 words": (
        ONE_BYTE,
        bytes.fromhex("32aabbcc10ff90010000 0000"),
        {3: b"\xaa\xbb\xcc", 1: b"\xff", 9: b"\1"},
    ),
    "two-byte extension, 0 words": (TWO_BYTE, b"", {}),
    "two-byte extension, 1 word": (TWO_BYTE, bytes.fromhex("0101ff00"), {1: b"\xff"}),
    "two-byte extension, 2 words": (TWO_BYTE, bytes.fromhex("0101ff0902abcd00"), {1: b"\xff", 9: b"\xab\xcd"}),
    "two-byte extension, 3 words": (
        TWO_BYTE,
        bytes.fromhex("0101ff0907aabbccddeeff11"),
        {1: b"\xff", 9: bytes.fromhex("aabbccddeeff11")},
    ),
}
ONE_WORD, ONE_WORD_ELEMENTS = (ONE_BYTE, bytes.fromhex("10ff0000")), {1: b"\xff"}
KEEPALIVE = (7).to_bytes(8, "big")
DISCOVERY = bytes.fromhex("00020046") + struct.pack("!I", SSRC) + b"127.0.0.1".ljust(64, b"\0") + b"\x13\x88"


class Case(NamedTuple):
    """What is sent, and what of it must reach the router: nothing more, in this order."""

    name: str
    steps: Callable[[str], list[bytes]]
    """By mode. Keys among the datagrams are new keys."""
    heard: list[Heard]


def sealed(mode: str, packet: bytes, key: int = 0, counter: int = 5) -> bytes:
    """By PyNaCl or ``cryptography``."""
    return seal(CIPHERS[mode](KEYS[key]), counter, packet)


def cases(mark: bytes = b"") -> list[Case]:
    """All cases; with a mark, payloads are DAVE frames."""

    def one(name: str, packet: bytes, *heard: Heard) -> Case:
        return Case(name, lambda mode: [sealed(mode, packet)], list(heard))

    def frame(payload: bytes = AUDIO, **parts: Any) -> bytes:
        return rtp(mark + payload, **parts)

    def audio(extension: dict[int, bytes] | None = None, payload: bytes = AUDIO, ssrc: int = SSRC) -> Heard:
        return Heard("rtp", ssrc, payload, extension or {})

    padded = frame(padding=8)
    return [
        one("plain", frame(), audio()),
        *(
            one(name, frame(extension=(profile, body)), audio(found))
            for name, (profile, body, found) in EXTENSIONS.items()
        ),
        one("one CSRC", frame(csrcs=[1]), audio()),
        one("fifteen CSRCs", frame(csrcs=range(15)), audio()),
        one("CSRCs and extension", frame(csrcs=[1, 2], extension=ONE_WORD), audio(ONE_WORD_ELEMENTS)),
        one("padding", padded, audio()),
        one("padding, CSRCs and extension", frame(csrcs=[1], extension=ONE_WORD, padding=3), audio(ONE_WORD_ELEMENTS)),
        one("padding only", rtp(b"", padding=200)),
        one("padding only, with extension", rtp(b"", extension=ONE_WORD, padding=4)),
        one("silence frame", frame(SILENCE), audio(payload=SILENCE)),
        one("RTCP sender report", SENDER_REPORT, Heard("SenderReportPacket", SSRC, 1234)),
        one("RTCP receiver report", RECEIVER_REPORT, Heard("ReceiverReportPacket", SSRC, 77)),
        one("RTCP compound, from a sender", SENDER_REPORT + SDES, Heard("SenderReportPacket", SSRC, 1234)),
        one("RTCP compound, from a receiver", RECEIVER_REPORT + SDES, Heard("ReceiverReportPacket", SSRC, 77)),
        *_other_rtcp(one),
        one("RTCP feedback (type 206)", FEEDBACK),
        Case("keep-alive echo", lambda _: [KEEPALIVE], []),
        Case("IP discovery reply", lambda _: [DISCOVERY], []),
        Case("junk of 0 to 19 bytes", lambda _: list(_junk()), []),
        Case(
            "a bit flipped, in each byte by turns", lambda mode: _flipped(sealed(mode, frame(extension=ONE_WORD))), []
        ),
        Case("a replay", lambda mode: [sealed(mode, frame())] * 2, [audio()]),
        Case(
            "a new key",
            lambda mode: [sealed(mode, frame()), KEYS[1], sealed(mode, frame(sequence=2), 1)],
            [audio(), audio()],
        ),
        Case(
            "after a new key, packets of the old one",
            lambda mode: [
                sealed(mode, frame()),
                KEYS[1],
                sealed(mode, frame(sequence=2), 1),
                sealed(mode, frame(sequence=3), 0, 6),
            ],
            [audio(), audio(), audio()],
        ),
        Case(
            "a new key, and then the old one again",
            lambda mode: [
                KEYS[1],
                sealed(mode, frame(sequence=2), 1),
                KEYS[0],
                sealed(mode, frame(sequence=3), 0, 6),
                sealed(mode, frame(sequence=4), 1, 6),
            ],
            [audio(), audio(), audio()],
        ),
    ]


def _other_rtcp(one: Callable[..., Case]) -> list[Case]:
    if LIBRARY == "py-cord":  # it has no classes for these
        return [
            one("RTCP source description", SDES),
            one("RTCP goodbye", BYE),
            one("RTCP application-defined", APP),
        ]
    return [
        one("RTCP source description", SDES, Heard("SDESPacket", 0, None)),
        one("RTCP goodbye", BYE, Heard("BYEPacket", 0, None)),
        one("RTCP application-defined", APP, Heard("APPPacket", SSRC, None)),
    ]


def _junk() -> Iterator[bytes]:
    draw = random.Random(3)
    for length in range(20):
        yield bytes(length)
        yield draw.randbytes(length)
        yield (b"\x80\x78" + draw.randbytes(length))[:length]
        yield (b"\x81\xc9" + draw.randbytes(length))[:length]


def _flipped(packet: bytes) -> list[bytes]:
    return [
        packet[:index] + bytes([packet[index] ^ (1 << index % 8)]) + packet[index + 1 :] for index in range(len(packet))
    ]


def outcome(case: Case, mode: str, dave: DaveSession | None = None) -> str:
    """What became of a case, in a few words."""
    try:
        receiver = Receiver(mode, dave=dave)
    except NotImplementedError:
        return "the mode is not there"
    with receiver.watched():
        receiver.take(case.steps(mode))
    found = [_in_words(receiver.heard, case.heard)]
    if receiver.logged.has_key:
        found.append("**the key is logged**")
    if receiver.logged.tracebacks:
        found.append("a traceback is logged")
    return ", ".join(found)


def _in_words(heard: list[Heard], expected: list[Heard]) -> str:
    if heard == expected:
        return "right" if expected else "dropped"
    if not heard:
        return "lost"
    if len(heard) != len(expected):
        return f"{len(heard)} delivered instead of {len(expected)}"
    faults = set()
    for found, wanted in zip(heard, expected, strict=True):
        if found.payload != wanted.payload:
            both_bytes = isinstance(found.payload, bytes) and isinstance(wanted.payload, bytes)
            sizes = f": {len(found.payload)} bytes instead of {len(wanted.payload)}" if both_bytes else ""
            faults.add("no payload" if found.payload is None else f"wrong contents{sizes}")
        if found.extension != wanted.extension:
            faults.add("wrong extension" if found.extension else "no extension")
        if (found.kind, found.ssrc) != (wanted.kind, wanted.ssrc):
            faults.add("taken for something else")
    return ", ".join(sorted(faults))


def main() -> None:
    """Print the table."""
    logging.raiseExceptions = False
    logging.lastResort = None
    dave_too = LIBRARY == "py-cord"
    columns: dict[str, list[str]] = {}
    names = [case.name for case in cases()]
    for title in ("original", "with dvcrypto"):
        if title == "with dvcrypto":
            dvcrypto.dropin.install()
        columns[title] = [outcome(case, XCHACHA) for case in cases()]
        if dave_too:
            columns[f"{title}, DAVE"] = [outcome(case, XCHACHA, DaveSession()) for case in cases(DAVE_MARK)]
    columns["with dvcrypto, AES-256-GCM"] = [outcome(case, GCM) for case in cases()]
    sys.stdout.write(f"| case | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}\n")
    for name, *cells in zip(names, *columns.values(), strict=True):
        sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
