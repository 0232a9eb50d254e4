"""Sealed packets to a UDP socket: what bursts and streams share."""

import contextlib
import errno
import functools
import os
import weakref
from _socket import AF_INET, AF_INET6, SOCK_DGRAM
from _socket import socket as native_socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dvcrypto import _buffers as buffers
from dvcrypto._arrivals import ADDRESS, Address
from dvcrypto._library import ffi, lib

if TYPE_CHECKING:
    import socket

METHOD_VARIABLE: Final = "DVCRYPTO_WIRE"
METHODS: Final[dict[str, int]] = {"loop": lib.DV_WIRE_LOOP, "mmsg": lib.DV_WIRE_MMSG, "gso": lib.DV_WIRE_GSO}
RATE_MIN: Final = 8
RATE_MAX: Final = 2**53

_NS: Final = 1_000_000_000
_FOR_EVER: Final = -1
_NOT_IN_FULL: Final = -1
_NO_BURST: Final = -2
_INTERNET: Final = (AF_INET, AF_INET6)
_UDP: Final = (0, 17)  # IPPROTO_UDP
_send: Final = lib.dv_python_send

# As ints, without the enumerations that socket.socket makes of them for every look.
_type: Final = native_socket.type.__get__
_family: Final = native_socket.family.__get__


def _start() -> int:
    best = int(lib.dv_wire_best())
    name = os.environ.get(METHOD_VARIABLE, "")
    if not name:
        return best
    if name not in METHODS:
        message = f"{METHOD_VARIABLE} is {name!r}; it must be {', '.join(METHODS)}"
        raise ValueError(message)
    if METHODS[name] > best:
        here = ", ".join(known for known, method in METHODS.items() if method <= best)
        message = f"{METHOD_VARIABLE} is {name!r}; this system has {here}"
        raise ValueError(message)
    return int(METHODS[name])


best_method: int = _start()

# Sockets whose kernel or device refused a faster method, and the one that is left.
_slower: "weakref.WeakKeyDictionary[socket.socket, int]" = weakref.WeakKeyDictionary()


def method_of(sock: "socket.socket") -> int:
    """The method by which this socket's packets leave."""
    if family(sock) not in _INTERNET or sock.proto not in _UDP:
        return min(
            int(lib.DV_WIRE_MMSG), best_method
        )  # other sockets ignore how a parcel is to be cut, and send it uncut
    try:
        return min(_slower.get(sock, best_method), best_method) if _slower else best_method
    except TypeError:  # nothing is remembered for it
        return best_method


def remember(sock: "socket.socket", method: int) -> None:
    """What kernel or device has left of a socket's methods."""
    if method < method_of(sock):
        with contextlib.suppress(TypeError):  # a wrapper that has no weak references, as asyncio's TransportSocket
            _slower[sock] = method


def check(sock: "socket.socket") -> None:
    """Raise TypeError or ValueError for what is no UDP socket."""
    try:
        kind = _type(sock)
    except TypeError:
        kind = getattr(sock, "type", None)  # a wrapper around a socket
    if kind != SOCK_DGRAM:
        message = f"sock is {sock!r}; it must be a UDP socket"
        raise TypeError(message) if kind is None else ValueError(message)


def descriptor(sock: "socket.socket") -> int:
    """The number of an open UDP socket."""
    check(sock)
    number = sock.fileno()
    if number < 0:
        raise OSError(errno.EBADF, "the socket is closed")
    return number


def family(sock: "socket.socket") -> int:
    """AF_INET or AF_INET6."""
    try:
        return int(_family(sock))
    except TypeError:
        return int(sock.family)


def nanoseconds(timeout: float | None) -> int:
    """Seconds that a socket or a caller waits at most, as C has them."""
    if timeout is None:
        return _FOR_EVER
    if not isinstance(timeout, (int, float)):
        message = f"timeout must be a number, not {type(timeout).__name__}"
        raise TypeError(message)
    if not timeout >= 0:  # nor is a NaN
        message = f"timeout is {timeout}; it must be at least 0"
        raise ValueError(message)
    return int(min(timeout * _NS, 2**62))


def native_address(sock: "socket.socket", address: Address | None) -> bytes | None:
    """A ``dv_address``; None for none."""
    if address is None:
        return None
    try:
        named: bool = "%" in address[0]  # an interface, which may get another number
        resolve: Callable[..., bytes] = _resolve if named else _resolved
        return resolve(family(sock), tuple(address))
    except (TypeError, LookupError) as error:
        message = f"address is {address!r}; it must be (host, port), or with IPv6 (host, port, flow info, scope)"
        raise TypeError(message) from error


def _resolve(of_family: int, address: Address) -> bytes:
    import socket

    if of_family not in _INTERNET:
        message = f"sock has address family {of_family}; it must be IPv4 or IPv6"
        raise ValueError(message)
    if len(address) not in ((2,) if of_family == AF_INET else (2, 3, 4)) or not isinstance(address[0], str):
        raise TypeError
    host, port, flow_info, scope_id = (*address, 0, 0)[:4]
    buffers.integer("address port", port, 0, 0xFFFF)
    flags = socket.AI_NUMERICHOST | (getattr(socket, "AI_V4MAPPED", 0) if of_family == AF_INET6 else 0)
    try:
        found: Any = socket.getaddrinfo(host or "-", port, of_family, SOCK_DGRAM, flags=flags)[0][4]
    except (OSError, UnicodeError) as error:
        version = 6 if of_family == AF_INET6 else 4
        message = f"address host is {host!r}; it must be a numeric IPv{version} address"
        raise ValueError(message) from error
    if of_family == AF_INET:
        return ADDRESS.pack(socket.inet_pton(AF_INET, found[0]), 0, 0, port, 4, 0)
    number = socket.inet_pton(AF_INET6, found[0].partition("%")[0])
    buffers.integer("address flow info", flow_info, 0, 0xFFFFF)
    buffers.integer("address scope", scope_id, 0, 0xFFFF_FFFF)
    return ADDRESS.pack(number, flow_info, scope_id or found[3], port, 6, 0)


_resolved: Final = functools.lru_cache(maxsize=1024)(_resolve)


def native_rate(rate: float | None) -> float:
    """Bits a second; 0 for none."""
    if rate is None:
        return 0.0
    if not isinstance(rate, (int, float)):
        message = f"rate must be a number, not {type(rate).__name__}"
        raise TypeError(message)
    if not RATE_MIN <= rate <= RATE_MAX:
        message = f"rate is {rate}; it must be from {RATE_MIN} to {RATE_MAX} bits a second"
        raise ValueError(message)
    return float(rate)


class Progress(NamedTuple):
    """How far a sending came."""

    sent: int
    """Packets that left."""
    stop: int
    """A ``dv_stop``."""
    error: int
    """The system's, behind ``DV_STOP_ERROR``."""
    due_ns: int
    """When the next packet of a paced sending is due."""
    wait_ns: int
    """How long that is from now."""
    timeout_ns: int
    """What is left of the socket's timeout."""


class Sending:
    """A burst on its way through one socket."""

    __slots__ = ("_address", "_ends", "_rate", "_sealed", "_sock")

    def __init__(
        self,
        sealed: bytes | memoryview,
        ends: bytes,
        sock: "socket.socket",
        address: Address | None,
        rate: float | None,
    ) -> None:
        self._sealed = sealed
        self._ends = ends
        self._sock = sock
        check(sock)
        self._address = native_address(sock, address)
        self._rate = native_rate(rate)

    @property
    def number(self) -> int:
        """The socket's number."""
        return descriptor(self._sock)

    def step(self, start: int, timeout_ns: int, due_ns: int = 0, *, sleeps: bool = True) -> Progress:
        """One native call. Raises nothing that the wire has caused, nor for a socket that was closed meanwhile."""
        number = self._sock.fileno()
        if number < 0:
            return Progress(0, lib.DV_STOP_ERROR, errno.EBADF, 0, 0, 0)
        method = method_of(self._sock)
        address_id = 0 if self._address is None else id(self._address)
        told: list[bytes] = []
        result = _send(
            number,
            address_id,
            id(self._sealed),
            id(self._ends),
            start,
            timeout_ns,
            method,
            self._rate,
            due_ns,
            sleeps,
            id(told),
        )
        return read_progress(self._sock, result, told)

    def run(self, start: int, first: Progress | None = None) -> int:
        """Until all packets left or something stopped them: how many did.

        Raises OSError where not one did, unless it is only that a non-blocking socket has no room.
        """
        timeout_ns = nanoseconds(self._sock.gettimeout())
        sent, due_ns, progress = 0, 0, first
        while True:
            progress = progress or self.step(start + sent, timeout_ns, due_ns)
            sent += progress.sent
            if progress.stop != lib.DV_STOP_INTERRUPTED:
                break
            # Signal handlers have run by now, between two calls.
            timeout_ns, due_ns, progress = progress.timeout_ns, progress.due_ns, None
        if not sent:
            raise_for(progress)
        return sent


def read_progress(sock: "socket.socket", result: int, told: list[bytes]) -> Progress:
    """Read what became of a native call: its result and, where that is not all, what it told last.

    Raises ValueError where the burst was none, and MemoryError.
    """
    if result >= 0:
        return Progress(result, lib.DV_STOP_DONE, 0, 0, 0, 0)
    if result == _NO_BURST:
        message = "the burst has no packets in its buffer, or its buffer is gone"
        raise ValueError(message)
    if result < _NO_BURST:
        raise MemoryError
    done = ffi.from_buffer("dv_sending *", told[-1])
    remember(sock, done.method)
    return Progress(done.sent, done.stop, done.error, done.due_ns, done.wait_ns, done.timeout_ns)


def raise_for(progress: Progress) -> None:
    """The error that stopped a sending, if one did."""
    if progress.stop == lib.DV_STOP_ERROR:
        raise OSError(progress.error, os.strerror(progress.error))
    if progress.stop == lib.DV_STOP_TIMEOUT:
        message = "timed out"
        raise TimeoutError(message)


def send(
    sealed: bytes | memoryview,
    ends: bytes,
    sock: "socket.socket",
    address: Address | None,
    start: int,
    rate: float | None,
) -> int:
    """Send a burst from its packet ``start`` on; see Burst.send."""
    if start:
        buffers.integer("start", start, 0, len(ends) // buffers.SIZE_LEN)
    if rate is None:  # the short way: nearly always all packets leave at once
        number = descriptor(sock)
        native = None if address is None else native_address(sock, address)
        address_id = 0 if native is None else id(native)
        timeout_ns = nanoseconds(sock.gettimeout())
        method = method_of(sock)
        told: list[bytes] = []
        sent: int = _send(number, address_id, id(sealed), id(ends), start, timeout_ns, method, 0.0, 0, 1, id(told))
        if sent >= 0:
            return sent
        return Sending(sealed, ends, sock, address, None).run(start, read_progress(sock, sent, told))
    return Sending(sealed, ends, sock, address, rate).run(start)
