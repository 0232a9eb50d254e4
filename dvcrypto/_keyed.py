"""What Sealer and Opener share: a mode, the engines that serve it, and the end of a key."""

from typing import Any, Self

from dvcrypto._library import ffi, lib
from dvcrypto.modes import Mode


class Keyed:
    """Holds a key in C until it is closed or collected."""

    __slots__ = ("__weakref__", "_engine", "_mode", "_native", "_owner")

    _engine: str
    _mode: Mode
    _native: Any
    _owner: Any

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


def owner(kind: str) -> Any:
    """Where C puts a new ``dv_sealer``, ``dv_opener`` or ``dv_aead``, which is freed with it, and its key wiped.

    It is there before the key is: whatever is raised from then on, a MemoryError or KeyboardInterrupt say, nothing with
    a key in it is left behind.
    """
    return ffi.gc(ffi.new(f"{kind} **"), getattr(lib, f"dv_python_free_{kind[3:]}"))
