"""Opening: a key, what it opened, and the packets themselves."""

import enum
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, overload

from dvcrypto import _buffers as buffers
from dvcrypto._arrivals import ARRIVAL_LEN, Address, read_address, read_time
from dvcrypto._faults import sentence
from dvcrypto._keyed import Keyed
from dvcrypto._library import ffi, lib, owned
from dvcrypto._tracebacks import keyless
from dvcrypto.errors import AuthenticationFailed, Malformed, OpenError, Replayed, Truncated
from dvcrypto.modes import Mode, as_mode, serving
from dvcrypto.rtp import RtcpHeader, RtpExtension, RtpHeader

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Status(enum.StrEnum):
    """What became of a packet of a burst."""

    OK = "ok"
    EMPTY = "empty"
    """Authentic, but without a byte of payload: padding only, or nothing at all."""
    TRUNCATED = "truncated"
    """Shorter than its header calls for."""
    MALFORMED = "malformed"
    """No RTP or RTCP, or a header that contradicts the packet's length."""
    NOT_MEDIA = "not_media"
    """An 8-byte keep-alive or a 74-byte IP discovery packet, which share the socket."""
    BAD_TAG = "bad_tag"
    """Another key or mode, or a packet that was changed."""
    REPLAYED = "replayed"
    """Opened before, or older than the replay window."""


_STATUSES: Final[dict[int, Status]] = {getattr(lib, f"DV_{status.name}"): status for status in Status}
_OPENED: Final = (Status.OK, Status.EMPTY)
_ERRORS: Final[dict[Status, type[OpenError]]] = {
    Status.TRUNCATED: Truncated,
    Status.MALFORMED: Malformed,
    Status.NOT_MEDIA: Malformed,
    Status.BAD_TAG: AuthenticationFailed,
    Status.REPLAYED: Replayed,
}


class _Fault(NamedTuple):
    """What a ``dv_opened`` says of a packet that did not open."""

    status: int
    fault: int
    value: int
    limit: int

    @classmethod
    def read(cls, described: bytes, at: int) -> "_Fault":
        return cls(*_FAULT.unpack_from(described, at))


# dv_opened: status, fault, is_rtcp, padding_len, suffix[4], header_len, extension_len, plain_len, value, limit.
_DESCRIPTION_LEN: Final = int(ffi.sizeof("dv_opened"))
_FAULT: Final = struct.Struct("=BB14xII")
_FAULT_AT: Final = 1
_IS_RTCP_AT: Final = 2
_PADDING_LEN_AT: Final = 3
_SUFFIX_AT: Final = 4
_LENS: Final = struct.Struct("=HHI")  # header, extension, plain packet
_LENS_AT: Final = 8

# Looked up once, as each is called for every packet or burst.
_open: Final = lib.dv_python_open
_open_burst: Final = lib.dv_python_open_burst


class OpenedPacket:
    """A packet that was opened. Its parts are read when they are asked for."""

    __slots__ = ("_at", "_described", "_plain", "_start")

    def __init__(self, plain: bytes | memoryview, start: int, described: bytes, at: int) -> None:
        """The packet starts at ``start`` in ``plain``, and its ``dv_opened`` at ``at`` in ``described``."""
        self._plain = plain
        self._start = start
        self._described = described
        self._at = at

    def _lens(self) -> tuple[int, int, int]:
        """The bytes of the clear header, of the extension's body, and of the whole plain packet."""
        header_len, extension_len, plain_len = _LENS.unpack_from(self._described, self._at + _LENS_AT)
        return header_len, extension_len, plain_len

    def _packet(self) -> bytes | memoryview:
        return self._plain[self._start : self._start + self._lens()[2]]

    @property
    def nonce(self) -> bytes:
        """The 4 bytes of the nonce that were on the wire, as they were."""
        start = self._at + _SUFFIX_AT
        return self._described[start : start + 4]

    @property
    def is_rtcp(self) -> bool:
        """Whether this is RTCP, which has ``rtcp_header`` and no ``header``."""
        return bool(self._described[self._at + _IS_RTCP_AT])

    @property
    def plain(self) -> bytes:
        """The whole packet as it was before it was sealed: header, extension, payload, padding."""
        return bytes(self._packet())

    @property
    def header(self) -> RtpHeader:
        """The RTP header. Raises ValueError for RTCP."""
        if self.is_rtcp:
            message = "an RTCP packet has no RTP header; see rtcp_header"
            raise ValueError(message)
        return RtpHeader.read(self._packet())

    @property
    def rtcp_header(self) -> RtcpHeader:
        """The first 8 bytes of an RTCP packet. Raises ValueError for RTP."""
        if not self.is_rtcp:
            message = "an RTP packet has no RTCP header; see header"
            raise ValueError(message)
        return RtcpHeader.read(self._packet())

    @property
    def ssrc(self) -> int:
        """The sender's SSRC, of RTP and RTCP alike."""
        return self.rtcp_header.ssrc if self.is_rtcp else self.header.ssrc

    @property
    def extension(self) -> RtpExtension | None:
        """The header extension, or None where there is none."""
        packet, (start, extension_len, _) = self._packet(), self._lens()
        if self.is_rtcp or not packet[0] & 0x10:
            return None
        profile = int.from_bytes(packet[start - 4 : start - 2], "big")
        return RtpExtension(profile, bytes(packet[start : start + extension_len]))

    @property
    def payload(self) -> bytes:
        """The payload without extension and padding; of RTCP, all behind the first 8 bytes."""
        header_len, extension_len, plain_len = _LENS.unpack_from(self._described, self._at + _LENS_AT)
        end = self._start + plain_len - self._described[self._at + _PADDING_LEN_AT]
        return bytes(self._plain[self._start + header_len + extension_len : end])

    def __eq__(self, other: object) -> bool:
        """Whether both are the same packet, under the same nonce."""
        if not isinstance(other, OpenedPacket):
            return NotImplemented
        return (self.plain, self.nonce) == (other.plain, other.nonce)

    def __hash__(self) -> int:
        """As equality."""
        return hash((self.plain, self.nonce))

    def __reduce__(self) -> "tuple[type[OpenedPacket], tuple[bytes, int, bytes, int]]":
        """A copy of the packet by itself, without the rest of its burst."""
        return OpenedPacket, (self.plain, 0, self._described[self._at : self._at + _DESCRIPTION_LEN], 0)

    def __repr__(self) -> str:
        """The header, and the payload's length."""
        header = self.rtcp_header if self.is_rtcp else self.header
        return f"<dvcrypto.OpenedPacket {header}, {len(self.payload)} bytes of payload>"


class OpenedBurst(Sequence[OpenedPacket | None]):
    """The result of a burst: for each packet an OpenedPacket, or None where it did not open; ``statuses`` tell why."""

    __slots__ = ("_arrivals", "_ends", "_opened", "_plain", "_statuses")

    def __init__(self, plain: bytes, ends: bytes, opened: bytes, arrivals: bytes = b"") -> None:
        """``opened`` has a ``dv_opened`` for each packet, and ``arrivals``, of those from a socket, a ``dv_arrival``.

        ``ends`` tells where each packet ends in ``plain``, as size_t.
        """
        self._arrivals = arrivals
        self._plain = plain
        self._ends = ends
        self._opened = opened
        self._statuses: tuple[Status, ...] | None = None

    @property
    def statuses(self) -> tuple[Status, ...]:
        """What became of each packet."""
        if self._statuses is None:
            codes = self._opened[::_DESCRIPTION_LEN]
            if codes.count(lib.DV_OK) == len(codes):  # as nearly always, and a tenth of the time
                self._statuses = (Status.OK,) * len(codes)
            else:
                self._statuses = tuple(map(_STATUSES.__getitem__, codes))
        return self._statuses

    def reason(self, index: int) -> str | None:
        """Why a packet did not open, in a sentence with the value and the limit; None where it did."""
        number = range(len(self))[index]
        fault = _Fault.read(self._opened, number * _DESCRIPTION_LEN)
        return sentence(f"packets[{number}]", fault) if fault.fault else None

    @property
    def addresses(self) -> tuple[Address | None, ...]:
        """Whence each packet came, as the socket module has it; None for packets that came from no socket."""
        if not self._arrivals:
            return (None,) * len(self)
        return tuple(read_address(self._arrivals, at) for at in range(0, len(self._arrivals), ARRIVAL_LEN))

    @property
    def times(self) -> tuple[int | None, ...]:
        """When the kernel took each packet in, in nanoseconds since 1970; None where it was not asked, or cannot tell.

        See ``Receiver(timestamps=True)``.
        """
        if not self._arrivals:
            return (None,) * len(self)
        return tuple(read_time(self._arrivals, at) for at in range(0, len(self._arrivals), ARRIVAL_LEN))

    def __len__(self) -> int:
        """How many packets went in."""
        return len(self._opened) // _DESCRIPTION_LEN

    @overload
    def __getitem__(self, index: int) -> OpenedPacket | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[OpenedPacket | None]: ...
    def __getitem__(self, index: int | slice) -> OpenedPacket | list[OpenedPacket | None] | None:
        """A packet or None, or a list of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        at = number * _DESCRIPTION_LEN
        if self._opened[at + _FAULT_AT]:
            return None
        start = buffers.numbers(self._ends)[number - 1] if number else 0
        return OpenedPacket(memoryview(self._plain), start, self._opened, at)

    def __iter__(self) -> Iterator[OpenedPacket | None]:
        """The packets in order."""
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        """How many packets by status."""
        counts = {status: self.statuses.count(status) for status in Status if status in self.statuses}
        return f"<dvcrypto.OpenedBurst {', '.join(f'{count} {status}' for status, count in counts.items()) or 'empty'}>"


class OpenerStats(NamedTuple):
    """How many packets an opener has seen, by what became of them."""

    ok: int
    empty: int
    truncated: int
    malformed: int
    not_media: int
    bad_tag: int
    replayed: int

    @property
    def opened(self) -> int:
        """Those that opened."""
        return self.ok + self.empty

    @property
    def failed(self) -> int:
        """Those that did not, datagrams that are no media left aside."""
        return self.truncated + self.malformed + self.bad_tag + self.replayed


class Opener(Keyed):
    """Opens packets under one key, in both byte orders of the nonce and from any number of senders.

    ``mode`` and ``key`` are as Sealer's. ``replay_window`` is how many RTP sequence numbers are remembered for each
    SSRC, 0 to 32,768: a packet that was opened before, or that is older than the window, is then refused. RTCP has no
    sequence number and is never refused as a replay. The 1,024 SSRCs heard last are remembered.

    Threads may share an opener. ``close()``, the end of a ``with`` block and collection wipe the key.

    Raises ValueError for a mode that is none, a key that is not 32 bytes, or a window outside its range.

    >>> sealed = bytes.fromhex(
    ...     "80c800060005ec188af5b6fb63a15a19f519ab9b502e933c6ae101ae685f"
    ...     "5e7f42b4fab783bb0eeda73e70e994cbaea0fdb0652f91a52d695a000080"
    ... )
    >>> key = bytes.fromhex("4405dfc5d83d86c231d3313a59cef41d6b780641acf007c9af841dc616b278a2")
    >>> Opener("aead_aes256_gcm_rtpsize", key).open(sealed).rtcp_header.packet_type
    200
    """

    __slots__ = ()

    @keyless
    def __init__(self, mode: Mode | str, key: "Buffer | Sequence[int]", *, replay_window: int = 0) -> None:
        """See the class."""
        buffers.once(self, "_native")
        self._mode = as_mode("mode", mode)
        window = buffers.integer("replay_window", replay_window, 0, lib.DV_REPLAY_WINDOW_MAX)
        made: list[object] = []
        result = lib.dv_python_opener(self._mode.native, buffers.key_pointer(key), window, id(made))
        if result != lib.DV_DONE:
            raise_for(result)
        self._owner = made[0]
        self._native = owned("dv_opener", self._owner)
        self._engine = serving(self._mode)

    def open(self, packet: "Buffer") -> OpenedPacket:
        """Open one sealed packet, RTP or RTCP.

        Raises Truncated, Malformed (also for keep-alives and discovery packets, which are no media),
        AuthenticationFailed or Replayed, with the value and the limit; ValueError once the opener is closed.
        """
        opened: list[bytes] = []
        result = _open(self._native, id(packet), id(opened))
        if result:
            if result == lib.DV_ERROR_ARGUMENT:
                return self.open(buffers.view("packet", packet).tobytes())
            raise_for(result)
        plain, described = opened
        if described[_FAULT_AT]:
            fault = _Fault.read(described, 0)
            raise _ERRORS[_STATUSES[fault.status]](sentence("packet", fault))
        return OpenedPacket(plain, 0, described, 0)

    def open_burst(self, packets: "Iterable[Buffer]") -> OpenedBurst:
        """Open sealed packets in one native call. A packet that does not open raises nothing and touches no other.

        Raises TypeError or BufferError for an item that is not contiguous bytes; ValueError once the opener is closed.

        >>> burst = Opener("aead_aes256_gcm_rtpsize", bytes(32)).open_burst([bytes(8), b"too short"])
        >>> [str(status) for status in burst.statuses], burst.reason(1)
        (['not_media', 'truncated'], 'packets[1] is 9 bytes; it needs at least 28')
        """
        items = buffers.burst(packets)
        opened: list[bytes] = []
        result = _open_burst(self._native, id(items), id(opened))
        if result:
            buffers.check_burst(items)
            raise_for(result)
        return OpenedBurst(*opened)

    @property
    def stats(self) -> OpenerStats:
        """How many packets so far, by what became of them."""
        counts = ffi.new(f"uint64_t[{lib.DV_STATUS_COUNT}]")
        lib.dv_opener_count(self._native, counts)
        return OpenerStats(**{status.value: int(counts[native]) for native, status in _STATUSES.items()})

    def close(self) -> None:
        """Wipe the key. Opening raises ValueError from then on; closing again does nothing."""
        lib.dv_opener_close(self._native)

    def __reduce_ex__(self, _: object) -> NoReturn:
        """Refuse: the key stays where it is."""
        message = f"an {type(self).__name__} cannot be copied or pickled: its key stays in it"
        raise TypeError(message)

    def __repr__(self) -> str:
        """Mode and engine; never the key."""
        return f"<dvcrypto.Opener {self._mode}, {self._engine}>"


def raise_for(result: int) -> NoReturn:
    """The error behind a ``dv_result`` of opening."""
    if result == lib.DV_ERROR_ARGUMENT:
        message = "the buffer of a packet was there, and then could not be taken"
        raise BufferError(message)
    if result == lib.DV_ERROR_CLOSED:
        message = "the opener is closed"
        raise ValueError(message)
    if result == lib.DV_ERROR_ENGINE:
        message = "the linked library could not take the key"
        raise OpenError(message)
    raise MemoryError
