"""A UDP endpoint for asyncio in the shape of ``loop.create_datagram_endpoint``, whose datagrams are sealed packets.

A library that has an ``asyncio.DatagramProtocol`` changes the call that makes its transport, and gets plain packets.
"""

import asyncio
import collections
import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from dvcrypto import _buffers as buffers
from dvcrypto import _waiting
from dvcrypto._arrivals import Address
from dvcrypto._library import ffi, lib
from dvcrypto._sending import Sending
from dvcrypto.bursts import Burst
from dvcrypto.opening import OpenedBurst, Opener
from dvcrypto.wire import Receiver

if TYPE_CHECKING:
    from typing_extensions import Buffer

_Protocol = TypeVar("_Protocol", bound=asyncio.DatagramProtocol)
_BATCH: Final = 1024  # the most that Receiver gives at once: behind so many, more may be there without a wake-up
_HIGH_WATER: Final = 256 * 1024  # bytes queued from which the protocol is asked to pause


class BurstProtocol(asyncio.DatagramProtocol):
    """A protocol that takes bursts: what came in together, with a status for each packet."""

    def burst_received(self, burst: OpenedBurst) -> None:
        """Hand on each packet that opened, plain, as ``datagram_received(data, address)``; to be overridden."""
        _hand_on(self, burst, lambda: False)


def _hand_on(protocol: asyncio.DatagramProtocol, burst: OpenedBurst, has_ended: Callable[[], bool]) -> None:
    for packet, address in zip(burst, burst.addresses, strict=True):
        if has_ended():
            return
        if packet is not None:
            _call(protocol.datagram_received, packet.plain, address)


def _call(callback: Callable[..., None], *arguments: object) -> None:
    """What a protocol raises goes to the loop, as from any callback, and takes nothing else with it."""
    try:
        callback(*arguments)
    except Exception as error:
        context = {"message": "a protocol's method has raised", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


class _Queued(NamedTuple):
    """A burst that waits for its turn."""

    sending: Sending
    start: int
    packet_count: int
    length: int

    async def send(self) -> None:
        """Send all of it. Raises OSError for what stopped it, however much had left by then."""
        sent = self.start
        while sent < self.packet_count:
            sent += await _waiting.send(self.sending, sent)


class SealedTransport(asyncio.DatagramTransport):
    """Sends sealed packets and bursts, and opens what comes in. Made by ``create_datagram_endpoint``.

    What the socket has no room for is queued in order, and ``pause_writing`` called while more than 256 KiB are. An
    error is told as ``error_received(error)``; a queued burst that met one is given up where it stands. Where the
    opener is closed, the transport is aborted, and ``connection_lost(error)`` tells so.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, opener: Opener, protocol: asyncio.DatagramProtocol
    ) -> None:
        """See ``create_datagram_endpoint``."""
        extra = {"socket": sock, "sockname": sock.getsockname()}
        with contextlib.suppress(OSError):  # not connected
            extra["peername"] = sock.getpeername()
        super().__init__(extra)
        self._loop = loop
        self._sock = sock
        self._number = sock.fileno()
        self._protocol = protocol
        self._receiver = Receiver(sock, opener)
        sock.setblocking(False)
        self._queue: collections.deque[_Queued] = collections.deque()
        self._queued_len = 0
        self._paused = False
        self._closing = False
        self._fault: Exception | None = None
        self._pump: asyncio.Task[None] | None = None
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self._begin)

    def _begin(self) -> None:
        if not self._closing:
            self._loop.add_reader(self._number, self._read)

    def _read(self) -> None:
        """One batch a turn of the loop, so that others have theirs."""
        if self._closing:
            return
        try:
            burst = self._receiver.receive(timeout=0)
        except OSError as error:
            self._protocol.error_received(error)
            return
        except ValueError as error:  # the opener is closed, for good
            self._fault = error
            self.abort()
            return
        if not burst:
            return
        if len(burst) == _BATCH:
            self._loop.call_soon(self._read)
        if isinstance(self._protocol, BurstProtocol):
            self._protocol.burst_received(burst)
        else:
            _hand_on(self._protocol, burst, self.is_closing)

    def sendto(self, data: "Buffer", addr: Address | None = None) -> None:  # type: ignore[override]
        """Send one sealed packet."""
        packet = buffers.read("data", data, buffers.PACKET_MAX_LEN)
        self.send_burst(Burst(packet, bytes(ffi.buffer(ffi.new("size_t *", len(packet))))), addr)

    def send_burst(self, burst: Burst, addr: Address | None = None, *, rate: float | None = None) -> None:
        """Send a burst; ``rate`` is as ``Burst.send`` has it. A buffer of the caller's may be used again at once."""
        if self._closing:
            return
        sending = Sending(burst._sealed, burst._ends, self._sock, addr, rate)
        start = 0
        if not self._queue and rate is None:
            progress = sending.step(0, 0)
            start = progress.sent
            if progress.stop == lib.DV_STOP_DONE:
                return
        if type(burst._sealed) is not bytes:
            sending = Sending(burst.buffer.tobytes(), burst._ends, self._sock, addr, rate)
        self._queue.append(_Queued(sending, start, len(burst), burst.buffer.nbytes))
        self._queued_len += burst.buffer.nbytes
        if self._pump is None:
            self._pump = self._loop.create_task(self._send_queued())
            self._pump.add_done_callback(self._pump_ended)
        if self._queued_len > _HIGH_WATER and not self._paused:
            self._paused = True
            _call(self._protocol.pause_writing)

    async def _send_queued(self) -> None:
        while self._queue:
            first = self._queue[0]
            try:
                await first.send()
            except OSError as error:
                self._loop.call_soon(self._protocol.error_received, error)  # which may abort
            self._queue.popleft()
            self._queued_len -= first.length
            if self._paused and self._queued_len <= _HIGH_WATER // 2:
                self._paused = False
                _call(self._protocol.resume_writing)

    def _pump_ended(self, _: "asyncio.Task[None]") -> None:
        """Whatever has ended it: all is sent, or it was cancelled, before its first step too."""
        self._pump = None
        if self._closing:
            self._end()

    def get_write_buffer_size(self) -> int:
        """Bytes of the bursts that are queued."""
        return self._queued_len

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol."""
        return self._protocol

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._closing

    def close(self) -> None:
        """Send what is queued, then close the socket; nothing more is received."""
        if self._closing:
            return
        self._closing = True
        self._loop.remove_reader(self._number)
        if self._pump is None:
            self._loop.call_soon(self._end)

    def abort(self) -> None:
        """Close the socket at once."""
        self._queue.clear()
        self._queued_len = 0
        if self._pump is not None:
            self._pump.cancel()
        self.close()

    def _end(self) -> None:
        self._receiver.close()
        self._sock.close()
        self._protocol.connection_lost(self._fault)


async def create_datagram_endpoint(
    protocol_factory: Callable[[], _Protocol], opener: Opener, sock: socket.socket
) -> tuple[SealedTransport, _Protocol]:
    """Make a transport and its protocol on the running loop, which must have ``add_reader`` and ``add_writer``.

    ``sock`` is a UDP socket, bound or connected, which is the transport's from then on. What comes in is opened with
    ``opener`` and handed on: to a BurstProtocol as bursts, to any other DatagramProtocol as plain packets one by one.
    """
    loop = asyncio.get_running_loop()
    protocol = protocol_factory()
    transport = SealedTransport(loop, sock, opener, protocol)
    try:
        await asyncio.sleep(0)  # until connection_made was called
    except asyncio.CancelledError:
        transport.abort()
        raise
    return transport, protocol
