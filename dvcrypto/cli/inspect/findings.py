"""What is found across the packets of a conversation."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dvcrypto.cli.inspect.contents import extension_fault
from dvcrypto.cli.inspect.rows import Datagram, Row, row_of
from dvcrypto.cli.inspect.streams import Gap, Move, Nonces, Sequences, Step
from dvcrypto.diagnosis import Diagnosis, Mistake
from dvcrypto.modes import Mode

_NUMBERS_KEPT: Final = 1000  # of the packets of a finding
_NONCES_REMEMBERED: Final = 1 << 19  # at least, and twice as many at most
_ANOTHER_KEY_MIN: Final = 3  # packets in a row that fail, beside as many that do not, until another key is suspected
_HARMLESS: Final = {
    "duplicate",
    "padding_only",
    "sequence_gap",
    "sequence_jump",
    "sequence_repeated",
}
_NONCE_PLACED: Final = {Mistake.NONCE_SWAPPED: 1, Mistake.NONCE_RIGHT_ALIGNED: 2, Mistake.NONCE_IN_MIDDLE: 3}
_NONCE_ELSEWHERE: Final = {
    Mistake.NONCE_12,
    Mistake.NONCE_WHOLE,
    Mistake.NONCE_IN_FRONT,
    Mistake.TAG_AND_NONCE_SWAPPED,
    Mistake.XSALSA20_SUFFIX,
    Mistake.XSALSA20_LITE,
    Mistake.XSALSA20,
}
_RUNS_NAMED: Final = 3
_RANDOM: Final = (
    "its nonces are counted in neither byte order; of random ones, one comes twice within 77,000 packets, more likely "
    "than not"
)
_MOVES: Final = {
    Move.STILL: (
        "nonce_still",
        "its nonce does not change from a packet to the next: every packet needs another one",
        "nonce stands still",
    ),
    Move.BACK: (
        "nonce_back",
        "its nonce counter jumps back: it comes to nonces that were used, and must only go on",
        "nonce jumps back",
    ),
    Move.WRAP: (
        "nonce_wrapped",
        "its nonce counter went on at 0 after 2^32: a sender must stop there, and get another key",
        "nonce wraps",
    ),
}


@dataclass(slots=True)
class Finding:
    """Something that was found, once or many times."""

    name: str
    text: str
    subject: str = ""
    """The sender or the SSRC, where it is about one."""
    count: int = 0
    packets: list[int] = field(default_factory=list)
    """Their numbers; of many, the first."""
    repeats: list[int] = field(default_factory=list)
    """What each of them repeats, where that is what was found."""

    @property
    def is_serious(self) -> bool:
        """Whether something is wrong, with the sender or with the key."""
        return self.name not in _HARMLESS


@dataclass(slots=True)
class Stream:
    """What came from one sender under one SSRC."""

    ssrc: int
    source: str
    rtp: int = 0
    rtcp: int = 0
    opened: int = 0
    duplicates: int = 0
    padding_only: int = 0
    modes: set[Mode] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    sequences: Sequences = field(default_factory=Sequences)


@dataclass(slots=True)
class Sender:
    """What came from one address and port."""

    source: str
    packets: int = 0
    opened: int = 0
    nonces: Nonces = field(default_factory=Nonces)
    failed_before_key: int = 0
    """Packets under another key until the first under this one, and the number of the last of them."""
    last_before_key: int = 0
    under_key: int = 0
    """Packets under this key, rightly sealed or not."""
    failed_after_key: int = 0
    """Packets under another key since the last under this one, and the number of the first of them."""
    first_after_key: int = 0


class Survey:
    """Takes the packets of a capture one after the other, and finds what only shows across them."""

    def __init__(self) -> None:
        self.streams: dict[tuple[str, int], Stream] = {}
        self.senders: dict[str, Sender] = {}
        self.kinds: Counter[str] = Counter()
        self.opened = 0
        self.failed = 0
        self._findings: dict[tuple[str, str], Finding] = {}
        self._nonces = _SeenNonces()

    def add(self, datagram: Datagram, diagnosis: Diagnosis) -> Row:
        """Take a packet. Returns all that is known of it so far."""
        row = row_of(datagram, diagnosis)
        self.kinds[row.kind] += 1
        self.failed += row.failed
        self.opened += row.verdict == "opens"
        if row.failed:
            self.note(row.verdict, row.reason, row.number)
        sender = self.senders.setdefault(row.source, Sender(row.source))
        sender.packets += 1
        if row.ssrc is None:
            return row
        stream = self.streams.setdefault((row.source, row.ssrc), Stream(row.ssrc, row.source))
        self._count(row, sender, stream)
        self._look_inside(row, diagnosis, stream)
        _follow_key(row, diagnosis, sender)
        if not self._is_duplicate(row, diagnosis, datagram.payload, stream):
            self._follow(row, diagnosis, datagram.payload[-4:], sender, stream)
        return row

    def note(
        self, name: str, text: str, number: int | None = None, *, subject: str = "", repeats: int | None = None
    ) -> None:
        """Take a finding down; the text of the first one of its kind and subject stays."""
        finding = self._findings.setdefault((name, subject), Finding(name, text, subject))
        finding.count += 1
        if number is not None and len(finding.packets) < _NUMBERS_KEPT:
            finding.packets.append(number)
            if repeats is not None:
                finding.repeats.append(repeats)

    def findings(self) -> list[Finding]:
        """All of them so far, the serious ones first."""
        found = (*self._findings.values(), *self._of_senders(), *self._of_streams())
        return sorted(found, key=lambda finding: not finding.is_serious)

    def _count(self, row: Row, sender: Sender, stream: Stream) -> None:
        opens = row.verdict == "opens"
        sender.opened += opens
        stream.rtp += row.kind == "rtp"
        stream.rtcp += row.kind == "rtcp"
        stream.opened += opens
        if row.failed:
            stream.faults[row.verdict] += 1
        if row.mode is not None:
            stream.modes.add(row.mode)

    def _look_inside(self, row: Row, diagnosis: Diagnosis, stream: Stream) -> None:
        opened = diagnosis.opened
        if opened is None or opened.is_rtcp:
            return
        if fault := extension_fault(opened.extension):
            row.notes.append(fault)
            stream.faults["broken_extension"] += 1
            self.note("broken_extension", f"{fault}, so that a receiver reads no further", row.number)
        if opened.header.padding and not opened.payload:
            row.notes.append("padding only")
            stream.padding_only += 1
            self.note("padding_only", "padding and no payload, as some senders probe with", row.number)

    def _is_duplicate(self, row: Row, diagnosis: Diagnosis, payload: bytes, stream: Stream) -> bool:
        """Look the nonce up among those seen; whether the whole datagram was seen with it."""
        under_key = _is_under_key(diagnosis) and diagnosis.mistake not in _NONCE_ELSEWHERE
        place = _NONCE_PLACED.get(diagnosis.mistake, 0) if diagnosis.mistake else 0
        mode = list(Mode).index(diagnosis.mode) if diagnosis.mode and under_key else 2
        before = self._nonces.add(bytes((mode, place)) + payload[-4:], row.number, payload)
        if before is None:
            return False
        if before.is_same:
            stream.duplicates += 1
            row.notes.append(f"#{before.number} again")
            text = "the same bytes came twice; a receiver refuses the second"
            self.note("duplicate", text, row.number, repeats=before.number)
            return True
        if under_key:
            row.notes.append(f"nonce of #{before.number} again")
            stream.faults["nonce_reuse"] += 1
            text = "another packet had the nonce under this key before: that gives both away, and lets others forge"
            self.note("nonce_reuse", text, row.number, repeats=before.number)
        return False

    def _follow(self, row: Row, diagnosis: Diagnosis, nonce: bytes, sender: Sender, stream: Stream) -> None:
        step = Step.NEXT
        if row.sequence is not None:
            step = self._follow_sequence(row, row.sequence, stream)
        if not _is_under_key(diagnosis) or diagnosis.mistake in _NONCE_ELSEWHERE:
            return
        assert row.ssrc is not None
        in_order = step in {Step.NEXT, Step.GAP}
        move = sender.nonces.add(nonce, row.ssrc, in_order=in_order)
        if move is not Move.ON:
            name, text, note = _MOVES[move]
            row.notes.append(note)
            stream.faults[name] += 1
            self.note(name, text, row.number, subject=row.source)

    def _follow_sequence(self, row: Row, sequence: int, stream: Stream) -> Step:
        before = stream.sequences.last
        step = stream.sequences.add(sequence, row.number)
        subject = f"SSRC {stream.ssrc}"
        if step is Step.GAP:
            row.notes.append(f"gap behind {before}")
        elif step is Step.LATE:
            row.notes.append("late")
        elif step is Step.REPEATED:
            row.notes.append("sequence again")
            text = f"sequence number {sequence} is there again, in another packet"
            self.note("sequence_repeated", text, row.number, subject=subject)
        elif step is Step.JUMP:
            row.notes.append(f"jump from {before}")
            self.note("sequence_jump", f"sequence number {sequence} is far from {before}", row.number, subject=subject)
        return step

    def _of_senders(self) -> Iterator[Finding]:
        for sender in self.senders.values():
            if sender.nonces.are_random:
                yield Finding("nonce_random", _RANDOM, sender.source, sender.opened)
            if sender.under_key < _ANOTHER_KEY_MIN:
                continue
            if sender.failed_after_key >= _ANOTHER_KEY_MIN:
                first = sender.first_after_key
                text = f"from packet {first} on, all of its packets fail: the key was changed there"
                yield Finding("key_changed", text, sender.source, sender.failed_after_key, [first])
            if sender.failed_before_key >= _ANOTHER_KEY_MIN:
                last = sender.last_before_key
                text = f"up to packet {last}, all of its packets fail: this key came after it"
                yield Finding("key_came_later", text, sender.source, sender.failed_before_key, [last])

    def _of_streams(self) -> Iterator[Finding]:
        """Gaps as they are at the end, when what was late has come."""
        for stream in self.streams.values():
            gaps = stream.sequences.gaps
            if not gaps:
                continue
            runs = [_run(gap) for gap in gaps[:_RUNS_NAMED]]
            if len(gaps) > _RUNS_NAMED:
                runs.append(f"{len(gaps) - _RUNS_NAMED} more runs")
            text = f"sequence numbers that did not come, {stream.sequences.lost} in all: {', '.join(runs)}"
            packets = [gap.packet for gap in gaps[:_NUMBERS_KEPT]]
            yield Finding("sequence_gap", text, f"SSRC {stream.ssrc}", len(gaps), packets)


def _follow_key(row: Row, diagnosis: Diagnosis, sender: Sender) -> None:
    """A sender that goes on under another key fails from one packet on."""
    if _is_under_key(diagnosis):
        sender.under_key += 1
        sender.failed_after_key = 0
    elif diagnosis.mistake is not Mistake.WRONG_KEY:
        return
    elif sender.under_key:
        sender.failed_after_key += 1
        if sender.failed_after_key == 1:
            sender.first_after_key = row.number
    else:
        sender.failed_before_key += 1
        sender.last_before_key = row.number


def _run(gap: Gap) -> str:
    first, last = gap.first & 0xFFFF, gap.last & 0xFFFF
    return str(first) if first == last else f"{first} to {last}"


def _is_under_key(diagnosis: Diagnosis) -> bool:
    """Whether it was sealed under the key, rightly or wrongly."""
    return diagnosis.mode is not None or diagnosis.mistake not in {None, Mistake.WRONG_KEY}


class _Before(NamedTuple):
    """A packet that had the nonce before."""

    number: int
    is_same: bool
    """Whether it was the same datagram."""


class _SeenNonces:
    """The nonces of the last half million packets, at least: of more, memory would have no bound."""

    def __init__(self) -> None:
        self._new: dict[bytes, tuple[int, int]] = {}
        self._old: dict[bytes, tuple[int, int]] = {}

    def add(self, nonce: bytes, number: int, packet: bytes) -> _Before | None:
        """Take a nonce. Returns the first packet that had it."""
        digest = hash(packet)
        seen = self._new.get(nonce) or self._old.get(nonce)
        if seen is not None:
            return _Before(seen[0], seen[1] == digest)
        if len(self._new) >= _NONCES_REMEMBERED:
            self._old, self._new = self._new, {}
        self._new[nonce] = (number, digest)
        return None
