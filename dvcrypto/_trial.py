"""Single messages under one key, in any cipher that a packet may have been sealed with: for diagnosis alone."""

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dvcrypto import _buffers as buffers
from dvcrypto._library import ffi, lib, owned
from dvcrypto._tracebacks import keyless
from dvcrypto.modes import Mode

if TYPE_CHECKING:
    from typing_extensions import Buffer

_TAG_LEN: Final = 16


class Cipher(enum.Enum):
    """Two of the modes, and two that are none."""

    AES256_GCM = enum.auto()
    XCHACHA20_POLY1305 = enum.auto()
    CHACHA20_POLY1305 = enum.auto()
    """Of RFC 8439, with a nonce of 12 bytes."""
    XSALSA20_POLY1305 = enum.auto()
    """NaCl's secretbox: the tag comes first, and there is no associated data."""


class Trial:
    """Holds a key, in C, until it is collected."""

    @keyless
    def __init__(self, key: "Buffer | Sequence[int]") -> None:
        """The key is as Sealer's."""
        self._key = buffers.new_key()
        ffi.memmove(self._key, buffers.key_pointer(key), buffers.KEY_LEN)
        self._owners: list[object] = []
        self._aeads: dict[Cipher, Any] = {}
        held = ffi.buffer(self._key)
        for mode in Mode:
            if lib.dv_python_aead(mode.native, id(held), id(self._owners)) != lib.DV_DONE:
                raise MemoryError
            self._aeads[Cipher[mode.name]] = owned("dv_aead", self._owners[-1])

    def opens(self, cipher: Cipher, nonce: bytes, aad: bytes, sealed: bytes) -> bool:
        """Whether a message opens. Nothing of it gets out."""
        if len(sealed) < _TAG_LEN:
            return False
        if cipher in self._aeads:
            opened: list[bytes] = []
            result = lib.dv_python_aead_open(self._aeads[cipher], id(nonce), id(sealed), id(aad), 0, id(opened))
            if result not in (lib.DV_DONE, lib.DV_ERROR_TAG):
                raise MemoryError
            return bool(result == lib.DV_DONE)
        out = ffi.new("uint8_t[]", len(sealed))
        if cipher is Cipher.CHACHA20_POLY1305:
            return bool(lib.dv_legacy_open_chacha20poly1305(self._key, nonce, aad, len(aad), sealed, len(sealed), out))
        return bool(lib.dv_legacy_open_xsalsa20poly1305(self._key, nonce, sealed, len(sealed), out))

    def keystream(self, cipher: Cipher, nonce: bytes, length: int) -> bytes:
        """The first bytes that a mode's cipher adds to the text."""
        text, aad, sealed = bytes(length), b"", list[bytes]()
        if lib.dv_python_aead_seal(self._aeads[cipher], id(nonce), id(text), id(aad), 0, id(sealed)):
            raise MemoryError
        return sealed[0][:length]
