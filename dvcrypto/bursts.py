"""A sealed burst: packets one behind the other in one buffer."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, overload

from dvcrypto import _sending
from dvcrypto._arrivals import Address
from dvcrypto._buffers import integer, numbers

if TYPE_CHECKING:
    import socket


class Burst(Sequence[memoryview]):
    """Sealed packets, contiguous in one buffer. Each item is a view into it, made when it is asked for."""

    __slots__ = ("_ends", "_offsets", "_sealed")

    def __init__(self, sealed: bytes | memoryview, ends: bytes) -> None:
        """``ends`` tells where each packet ends in the buffer, as C's size_t."""
        self._sealed = sealed
        self._ends = ends
        self._offsets: tuple[int, ...] | None = None

    @property
    def buffer(self) -> memoryview:
        """All packets, one behind the other."""
        return memoryview(self._sealed)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each packet starts in ``buffer``, and where the last one ends: one more than there are packets."""
        if self._offsets is None:
            self._offsets = (0, *numbers(self._ends))
        return self._offsets

    def send(
        self,
        sock: "socket.socket",
        address: Address | None = None,
        *,
        start: int = 0,
        rate: float | None = None,
    ) -> int:
        r"""Send the packets from number ``start`` on through a UDP socket, in as few system calls as the kernel has.

        Returns how many left, counted from ``start``: the same call with that much more goes on from there. Fewer than
        all is what a non-blocking socket has room for, or what left before an error or the socket's timeout; the error
        is raised where not one packet left, as the next call then finds (but not an error that the kernel tells only
        once, as that an earlier packet was refused). A non-blocking socket without room is no error: 0.

        ``address`` is the receiver's, unless the socket is connected: a numeric host and a port, as the socket module
        has them. ``rate`` paces the packets, in bits a second with their IP and UDP headers, so that a large burst does
        not overrun small buffers; waiting for the next packet's time blocks, on a non-blocking socket too (see
        ``send_async``), but without the GIL.

        Raises OSError as socket.send does, TimeoutError included; ValueError for a ``start`` outside the burst, an
        address that is not numeric, or a socket that is not UDP.

        >>> import dvcrypto, socket
        >>> with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
        ...     receiver.bind(("127.0.0.1", 0))
        ...     burst = dvcrypto.Sealer("aead_aes256_gcm_rtpsize", bytes(32)).seal_burst([b"\x80" + bytes(30)] * 5)
        ...     burst.send(sender, receiver.getsockname())
        5
        """
        return _sending.send(self._sealed, self._ends, sock, address, start, rate)

    async def send_async(
        self,
        sock: "socket.socket",
        address: Address | None = None,
        *,
        start: int = 0,
        rate: float | None = None,
    ) -> int:
        """Send as ``send`` does, on the running asyncio loop: what the socket has no room for, it waits for.

        Returns how many packets left, counted from ``start``: fewer than all only where an error came in between. The
        loop must have ``add_writer``, which the proactor loop of Windows has not. Cancelled, it has sent some.
        """
        from dvcrypto._waiting import send

        first = integer("start", start, 0, len(self))
        return await send(_sending.Sending(self._sealed, self._ends, sock, address, rate), first)

    def tolist(self) -> list[bytes]:
        """A copy of every packet."""
        return [bytes(packet) for packet in self]

    def __len__(self) -> int:
        """How many packets."""
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> memoryview: ...
    @overload
    def __getitem__(self, index: slice) -> list[memoryview]: ...
    def __getitem__(self, index: int | slice) -> memoryview | list[memoryview]:
        """A packet, or a list of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        offsets = self.offsets
        return self.buffer[offsets[number] : offsets[number + 1]]

    def __iter__(self) -> Iterator[memoryview]:
        """The packets in order."""
        offsets = self.offsets
        buffer = self.buffer
        return (buffer[start:end] for start, end in pairwise(offsets))

    def __repr__(self) -> str:
        """How many packets and bytes."""
        return f"<dvcrypto.Burst of {len(self)} packets, {self.buffer.nbytes} bytes>"
