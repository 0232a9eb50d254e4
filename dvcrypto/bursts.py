"""A sealed burst: packets one behind the other in one buffer."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

from dvcrypto._buffers import numbers


class Burst(Sequence[memoryview]):
    """Sealed packets, contiguous in one buffer. Each item is a view into it, made when it is asked for."""

    __slots__ = ("_ends", "_offsets", "_sealed")

    def __init__(self, sealed: bytes | memoryview, ends: bytes) -> None:
        """``ends`` tells where each packet ends in the buffer, as C's size_t."""
        self._sealed = sealed
        self._ends = ends
        self._offsets: tuple[int, ...] | None = None

    @property
    def buffer(self) -> memoryview:
        """All packets, one behind the other."""
        return memoryview(self._sealed)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each packet starts in ``buffer``, and where the last one ends: one more than there are packets."""
        if self._offsets is None:
            self._offsets = (0, *numbers(self._ends))
        return self._offsets

    def tolist(self) -> list[bytes]:
        """A copy of every packet."""
        return [bytes(packet) for packet in self]

    def __len__(self) -> int:
        """How many packets."""
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> memoryview: ...
    @overload
    def __getitem__(self, index: slice) -> list[memoryview]: ...
    def __getitem__(self, index: int | slice) -> memoryview | list[memoryview]:
        """A packet, or a list of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        offsets = self.offsets
        return self.buffer[offsets[number] : offsets[number + 1]]

    def __iter__(self) -> Iterator[memoryview]:
        """The packets in order."""
        offsets = self.offsets
        buffer = self.buffer
        return (buffer[start:end] for start, end in pairwise(offsets))

    def __repr__(self) -> str:
        """How many packets and bytes."""
        return f"<dvcrypto.Burst of {len(self)} packets, {self.buffer.nbytes} bytes>"
