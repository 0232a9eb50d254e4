"""``AESGCM``, a stand-in for that of ``cryptography.hazmat.primitives.ciphers.aead``, release 50.

**With it the caller is responsible for never using a nonce twice under a key.** It is for code that seals by itself
and stays as it is; ``dvcrypto.Sealer`` and ``dvcrypto.Opener`` are the way for new code.

Where ``cryptography`` is installed, ``InvalidTag`` is its own, else a look-alike.
"""

import operator
import os
from typing import TYPE_CHECKING, Final, NoReturn

from dvcrypto._library import lib
from dvcrypto._tracebacks import keyless
from dvcrypto.dropin import _raw
from dvcrypto.errors import SealError

if TYPE_CHECKING:
    from typing_extensions import Buffer

try:
    from cryptography.exceptions import InvalidTag
except ImportError:

    class InvalidTag(Exception):  # type: ignore[no-redef]
        """The tag is wrong, or there is none."""


__all__ = ["AESGCM", "InvalidTag"]

_TAG_LEN: Final = 16
_MAX_LEN: Final = 2**31 - 1
_NONCE_LENS: Final = range(8, 129)
_FORMATS: Final = ("B", "c", "@B", "@c")
"""Of unsigned bytes, as cryptography knows them; those of ctypes' arrays, <B and <c, it does not."""


class AESGCM(_raw.RawKey):
    """Seals and opens messages with AES-GCM, byte for byte and error for error as ``cryptography``'s ``AESGCM`` does.

    **The caller is responsible for never using a nonce twice** under a key. ``Sealer`` and ``Opener`` are the way for
    new code.

    ``key`` is 16, 24 or 32 bytes; with 32, and nonces of 12, the fastest engine serves, else OpenSSL. Threads may
    share an ``AESGCM``, which serves one at a time. It cannot be copied or pickled.

    Raises ValueError for a key of another length. Here and in all methods what is not bytes-like raises TypeError, and
    what is not contiguous BufferError.

    >>> aead = AESGCM(AESGCM.generate_key(256))
    >>> sealed = aead.encrypt(bytes(12), b"payload", b"header")
    >>> len(sealed), aead.decrypt(bytes(12), sealed, b"header")
    (23, b'payload')
    """

    __slots__ = ()

    @keyless
    def __init__(self, key: "Buffer") -> None:
        """See the class."""
        if not self._take(lib.DV_MODE_AES256_GCM, key):
            _view(key)
            message = "AESGCM key must be 128, 192, or 256 bits."
            raise ValueError(message)

    @staticmethod
    def generate_key(bit_length: int) -> bytes:
        """A random key of 128, 192 or 256 bits. Raises ValueError for another length."""
        bits = operator.index(bit_length)
        bits.to_bytes(8, "big")  # raises OverflowError, as cryptography does
        if bits not in (128, 192, 256):
            message = "bit_length must be 128, 192, or 256"
            raise ValueError(message)
        return os.urandom(bits // 8)

    def encrypt(self, nonce: "Buffer", data: "Buffer", associated_data: "Buffer | None") -> bytes:
        """Seal one message: ciphertext, then 16 bytes of tag.

        **The nonce must never have been used under this key before**: that is the caller's to see to.

        Raises ValueError for a nonce that has not 8 to 128 bytes, OverflowError for more than 2**31 - 1 bytes.
        """
        sealed: list[bytes] = []
        result = _raw.seal(self._native, id(nonce), id(data), id(associated_data), 0, id(sealed))
        if result:
            _refuse_plain(result, nonce, data, associated_data)
        return sealed[0]

    def decrypt(self, nonce: "Buffer", data: "Buffer", associated_data: "Buffer | None") -> bytes:
        """Open one message: ciphertext, then 16 bytes of tag.

        Raises InvalidTag for a wrong tag or none; ValueError and OverflowError as ``encrypt``.
        """
        opened: list[bytes] = []
        result = _raw.open_(self._native, id(nonce), id(data), id(associated_data), 0, id(opened))
        if result:
            _refuse_sealed(result, nonce, data, associated_data)
        return opened[0]

    def encrypt_into(self, nonce: "Buffer", data: "Buffer", associated_data: "Buffer | None", buf: "Buffer") -> int:
        """Seal as ``encrypt`` does, into a writable buffer of 16 bytes more than ``data``; returns its length.

        Any argument may lie in ``buf``: what is not ``bytes`` is copied first. Raises ValueError for a buffer of
        another length.
        """
        result = _raw.seal(self._native, id(nonce), id(data), id(associated_data), id(buf), 0)
        if result:
            _refuse_plain(result, nonce, data, associated_data, buf)
        return memoryview(buf).nbytes

    def decrypt_into(self, nonce: "Buffer", data: "Buffer", associated_data: "Buffer | None", buf: "Buffer") -> int:
        """Open as ``decrypt`` does, into a writable buffer of 16 bytes less than ``data``; returns its length.

        After a wrong tag the buffer is zero, where ``cryptography`` leaves the plaintext in it. Arguments may lie in
        ``buf`` as in ``encrypt_into``.
        """
        result = _raw.open_(self._native, id(nonce), id(data), id(associated_data), id(buf), 0)
        if result:
            _refuse_sealed(result, nonce, data, associated_data, buf)
        return memoryview(buf).nbytes


def _refuse_plain(
    result: int, nonce: "Buffer", data: "Buffer", associated_data: "Buffer | None", *target: "Buffer"
) -> NoReturn:
    """Raise what cryptography does, which looks at the arguments in this order."""
    nonce_len, data_len, aad_len = _lens(nonce, data, associated_data)
    target_lens = tuple(map(_writable_len, target))
    _check_len(data_len)
    _check_nonce(nonce_len)
    _check_target(target_lens, data_len + _TAG_LEN)
    _check_len(aad_len)
    _raise(result)


def _refuse_sealed(
    result: int, nonce: "Buffer", data: "Buffer", associated_data: "Buffer | None", *target: "Buffer"
) -> NoReturn:
    """The same for what is to be opened, where cryptography has another order."""
    if result == lib.DV_ERROR_TAG:
        raise InvalidTag
    nonce_len, data_len, aad_len = _lens(nonce, data, associated_data)
    target_lens = tuple(map(_writable_len, target))
    _check_nonce(nonce_len)
    if data_len < _TAG_LEN:
        raise InvalidTag
    _check_target(target_lens, data_len - _TAG_LEN)
    _check_len(max(data_len - _TAG_LEN, aad_len))
    _raise(result)


def _lens(nonce: "Buffer", data: "Buffer", associated_data: "Buffer | None") -> tuple[int, int, int]:
    return _view(nonce).nbytes, _view(data).nbytes, 0 if associated_data is None else _view(associated_data).nbytes


def _view(value: "Buffer") -> memoryview:
    """A view of a contiguous buffer of unsigned bytes."""
    try:
        viewed = memoryview(value)
    except TypeError:
        hint = "\nDid you mean to pass a bytestring instead?" if isinstance(value, str) else ""
        raise TypeError(_not_a_buffer(value) + hint) from None
    if viewed.format not in _FORMATS:
        raise TypeError(_not_a_buffer(value))
    if not viewed.c_contiguous:
        message = "Buffer is not contiguous."
        raise BufferError(message)
    return viewed


def _not_a_buffer(value: object) -> str:
    return f'Cannot convert "{type(value)}" instance to a buffer.'


def _writable_len(value: "Buffer") -> int:
    viewed = _view(value)
    if viewed.readonly:
        message = "Buffer is not writable."
        raise TypeError(message)
    return viewed.nbytes


def _check_len(length: int) -> None:
    if length > _MAX_LEN:
        message = "Data or associated data too long. Max 2**31 - 1 bytes"
        raise OverflowError(message)


def _check_nonce(nonce_len: int) -> None:
    if nonce_len not in _NONCE_LENS:
        message = "Nonce must be between 8 and 128 bytes"
        raise ValueError(message)


def _check_target(target_lens: tuple[int, ...], needed: int) -> None:
    if any(target_len != needed for target_len in target_lens):
        message = f"buffer must be {needed} bytes"
        raise ValueError(message)


def _raise(result: int) -> NoReturn:
    if result == lib.DV_ERROR_ARGUMENT:
        message = "a buffer was there, and then could not be taken"
        raise BufferError(message)
    if result == lib.DV_ERROR_ENGINE:
        message = "the linked library failed; the output was wiped"
        raise SealError(message)
    raise MemoryError
