"""Receiving: what waits in a UDP socket, taken in and opened in one native call."""

import errno
import os
import time
import weakref
from _thread import RLock
from typing import TYPE_CHECKING, Final, NoReturn, Self

from dvcrypto import _buffers as buffers
from dvcrypto._library import lib, owned
from dvcrypto._sending import best_method, descriptor, nanoseconds
from dvcrypto.opening import OpenedBurst, Opener, raise_for

if TYPE_CHECKING:
    import socket

_SLOTS: Final = 64
_SLOT_MAX_LEN: Final = 65536
_PACKETS_MAX: Final = 1024
_EMPTY: Final = OpenedBurst(b"", b"", b"")
_receive: Final = lib.dv_python_receive


class Receiver:
    r"""Takes in what waits in a UDP socket, in as few system calls as the kernel has, and opens it.

    ``sock`` stays the caller's, who binds and closes it; it is read by one receiver, and by nobody else. ``opener``
    opens the datagrams. ``max_packet`` is the longest datagram there is room for, in bytes: a longer one has the status
    TRUNCATED. ``timestamps`` asks the kernel when each datagram came in (Linux to the nanosecond, macOS to the
    microsecond), for ``OpenedBurst.times``.

    Where the kernel has UDP_GRO it is turned on, and packets of one length arrive together; ``gro=False`` leaves it
    off. ``close()``, or the end of a ``with`` block, turns it off again: until then, who reads from the socket by other
    means may get several packets as one.

    Threads may share a receiver. Raises ValueError for a number outside its range or a socket that is not UDP; OSError
    where the socket is closed, or has no timestamps.

    >>> import dvcrypto, socket
    >>> sealer, opener = (of("aead_aes256_gcm_rtpsize", bytes(32)) for of in (dvcrypto.Sealer, dvcrypto.Opener))
    >>> sock = socket.socket(type=socket.SOCK_DGRAM)
    >>> sock.bind(("127.0.0.1", 0))
    >>> with sock, Receiver(sock, opener) as receiver:
    ...     burst = sealer.seal_burst([b"\x80" + bytes(30)] * 5)
    ...     _ = burst.send(sock, sock.getsockname())
    ...     [str(status) for status in receiver.receive(timeout=1).statuses]
    ['ok', 'ok', 'ok', 'ok', 'ok']
    """

    __slots__ = ("__weakref__", "_gro", "_lock", "_method", "_native", "_opener", "_owner", "_sock")

    def __init__(
        self,
        sock: "socket.socket",
        opener: Opener,
        *,
        max_packet: int = 2048,
        timestamps: bool = False,
        gro: bool = True,
    ) -> None:
        """See the class."""
        buffers.once(self, "_native")
        if not isinstance(opener, Opener):
            message = f"opener must be an Opener, not {type(opener).__name__}"
            raise TypeError(message)
        longest = buffers.integer("max_packet", max_packet, 1, buffers.PACKET_MAX_LEN)
        number = descriptor(sock)
        if timestamps:
            error = lib.dv_wire_set(number, lib.DV_OPTION_TIMESTAMPS, 1)
            if error:
                raise OSError(error, f"the socket has no timestamps: {os.strerror(error)}")
        self._method = best_method
        wanted = bool(gro) and best_method == lib.DV_WIRE_GSO
        # Another may have left it on, and there would be no room for several packets as one.
        self._gro = lib.dv_wire_set(number, lib.DV_OPTION_GRO, wanted) == 0 and wanted
        made: list[object] = []
        slot_len = _SLOT_MAX_LEN if self._gro else longest
        if lib.dv_python_receiver(slot_len, _SLOTS, longest, id(made)) != lib.DV_DONE:
            raise MemoryError
        self._owner: object = made[0]
        self._native = owned("dv_receiver", self._owner)
        self._sock = sock
        self._opener = opener
        self._lock = RLock()  # a signal handler may receive, too
        _receivers.add(self)

    @property
    def gro(self) -> bool:
        """Whether packets of one length may arrive together."""
        return self._gro

    @property
    def opener(self) -> Opener:
        """The opener; its ``stats`` count what came in."""
        return self._opener

    def receive(self, *, max_packets: int = _PACKETS_MAX, timeout: float | None = None) -> OpenedBurst:
        """Take in and open what is waiting, at most ``max_packets`` (1 to 1,024) of it; wait where nothing is.

        ``timeout`` is how long to wait, in seconds: 0 not at all, None for as long as the socket's own timeout says. An
        empty burst means that nothing came in that time, or that the socket was shut down for reading.

        Raises OSError as socket.recv does (a closed socket; a packet sent before that was refused, which the kernel
        tells once); ValueError for a number outside its range, or where opener or receiver is closed. What was taken in
        by then is not lost, but given out by the next call.
        """
        most = buffers.integer("max_packets", max_packets, 1, _PACKETS_MAX)
        waits_ns = nanoseconds(self._sock.gettimeout() if timeout is None else timeout)
        burst = self._take(most)
        if burst is not None:
            return burst
        end_ns = time.monotonic_ns() + waits_ns
        while burst is None and waits_ns:
            ready = lib.dv_wire_wait(descriptor(self._sock), waits_ns)
            if ready < 0 and -ready != errno.EINTR:  # signal handlers run here, between two calls
                raise OSError(-ready, os.strerror(-ready))
            burst = self._take(most)
            if not ready:
                break
            if waits_ns > 0:
                waits_ns = max(0, end_ns - time.monotonic_ns())
        return burst or _EMPTY

    async def receive_async(self, *, max_packets: int = _PACKETS_MAX, timeout: float | None = None) -> OpenedBurst:
        """Receive as ``receive`` does, on the running asyncio loop; None waits for ever.

        The loop must have ``add_reader``, which the proactor loop of Windows has not.
        """
        import asyncio

        from dvcrypto._waiting import ready

        most = buffers.integer("max_packets", max_packets, 1, _PACKETS_MAX)
        waits_ns = nanoseconds(timeout)
        try:
            async with asyncio.timeout(waits_ns / 1e9 if waits_ns > 0 else None):
                while (burst := self._take(most)) is None and waits_ns:
                    await ready(descriptor(self._sock), to_send=False)
        except TimeoutError:
            burst = self._take(most)
        return burst or _EMPTY

    def _take(self, most: int) -> OpenedBurst | None:
        """What is waiting, opened; None where nothing is."""
        opened: list[bytes] = []
        with self._lock:
            owner = self._owner  # read first: where it is still there, so is what it owns
            native = self._native
            if native is None:
                message = "the receiver is closed"
                raise ValueError(message)
            number = descriptor(self._sock)
            result = _receive(native, self._opener._native, number, self._method, most, id(opened))
            del owner
        if result > 0:
            raise_for(result)
        if result:
            raise OSError(-result, os.strerror(-result))
        return OpenedBurst(*opened) if opened else None

    def close(self) -> None:
        """Turn GRO off and let go of the memory, not of the socket. Receiving raises ValueError from then on.

        Who waits for a datagram learns it when one comes, or when the time is over.
        """
        if self._native is None:
            return
        self._native = None
        self._owner = None  # freed with the last call that works in it
        number = self._sock.fileno()
        if self._gro and number >= 0:
            lib.dv_wire_set(number, lib.DV_OPTION_GRO, 0)

    def __enter__(self) -> Self:
        """The object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __reduce_ex__(self, _: object) -> NoReturn:
        """Refuse: a socket has one reader."""
        message = "a Receiver cannot be copied or pickled: its socket has one reader"
        raise TypeError(message)

    def __repr__(self) -> str:
        """What it reads from and with."""
        return f"<dvcrypto.Receiver {self._sock!r}, {self._opener!r}{', GRO' if self._gro else ''}>"


_receivers: "weakref.WeakSet[Receiver]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The thread that may have held a receiver's lock is not here."""
    for receiver in _receivers:
        receiver._lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
