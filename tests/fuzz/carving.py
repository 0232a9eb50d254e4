"""Reading a fuzzer's input from its front, and writing one: the numbers are those of fuzz.h."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Input:
    """Behind the end there are zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, size: int = 1) -> int:
        return int.from_bytes(self.take(size), "big")

    def length(self) -> int:
        number = self.number()
        return number if number < 0xFF else self.number(2) + 64

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        self._at += len(taken)
        return taken + bytes(size - len(taken))

    def choose(self, choices: Sequence[T]) -> T:
        return choices[self.number() % len(choices)]


def length(size: int) -> bytes:
    return bytes([size]) if size < 0xFF else b"\xff" + (size - 64).to_bytes(2, "big")


def counted(data: bytes) -> bytes:
    return length(len(data)) + data
