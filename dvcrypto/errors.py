"""The exceptions. Faults of arguments are ``ValueError``, ``TypeError`` and ``BufferError`` instead."""


class DvcryptoError(Exception):
    """The base of all errors of this package."""


class NoCommonMode(DvcryptoError):
    """The server offers no mode that this package speaks.

    ``offered`` and ``supported`` are tuples of mode names.
    """

    def __init__(self, offered: tuple[str, ...], supported: tuple[str, ...]) -> None:
        """Both lists stand in the message."""
        self.offered = offered
        self.supported = supported
        super().__init__(f"no common mode: offered are {list(offered)}; supported are {list(map(str, supported))}")

    def __reduce__(self) -> tuple[type["NoCommonMode"], tuple[tuple[str, ...], tuple[str, ...]]]:
        """Both lists again, not the message, so that the error survives pickling."""
        return (type(self), (self.offered, self.supported))


class EngineUnavailable(DvcryptoError):
    """``DVCRYPTO_ENGINE`` names an engine that does not exist or cannot run on this machine."""


class SealError(DvcryptoError):
    """A packet could not be sealed. Nothing of it got out, and its nonce is not used again."""


class NonceExhausted(SealError):
    """The sealer's 32-bit counter is at its end, for ever. Reconnect for a new key, and make a new sealer with it."""


class SealerClosed(SealError):
    """The sealer was closed, and its key wiped."""


class SealerForked(SealError):
    """The sealer was made before a fork, in the parent: here it would use the same nonces again."""


class OpenError(DvcryptoError):
    """A packet could not be opened. Nothing of it got out."""


class Truncated(OpenError):
    """The packet is shorter than its header calls for."""


class Malformed(OpenError):
    """The packet is no RTP or RTCP, or its header contradicts its length."""


class AuthenticationFailed(OpenError):
    """The tag is wrong: another key or mode, or a packet that was changed."""


class Replayed(OpenError):
    """The packet was opened before, or is older than the replay window."""
