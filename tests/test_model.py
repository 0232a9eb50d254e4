"""All promises at once: sealers, streams and openers do what their twins in plain Python do, call by call.

The ordinary run is the same every time. A long one, of random calls:

    .venv/bin/python -m pytest tests/test_model.py --hypothesis-profile=long
"""

import copy
import hashlib
import os
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain, filterfalse
from typing import Any, NamedTuple

import oracle
import pytest
from concurrency import in_child, run_threads
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from model import Judged, OpenerTwin, SealerTwin, StreamTwin

from dvcrypto import (
    DvcryptoError,
    Mode,
    OpenedPacket,
    Opener,
    RtpExtension,
    RtpStream,
    Sealer,
    Status,
)

pytestmark = pytest.mark.timeout(0)  # Hypothesis ends its search for the shortest failure by itself

KEYS = [hashlib.sha256(b"key %d" % number).digest() for number in range(4)]
OTHER_KEY = hashlib.sha256(b"another key").digest()
NOISE = hashlib.shake_256(b"noise").digest(4000)

# Where sealers start, so far from each other that none comes to another's nonces: each place is taken once.
STARTS = [
    (mode, key, first)
    for mode in Mode
    for key, left in zip(KEYS, (1, 5, 11, 150), strict=True)
    for first in (0x8000_0000, 0xFF_FFF0, 2**32 - left)
]

# Plain packets, by what they consist of


class Rtp(NamedTuple):
    """Well-formed, whatever is chosen."""

    ssrc: int
    sequence: int
    second: int
    csrcs: int
    words: int | None
    padding: int
    length: int

    def __bytes__(self) -> bytes:
        first = 0x80 | self.csrcs | (0 if self.words is None else 0x10) | (0x20 if self.padding else 0)
        packet = bytes((first, self.second)) + self.sequence.to_bytes(2) + NOISE[:4] + self.ssrc.to_bytes(4)
        packet += NOISE[: 4 * self.csrcs]
        if self.words is not None:
            packet += b"\xbe\xde" + self.words.to_bytes(2) + NOISE[: 4 * self.words]
        return packet + NOISE[: self.length] + (bytes((self.padding,)) * self.padding)


class Rtcp(NamedTuple):
    second: int
    length: int

    def __bytes__(self) -> bytes:
        return bytes((0xA1, self.second)) + NOISE[: 6 + self.length]


class Junk(NamedTuple):
    """What is not sealed."""

    name: str

    def __bytes__(self) -> bytes:
        return UNSEALABLE[self.name]


UNSEALABLE = {
    "short of a header": b"\x80\x78" + NOISE[:9],
    "short of a CSRC": b"\x81\x78" + NOISE[:13],
    "short of an extension's preamble": b"\x90\x78" + NOISE[:13],
    "short of an extension's body": b"\x90\x78" + NOISE[:10] + b"\xbe\xde\0\2" + NOISE[:7],
    "short of a header of RTCP": b"\x80\xc8" + NOISE[:5],
    "of version 1": b"\x40\x78" + NOISE[:30],
    "without a padding count": b"\xa0\x78" + NOISE[:10],
    "with a padding count of 0": b"\xa0\x78" + NOISE[:20] + b"\0",
    "with too much padding": b"\xa0\x78" + NOISE[:10] + b"\xff\xff\x04",
    "too long": b"\x80\x78" + bytes(65514),
}
LENS = st.sampled_from([0, 1, 15, 16, 17, 33, 191, 192, 319, 320, 543, 544, 640, 1200])
NEAR = st.integers(-4, 4) | st.integers(-70, 70)
SEQUENCES = NEAR.map(lambda n: n % 2**16) | st.sampled_from([1000, 16384, 32767, 32768, 32769, 50000])
RTP = st.builds(
    Rtp,
    ssrc=st.sampled_from([1, 1, 1, 2]),
    sequence=SEQUENCES,
    second=st.sampled_from([120, 0x80 | 101, 191, 224]),
    csrcs=st.sampled_from([0, 0, 0, 1, 15]),
    words=st.sampled_from([None, None, 0, 1, 5]),
    padding=st.sampled_from([0, 0, 1, 4, 255]),
    length=LENS,
)
PLAIN = RTP | RTP | RTP | st.builds(Rtcp, second=st.sampled_from([192, 200, 201, 223]), length=LENS)
DOUBTFUL = PLAIN | PLAIN | st.builds(Junk, st.sampled_from(list(UNSEALABLE)))
Plain = Rtp | Rtcp | Junk
BURSTS = st.lists(PLAIN, max_size=12) | st.lists(DOUBTFUL, max_size=4)
LONG_BURST = [bytes(Rtp(9, number, 120, 0, None, 0, 1100)) for number in range(60)]  # it gives up the GIL
SUFFIXES = st.binary(min_size=4, max_size=4)

# Frames

UNITS = st.builds(
    lambda zeros, first, length: bytes(zeros) + b"\0\0\1" + bytes((first,)) + b"\x77" * length,
    zeros=st.integers(0, 2),
    first=st.sampled_from([0x65, 0x41, 0x67, 0x09, 0x65, 0x41, 0x67, 0x1E, 0xE5]),  # 9 is dropped, the last two refused
    length=st.sampled_from([0, 1, 15, 30, 200, 1167, 1168, 3000]),
)
VP8_TAGS = st.sampled_from([b"\x10\x02\0\x9d\x01\x2a", b"\x11\x02\0", b"\x10\x02\0", b"\x11"])
VP9_BYTES = st.sampled_from([b"\x82", b"\x86", b"\x42"])
FRAMES = st.one_of(
    st.builds(lambda length: (None, NOISE[: 3 * length]), LENS),
    st.builds(lambda length: ("opus", NOISE[:length]), LENS),
    st.builds(lambda units: ("h264", b"".join(units)), st.lists(UNITS, max_size=3)),
    st.builds(lambda tag, length: ("vp8", tag + NOISE[: 2 * length]), VP8_TAGS, LENS),
    st.builds(lambda first, length: ("vp9", first + NOISE[: 2 * length] + b"\0"), VP9_BYTES, LENS),
)
ADVANCES = st.sampled_from([0, 960, 3000, 2**31, 2**32 - 1, 2**32, -1])

# Things

WHICH = st.integers(0, 2)
WINDOWS = st.sampled_from([0, 1, 2, 3, 64, 65, 1024, 32768])
STREAM_NUMBERS = st.fixed_dictionaries(
    {
        "ssrc": st.sampled_from([1, 2**32 - 1]),
        "payload_type": st.sampled_from([120, 101, 0]),
        "sequence": st.integers(65526, 65535) | st.just(0),
        "timestamp": st.sampled_from([0, 2**32 - 960]),
        "picture_id": st.sampled_from([0, 126, 2**15 - 1]),
        "max_packet": st.sampled_from([46, 60, 100, 1200]),
        "extension": st.sampled_from([None, RtpExtension(0xBEDE, NOISE[:8]), RtpExtension(0x1000, b"")]),
    }
)

# What may become of a sealed packet on its way

NO_PACKETS = [
    b"",
    bytes(8),  # a keep-alive
    bytes(27),
    b"\0\2\0\x46" + bytes(70),  # IP discovery
    b"\0\3\0\x46" + bytes(70),  # nearly so
    b"\x80" + bytes(65535),
]


def changed(packet: bytes, how: str, where: int) -> bytes:
    """A packet that is or is not what it was. where counts from the end where it is negative."""
    if how == "bit":
        bit = where % (8 * len(packet))
        return packet[: bit // 8] + bytes((packet[bit // 8] ^ 1 << bit % 8,)) + packet[bit // 8 + 1 :]
    if how == "shorter":
        return packet[: where % len(packet)]
    if how == "longer":
        return packet + NOISE[: 1 + where % 30]
    if how == "suffix":
        return packet[:-4] + packet[:-5:-1]
    if how == "other":
        return NO_PACKETS[where % len(NO_PACKETS)]
    if how == "tag":  # as if it had fewer bytes
        return packet[: -20 + where % 16] + packet[-4:]
    return packet


CHANGES = st.tuples(
    st.sampled_from(["none", "none", "none", "none", "bit", "bit", "shorter", "longer", "suffix", "tag", "other"]),
    st.integers(-170, 170) | st.integers(-6000, 6000),
)
PICKS = st.tuples(st.integers(0, 30), CHANGES)
Pick = tuple[int, tuple[str, int]]

Form = Callable[[bytes], Any]
FORMS = st.sampled_from([bytes, bytearray, lambda packet: memoryview(b"\0\0\0" + packet)[3:]])


class Pair(NamedTuple):
    """A thing and its twin."""

    real: Any
    twin: Any


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the error that it raises, which tells nothing of a key."""
    try:
        return call()
    except (DvcryptoError, ValueError) as error:
        raised = error
    assert not tells_a_key(str(raised))
    return type(raised)


def is_error(result: Any) -> bool:
    return isinstance(result, type)


def tells_a_key(shown: str) -> bool:
    return any(form in shown for key in KEYS for form in (key.hex(), repr(key)[2:-1], str(list(key))[1:-1]))


def described(packet: OpenedPacket | None) -> tuple[object, ...] | None:
    """An opened packet, as the oracle takes one apart."""
    if packet is None:
        return None
    extension = packet.extension or (None, b"")
    return packet.plain, packet.is_rtcp, packet.nonce, packet.ssrc, *extension, packet.payload


def expected(judged: Judged, sealed: bytes) -> tuple[object, ...] | None:
    if judged.status not in {Status.OK, Status.EMPTY}:
        return None
    parts, is_rtcp = oracle.parse(judged.plain), oracle.is_rtcp(judged.plain)
    ssrc = int.from_bytes(judged.plain[4:8] if is_rtcp else judged.plain[8:12])
    return judged.plain, is_rtcp, sealed[-4:], ssrc, parts.profile, parts.extension, parts.payload


class Promises(RuleBasedStateMachine):
    """Calls in any order. Every one of them goes to the thing and to its twin."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: dict[type, list[Pair]] = {Sealer: [], RtpStream: [], Opener: []}
        self.nonces: set[tuple[Mode, bytes, bytes]] = set()
        self.sealed = defaultdict[tuple[Mode, bytes], list[bytes]](list)  # by sealers and peers
        self.forks = self.races = self.closings = 0

    def one(self, kind: type, which: int) -> Pair:
        pairs = self.pairs[kind]
        return pairs[which % len(pairs)]

    def seals(self, by: SealerTwin, real: Callable[[], list[bytes]], twin: Callable[[], list[bytes]]) -> None:
        """The same packets or the same error."""
        packets, predicted = outcome(real), outcome(twin)
        assert packets == predicted
        if not is_error(packets):
            self.use(by, [packet[-4:] for packet in packets])
            self.sealed[by.mode, by.key] += packets

    def use(self, by: SealerTwin, suffixes: list[bytes]) -> None:
        """No nonce was used before, by whomever."""
        nonces = {(by.mode, by.key, suffix) for suffix in suffixes}
        assert len(nonces) == len(suffixes)
        assert not nonces & self.nonces
        self.nonces |= nonces

    # Making

    @initialize(
        starts=st.permutations(range(len(STARTS))),
        byteorder=st.sampled_from(["little", "big"]),
        numbers=STREAM_NUMBERS,
        window=WINDOWS,
    )
    def begin(self, starts: list[int], byteorder: str, numbers: dict[str, Any], window: int) -> None:
        self.starts, self.byteorder = starts, byteorder
        self.new_sealer()
        self.new_stream(0, numbers)
        self.new_opener(0, window)

    @precondition(lambda self: self.has_few(Sealer))
    @rule()
    def new_sealer(self) -> None:
        mode, key, first = STARTS[self.starts.pop()]
        real = Sealer(mode, key, first_nonce=first, byteorder=self.byteorder)
        self.pairs[Sealer].append(Pair(real, SealerTwin(mode, key, first, self.byteorder)))

    @precondition(lambda self: self.has_few(RtpStream))
    @rule(sealer=WHICH, numbers=STREAM_NUMBERS)
    def new_stream(self, sealer: int, numbers: dict[str, Any]) -> None:
        real, twin = self.one(Sealer, sealer)
        self.pairs[RtpStream].append(Pair(RtpStream(real, **numbers), StreamTwin(twin, **numbers)))

    @precondition(lambda self: self.has_few(Opener))
    @rule(sealer=WHICH, window=WINDOWS)
    def new_opener(self, sealer: int, window: int) -> None:
        twin = self.one(Sealer, sealer).twin
        real = Opener(twin.mode, twin.key, replay_window=window)
        self.pairs[Opener].append(Pair(real, OpenerTwin(twin.mode, twin.key, window)))

    def has_few(self, kind: type) -> bool:
        return len(self.pairs[kind]) < 3

    # Sealing

    @rule(sealer=WHICH, packet=DOUBTFUL, form=FORMS, askew=st.sampled_from([0, 0, 0, 1, -1]))
    def seal(self, sealer: int, packet: Plain, form: Form, askew: int) -> None:
        real, twin = self.one(Sealer, sealer)
        plain = bytes(packet)
        at = oracle.clear_header_len(plain) + askew
        header, payload = plain[:at], plain[at:]
        self.seals(twin, lambda: [real.seal(form(header), form(payload))], lambda: twin.seal(header, payload))

    @rule(sealer=WHICH, packets=BURSTS, form=FORMS)
    def seal_burst(self, sealer: int, packets: list[Plain], form: Form) -> None:
        real, twin = self.one(Sealer, sealer)
        plain = list(map(bytes, packets))
        self.seals(twin, lambda: real.seal_burst(map(form, plain)).tolist(), lambda: twin.seal_burst(plain))

    @rule(
        sealer=WHICH,
        packets=BURSTS,
        fill=st.sampled_from([b"\x55", b"\xcc"]),
        room=st.sampled_from([-1, 0, 0, 7]),
        shift=st.none() | st.just(0) | st.sampled_from([-20, -1, 1, 20]),
    )
    def seal_burst_into(self, sealer: int, packets: list[Plain], fill: bytes, room: int, shift: int | None) -> None:
        """The packets may lie in the output, shifted from where they will be sealed; all else in it is untouched."""
        real, twin = self.one(Sealer, sealer)
        plain: list[Any] = list(map(bytes, packets))
        starts = list(accumulate((len(packet) + oracle.OVERHEAD_LEN for packet in plain), initial=20))
        memory = bytearray(fill * (starts[-1] + 20))
        sources = plain
        if shift is not None:
            places = [slice(at + shift, at + shift + len(packet)) for at, packet in zip(starts, plain, strict=False)]
            sources = [memoryview(memory)[place] for place in places]
            for source, packet in zip(sources, plain, strict=True):
                source[:] = packet
        predicted = bytearray(memory)
        out = slice(20, max(20, starts[-1] + room))
        overlap = bool(shift) and any(place.stop > 20 and place.start < starts[-1] for place in places)
        self.seals(
            twin,
            lambda: real.seal_burst_into(sources, memoryview(memory)[out]).tolist(),
            lambda: twin.seal_burst_into(plain, memoryview(predicted)[out], overlap=overlap),
        )
        assert memory == predicted

    @rule(stream=WHICH, length=LENS, marker=st.booleans(), advance=ADVANCES)
    def seal_in_a_stream(self, stream: int, length: int, marker: bool, advance: int) -> None:
        real, twin = self.one(RtpStream, stream)
        payload, numbers = NOISE[:length], {"marker": marker, "advance": advance}
        self.seals(twin.sealer, lambda: [real.seal(payload, **numbers)], lambda: twin.seal(payload, **numbers))

    @rule(stream=WHICH, cut=FRAMES, advance=ADVANCES)
    def seal_frame(self, stream: int, cut: tuple[str | None, bytes], advance: int) -> None:
        real, twin = self.one(RtpStream, stream)
        packetizer, frame = cut
        numbers: dict[str, Any] = {"packetizer": packetizer, "advance": advance}
        self.seals(
            twin.sealer,
            lambda: real.seal_frame(frame, **numbers).tolist(),
            lambda: twin.seal_frame(frame, **numbers),
        )

    @precondition(lambda self: self.races < 2)
    @rule(sealer=WHICH, threads=st.integers(2, 3))
    def seal_from_threads(self, sealer: int, threads: int) -> None:
        """Whoever seals first, together they use the next nonces once each, and none for a burst that does not fit."""
        self.races += 1
        real, twin = self.one(Sealer, sealer)
        results: list[Any] = []

        def seal_two_bursts() -> None:
            results.extend(outcome(lambda: real.seal_burst(LONG_BURST).tolist()) for _ in range(2))

        run_threads(*[seal_two_bursts] * threads)
        taken = [outcome(lambda: twin.take(len(LONG_BURST))) for _ in results]
        assert Counter(filter(is_error, results)) == Counter(filter(is_error, taken))
        suffixes = list(chain.from_iterable(filterfalse(is_error, taken)))
        packets = list(chain.from_iterable(filterfalse(is_error, results)))
        assert sorted(packet[-4:] for packet in packets) == sorted(suffixes)
        self.use(twin, suffixes)
        opened = Opener(twin.mode, twin.key).open_burst(packets)
        assert [packet and packet.plain for packet in opened] == LONG_BURST * (len(packets) // len(LONG_BURST))
        for packet in packets[:: len(LONG_BURST) // 2]:
            assert oracle.open_sealed(twin.mode, twin.key, packet) in LONG_BURST

    @precondition(lambda self: self.forks < 1 and hasattr(os, "fork"))
    @rule(packet=RTP, pick=PICKS)
    def fork(self, packet: Plain, pick: Pick) -> None:
        """A child seals nothing under what its parent made, and opens what its parent would."""
        self.forks += 1

        def child() -> list[str]:
            told = [name for pair in self.pairs[Sealer] for name in refusals(pair.real, bytes(packet))]
            told += [outcome(partial(pair.real.seal, b"x")).__name__ for pair in self.pairs[RtpStream]]
            for pair in self.pairs[Opener]:
                self.opens(pair, [self.pick(pair, pick)])
            return sorted(set(told))

        assert in_child(child) == ["SealerForked"]

    # Opening

    @rule(sealer=WHICH, packet=DOUBTFUL, key=st.sampled_from([None, OTHER_KEY]), suffix=SUFFIXES)
    def a_peer_seals(self, sealer: int, packet: Plain, key: bytes | None, suffix: bytes) -> None:
        """Also what we would not."""
        twin = self.one(Sealer, sealer).twin
        self.sealed[twin.mode, twin.key].append(oracle.seal(twin.mode, key or twin.key, bytes(packet), suffix))

    @rule(opener=WHICH, pick=PICKS, form=FORMS)
    def open(self, opener: int, pick: Pick, form: Form) -> None:
        real, twin = pair = self.one(Opener, opener)
        packet = self.pick(pair, pick)
        assert outcome(lambda: real.open(form(packet)).plain) == outcome(lambda: twin.open(packet))

    @rule(opener=WHICH, picks=st.lists(PICKS, max_size=8), form=FORMS)
    def open_burst(self, opener: int, picks: list[Pick], form: Form) -> None:
        pair = self.one(Opener, opener)
        self.opens(pair, [form(self.pick(pair, pick)) for pick in picks])

    @rule(opener=WHICH, count=st.integers(1, 60))
    def open_the_newest(self, opener: int, count: int) -> None:
        pair = self.one(Opener, opener)
        self.opens(pair, self.sealed[pair.twin.mode, pair.twin.key][-count:])

    def opens(self, opener: Pair, packets: list[Any]) -> None:
        """Every packet is what the twin says, and so is the memory behind them: zero where one did not open."""
        sealed = list(map(bytes, packets))
        judged = outcome(lambda: opener.twin.open_burst(sealed))
        burst = outcome(lambda: opener.real.open_burst(packets))
        if is_error(judged):
            assert burst is judged
            return
        assert burst.statuses == tuple(status for status, _ in judged)
        assert list(map(described, burst)) == list(map(expected, judged, sealed))
        assert burst._plain == b"".join(
            plain.ljust(len(packet), b"\0") for (_, plain), packet in zip(judged, sealed, strict=True)
        )

    def pick(self, opener: Pair, pick: Pick) -> bytes:
        """What comes of a sealed packet, of the newest first; nothing at all where there is none."""
        index, change = pick
        sealed = self.sealed[opener.twin.mode, opener.twin.key]
        return changed(sealed[-1 - index % len(sealed)], *change) if sealed else b""

    # Ends

    @precondition(lambda self: self.closings < 2)
    @rule(kind=st.sampled_from([Sealer, Opener]), which=WHICH, how=st.sampled_from(["close", "with", "error"]))
    def close(self, kind: type, which: int, how: str) -> None:
        self.closings += 1
        real, twin = self.one(kind, which)
        twin.close()
        if how == "close":
            real.close()
            return
        with suppress(KeyError), real as same:
            assert same is real
            if how == "error":
                raise KeyError

    @invariant()
    def numbers_are_the_twins(self) -> None:
        for real, twin in self.pairs[Sealer]:
            assert real.packets_left == twin.packets_left
        for real, twin in self.pairs[RtpStream]:
            assert (real.sequence, real.timestamp, real.picture_id) == (twin.sequence, twin.timestamp, twin.picture_id)
        for real, twin in self.pairs[Opener]:
            assert real.stats._asdict() == {status.value: twin.counts[status] for status in Status}

    def teardown(self) -> None:
        """Whatever became of a thing, it is not copied and does not tell its key."""
        for real, _ in chain.from_iterable(self.pairs.values()):
            assert not tells_a_key(repr(real))
            for way in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    way(real)


def refusals(sealer: Sealer, packet: bytes) -> list[str]:
    """What a forked child gets from each way to seal."""
    header_len, out = oracle.clear_header_len(packet), bytearray(b"\x55" * 3000)
    ways: list[Callable[[], object]] = [
        lambda: sealer.seal(packet[:header_len], packet[header_len:]),
        lambda: sealer.seal_burst([packet]),
        lambda: sealer.seal_burst([]),
        lambda: sealer.seal_burst_into([packet], out),
    ]
    told = [outcome(way).__name__ for way in ways]
    assert out == b"\x55" * 3000
    return told


TestPromises = Promises.TestCase
if settings.get_current_profile_name() != "long":
    TestPromises.settings = settings(TestPromises.settings, derandomize=True, max_examples=300, stateful_step_count=40)
