"""What Sealer and Opener share: a mode, the engines that serve it, and the end of a key."""

from typing import Any, Self

from dvcrypto.modes import Mode


class Keyed:
    """Holds a key in C until it is closed or collected."""

    __slots__ = ("__weakref__", "_engine", "_mode", "_native", "_owner")

    _engine: str
    _mode: Mode
    _native: Any
    _owner: object

    @property
    def mode(self) -> Mode:
        """The transport mode."""
        return self._mode

    @property
    def engine(self) -> str:
        """The engine that works, or the engines with the lengths of plaintext that each serves."""
        return self._engine

    def close(self) -> None:
        """Wipe the key. Closing again does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """The object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
