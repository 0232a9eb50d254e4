"""``Aead``, a stand-in for ``nacl.secret.Aead`` of PyNaCl 1.5 and 1.6.

**With it the caller is responsible for never using a nonce twice under a key.** It is for code that seals by itself
and stays as it is; ``dvcrypto.Sealer`` and ``dvcrypto.Opener`` are the way for new code.

Where PyNaCl is installed, ``exceptions``, ``RawEncoder`` and ``EncryptedMessage`` are PyNaCl's, else look-alikes.
"""

import os
import sys
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from dvcrypto._library import lib
from dvcrypto._tracebacks import keyless
from dvcrypto.dropin import _raw

if TYPE_CHECKING:
    from dvcrypto.dropin import _nacl as exceptions
    from dvcrypto.dropin._nacl import Encoder, EncryptedMessage, RawEncoder
else:
    try:
        from nacl import exceptions
        from nacl.encoding import RawEncoder
        from nacl.utils import EncryptedMessage
    except ImportError:
        from dvcrypto.dropin import _nacl as exceptions
        from dvcrypto.dropin._nacl import EncryptedMessage, RawEncoder

__all__ = ["Aead", "EncryptedMessage", "RawEncoder", "exceptions"]

_TAG_LEN: Final = 16


class Aead(_raw.RawKey):
    """Seals and opens messages with XChaCha20-Poly1305, byte for byte and error for error as ``nacl.secret.Aead`` does.

    **The caller is responsible for never using a nonce twice** under a key, where it gives the nonces; one that is
    left out is random. ``Sealer`` and ``Opener`` are the way for new code.

    ``key`` is 32 bytes, once ``encoder`` has decoded them. Threads may share an ``Aead``, which serves one at a time.
    It differs from PyNaCl's in two things, both for the key's sake: it cannot be copied or pickled, and ``str()`` of
    it does not tell the key; ``bytes()`` does.

    Raises TypeError or ValueError, of PyNaCl's ``exceptions``, for a key that is not 32 bytes.

    >>> box = Aead(bytes(32))
    >>> sealed = box.encrypt(b"payload", aad=b"header")
    >>> len(sealed.nonce), len(sealed.ciphertext), box.decrypt(sealed, aad=b"header")
    (24, 23, b'payload')
    """

    __slots__ = ("_key",)

    KEY_SIZE: ClassVar[int] = 32
    """Bytes of a key."""
    NONCE_SIZE: ClassVar[int] = 24
    """Bytes of a nonce."""
    MACBYTES: ClassVar[int] = _TAG_LEN
    """Bytes of the tag."""
    MESSAGEBYTES_MAX: ClassVar[int] = 2 * sys.maxsize + 1 - _TAG_LEN
    """Bytes of a plaintext, as PyNaCl has it; this class stops at RFC 8439's 2**38 - 64."""

    @keyless
    def __init__(self, key: bytes, encoder: "Encoder" = RawEncoder) -> None:
        """See the class."""
        key = encoder.decode(key)
        if not isinstance(key, bytes):
            message = "AEAD must be created from 32 bytes"
            raise exceptions.TypeError(message)
        if len(key) != self.KEY_SIZE:
            message = f"The key must be exactly {self.KEY_SIZE} bytes long"
            raise exceptions.ValueError(message)
        self._key = key
        self._take(lib.DV_MODE_XCHACHA20_POLY1305, key)

    def __bytes__(self) -> bytes:
        """The key."""
        return self._key

    def encode(self, encoder: "Encoder" = RawEncoder) -> bytes:
        """The key, encoded."""
        return encoder.encode(self._key)

    def encrypt(
        self,
        plaintext: bytes,
        aad: bytes | None = b"",
        nonce: bytes | None = None,
        encoder: "Encoder" = RawEncoder,
    ) -> EncryptedMessage:
        """Seal one message, under a random nonce where none is given.

        **A nonce that is given must never have been used under this key before**: that is the caller's to see to.

        All are ``bytes``, and the nonce 24 of them. The result is nonce, ciphertext and tag, encoded. Raises TypeError
        or ValueError, of PyNaCl's ``exceptions``, for another type or length.
        """
        if nonce is None:
            nonce = os.urandom(self.NONCE_SIZE)
        self._check("Input message type must be bytes", plaintext, aad, nonce)
        sealed: list[bytes] = []
        result = _raw.seal(self._native, id(nonce), id(plaintext), id(aad), 0, id(sealed))
        if result:
            _raise(result, "Encryption failed.")
        ciphertext = sealed[0]
        return EncryptedMessage._from_parts(
            encoder.encode(nonce), encoder.encode(ciphertext), encoder.encode(nonce + ciphertext)
        )

    def decrypt(
        self,
        ciphertext: bytes,
        aad: bytes | None = b"",
        nonce: bytes | None = None,
        encoder: "Encoder" = RawEncoder,
    ) -> bytes:
        """Open one message, which starts with its nonce where none is given.

        Raises CryptoError for a wrong tag; TypeError or ValueError, of PyNaCl's ``exceptions``, for another type or
        length of an argument; the built-in ValueError, as PyNaCl does, for a ciphertext that is shorter than a tag.
        """
        ciphertext = encoder.decode(ciphertext)
        if nonce is None:
            nonce = ciphertext[: self.NONCE_SIZE]
            ciphertext = ciphertext[self.NONCE_SIZE :]
        self._check("Input ciphertext type must be bytes", ciphertext, aad, nonce)
        if len(ciphertext) < _TAG_LEN:
            message = "negative array length"
            raise ValueError(message)
        opened: list[bytes] = []
        result = _raw.open_(self._native, id(nonce), id(ciphertext), id(aad), 0, id(opened))
        if result:
            _raise(result, "Decryption failed.")
        return opened[0]

    def _check(self, refusal: str, text: object, aad: object, nonce: bytes) -> None:
        """Raise for the first fault, in PyNaCl's order."""
        if len(nonce) != self.NONCE_SIZE:
            message = f"The nonce must be exactly {self.NONCE_SIZE} bytes long"
            raise exceptions.ValueError(message)
        if not isinstance(text, bytes):
            raise exceptions.TypeError(refusal)
        if aad is not None and not isinstance(aad, bytes):
            message = "Additional data must be bytes or None"
            raise exceptions.TypeError(message)
        if not isinstance(nonce, bytes):
            message = f"Nonce must be a {self.NONCE_SIZE} bytes long bytes sequence"
            raise exceptions.TypeError(message)


def _raise(result: int, failed: str) -> NoReturn:
    if result == lib.DV_ERROR_MEMORY:
        raise MemoryError
    raise exceptions.CryptoError(failed)
