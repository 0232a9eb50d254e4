"""Look-alikes of PyNaCl's exceptions, encoder and result, for where it is not installed."""

import builtins
from typing import Protocol, Self


class CryptoError(Exception):
    """The base of all the others, and what a wrong tag raises."""


class TypeError(builtins.TypeError, CryptoError):  # noqa: A001 - PyNaCl's name
    """An argument of the wrong type."""


class ValueError(builtins.ValueError, CryptoError):  # noqa: A001
    """An argument of the wrong length."""


class Encoder(Protocol):
    """What ``encoder`` may be: ``nacl.encoding``'s classes, or any object with these two functions."""

    @staticmethod
    def encode(data: bytes) -> bytes:
        """Encode raw bytes."""

    @staticmethod
    def decode(data: bytes) -> bytes:
        """Decode to raw bytes."""


class RawEncoder:
    """Leaves bytes as they are."""

    @staticmethod
    def encode(data: bytes) -> bytes:
        """The same."""
        return data

    @staticmethod
    def decode(data: bytes) -> bytes:
        """The same."""
        return data


class EncryptedMessage(bytes):
    """Nonce, ciphertext and tag, encoded; ``nonce`` and ``ciphertext`` are its parts, encoded each by itself."""

    _nonce: bytes
    _ciphertext: bytes

    @classmethod
    def _from_parts(cls, nonce: bytes, ciphertext: bytes, combined: bytes) -> Self:
        made = cls(combined)
        made._nonce = nonce
        made._ciphertext = ciphertext
        return made

    @property
    def nonce(self) -> bytes:
        """The nonce."""
        return self._nonce

    @property
    def ciphertext(self) -> bytes:
        """The ciphertext, with its tag."""
        return self._ciphertext
