"""What a backend says of the library it serves."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dvcrypto.dropin._replacing import Replacement


class Library(NamedTuple):
    """A library, and what is replaced in it."""

    name: str
    """As it is called on PyPI."""
    module: str
    """Once this module is imported, all that is replaced is there."""
    title: str | None
    """``__title__`` of its package, which tells apart those that share a package's name; None where it has none."""
    tested: tuple[str, ...]
    """Versions."""
    replacements: Callable[[], Sequence[Replacement]]

    @property
    def package(self) -> str:
        """The top package."""
        return self.module.partition(".")[0]
