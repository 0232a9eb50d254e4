"""What the stand-ins for whole AEADs share: a key in C, with which the caller chooses every nonce."""

from typing import TYPE_CHECKING, Any, Final, NoReturn

from dvcrypto._library import lib, owned

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Looked up once, as each may be called for every message.
make: Final = lib.dv_python_aead
seal: Final = lib.dv_python_aead_seal
open_: Final = lib.dv_python_aead_open


class RawKey:
    """Holds a key in C until it is collected, which wipes it there."""

    __slots__ = ("__weakref__", "_native", "_owner")

    _native: Any
    _owner: object

    def _take(self, mode: int, key: "Buffer") -> bool:
        """Copy the key. False where it is no buffer, or has a length that the mode has not."""
        made: list[object] = []
        result = make(mode, id(key), id(made))
        if result == lib.DV_ERROR_MEMORY:
            raise MemoryError
        if result != lib.DV_DONE:
            return False
        self._owner = made[0]
        self._native = owned("dv_aead", self._owner)
        return True

    def __reduce_ex__(self, _: object) -> NoReturn:
        """Refuse: the key stays where it is."""
        message = f"cannot pickle {type(self).__name__!r} object"
        raise TypeError(message)
