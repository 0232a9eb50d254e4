"""What the backends for senders share: which mode a connection takes, and what each client seals with."""

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from dvcrypto.errors import NoCommonMode, NonceExhausted
from dvcrypto.modes import Mode, choose_mode
from dvcrypto.sealing import Sealer

if TYPE_CHECKING:
    from typing_extensions import Buffer

MODES: tuple[str, ...] = tuple(mode.value for mode in Mode)
XCHACHA20: str = Mode.XCHACHA20_POLY1305.value

_preferred: Mode | None = None


def prefer(mode: Mode | None) -> None:
    """The mode that all connections take where it is offered; None leaves it to ``choose_mode``."""
    global _preferred
    _preferred = mode


def choose(offered: Iterable[str], supported: Iterable[str] = MODES) -> str:
    """The mode of a connection, among those that the server offers and the client supports."""
    names, ours = tuple(offered), tuple(mode for mode in supported if mode in MODES)
    common = [mode for mode in names if mode in ours]
    if not common:
        raise NoCommonMode(names, ours)
    return choose_mode(common, prefer=_preferred).value


def fingerprint(key: Any) -> bytes:
    """What tells a key from another one, without being it."""
    copy = bytearray(key)
    try:
        return hashlib.sha256(copy).digest()
    finally:
        copy[:] = bytes(len(copy))


def run_in(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, object]) -> None:
    """Have another thread's loop run it. Raises RuntimeError where the loop is closed."""
    try:
        asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()  # else Python warns that nobody has awaited it
        raise


class ClientSealer:
    """Seals for one client, under every key that its server gives it.

    The client keeps it to its end, even when the backend is uninstalled meanwhile: another counter under the same key
    would use nonces again. For the same reason every key has one sealer, which goes on when the key comes back.
    """

    def __init__(self, *, used: int, ended: Callable[[], object]) -> None:
        """``used`` is how many packets the library has sealed itself, from 0 upwards and with big-endian nonces.

        ``ended`` is called when a counter is at its end.
        """
        # Where the library has begun, its order and count go on; else ours are those of the official client.
        self._start: dict[str, Any] = {"first_nonce": used, "byteorder": "big"} if used else {}
        self._ended = ended
        self._sealers: dict[tuple[str, bytes], Sealer] = {}
        self._lock = threading.Lock()
        self._current: tuple[str | None, object, Sealer | None] = (None, None, None)

    def seal(self, mode: str, key: Any, header: "Buffer", payload: "Buffer") -> bytes:
        """Seal a packet. The key is looked at only when it is another object than for the packet before."""
        current_mode, current_key, sealer = self._current
        if sealer is None or key is not current_key or mode != current_mode:
            sealer = self._sealer(mode, key)
        try:
            return sealer.seal(header, payload)
        except NonceExhausted:
            with contextlib.suppress(RuntimeError):  # of a loop that is closed, and the connection with it
                self._ended()
            raise

    def _sealer(self, mode: str, key: Any) -> Sealer:
        known_by = (mode, fingerprint(key))
        with self._lock:
            if known_by not in self._sealers:
                self._sealers[known_by] = Sealer(mode, key, **self._start)
            sealer = self._sealers[known_by]
            self._current = (mode, key, sealer)
        return sealer
