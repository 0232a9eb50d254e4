"""What is followed over time: the sequence numbers of an SSRC, and the nonces of a sender."""

import enum
from typing import Final, Literal, NamedTuple

_DROPOUT_MAX: Final = 3000  # sequence numbers; a longer step is a jump (RFC 3550, appendix A.1)
_LATE_MAX: Final = 1024  # sequence numbers behind the newest, as wide as replay windows usually are
_GAPS_SEARCHED: Final = 256  # of the newest, for the one that a late packet fills
_STEP_MAX: Final = 1024  # of a nonce counter, from a packet to the next of its sender
_WRAP_MAX: Final = 1 << 16  # of a step over 2^32
_STEPS_TO_JUDGE: Final = 8


class Step(enum.Enum):
    """Where a packet stands in its sequence."""

    NEXT = enum.auto()
    """It follows, or is the first."""
    GAP = enum.auto()
    """It follows, and some before it are missing so far."""
    LATE = enum.auto()
    """It was missing."""
    REPEATED = enum.auto()
    """Its number was there before."""
    JUMP = enum.auto()
    """It is far from the others."""


class Gap(NamedTuple):
    """A run of sequence numbers that are missing, counted on over 65,535."""

    first: int
    last: int
    packet: int
    """The number of the packet that came behind it."""


class Sequences:
    """The sequence numbers of one SSRC, counted on over 65,535."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self.late = 0
        self.gaps: list[Gap] = []
        self._newest = 0
        self._after_jump: int | None = None

    @property
    def lost(self) -> int:
        """How many numbers are missing."""
        return sum(gap.last - gap.first + 1 for gap in self.gaps)

    def add(self, sequence: int, packet: int) -> Step:
        """Take the sequence number of a packet, and its own number."""
        if self.first is None:
            self.first = self.last = self._newest = sequence
            return Step.NEXT
        ahead = (sequence - self._newest) & 0xFFFF
        if 0 < ahead <= _DROPOUT_MAX:
            return self._advance(ahead, packet)
        behind = -ahead & 0xFFFF
        if behind <= _LATE_MAX:
            return self._fill(self._newest - behind)
        if sequence == self._after_jump:  # two in order: it goes on from there
            self._newest += ahead
            self.last, self._after_jump = sequence, None
            return Step.NEXT
        self._after_jump = (sequence + 1) & 0xFFFF
        return Step.JUMP

    def _advance(self, ahead: int, packet: int) -> Step:
        if ahead > 1:
            self.gaps.append(Gap(self._newest + 1, self._newest + ahead - 1, packet))
        self._newest += ahead
        self.last, self._after_jump = self._newest & 0xFFFF, None
        return Step.GAP if ahead > 1 else Step.NEXT

    def _fill(self, number: int) -> Step:
        for index in range(len(self.gaps) - 1, max(-1, len(self.gaps) - 1 - _GAPS_SEARCHED), -1):
            gap = self.gaps[index]
            if gap.first <= number <= gap.last:
                rest = (gap._replace(last=number - 1), gap._replace(first=number + 1))
                self.gaps[index : index + 1] = [each for each in rest if each.first <= each.last]
                self.late += 1
                return Step.LATE
        if self.first is not None and number < self.first:  # from before the capture
            self.late += 1
            return Step.LATE
        return Step.REPEATED


class Move(enum.Enum):
    """What a sender's nonce did."""

    ON = enum.auto()
    STILL = enum.auto()
    """It did not change from a packet to the next."""
    BACK = enum.auto()
    WRAP = enum.auto()
    """It went on at 0 after 2^32."""


class Nonces:
    """The nonces of one sender: 4 bytes each, counted in a byte order that only their steps tell."""

    def __init__(self) -> None:
        self.first: bytes | None = None
        self.last: bytes | None = None
        self._steps = 0
        self._still = 0
        self._counted = {"little": 0, "big": 0}
        self._of_ssrcs: dict[int, bytes] = {}

    @property
    def byteorder(self) -> Literal["little", "big"] | None:
        """That in which they are counted, as far as that shows."""
        little, big = self._counted["little"], self._counted["big"]
        return None if little == big else "little" if little > big else "big"

    @property
    def are_random(self) -> bool:
        """Whether they change, and are counted in neither order."""
        counted = sum(self._counted.values())
        return self._steps >= _STEPS_TO_JUDGE and 4 * counted < self._steps and 2 * self._still < self._steps

    def add(self, nonce: bytes, ssrc: int, *, in_order: bool) -> Move:
        """Take a packet's nonce. Of packets that came late, nothing is concluded."""
        if self.first is None:
            self.first = nonce
        elif self.last is not None:
            self._count(self.last, nonce)
        self.last = nonce
        if not in_order:
            return Move.ON
        before = self._of_ssrcs.get(ssrc)
        self._of_ssrcs[ssrc] = nonce
        if before is None:
            return Move.ON
        return self._move(before, nonce)

    def _count(self, before: bytes, after: bytes) -> None:
        self._steps += 1
        self._still += before == after
        for order in ("little", "big"):
            step = (_number(after, order) - _number(before, order)) & 0xFFFF_FFFF
            self._counted[order] += 0 < step <= _STEP_MAX

    def _move(self, before: bytes, after: bytes) -> Move:
        if before == after:
            return Move.STILL
        order = self.byteorder
        if order is None or self.are_random:
            return Move.ON
        was, now = _number(before, order), _number(after, order)
        if now > was:
            return Move.ON
        return Move.WRAP if (now - was) & 0xFFFF_FFFF <= _WRAP_MAX else Move.BACK


def _number(nonce: bytes, order: str) -> int:
    return int.from_bytes(nonce, "little" if order == "little" else "big")
