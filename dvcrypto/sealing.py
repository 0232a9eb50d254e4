"""Sealing: a key with its nonce counter, and streams of RTP packets under it."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NoReturn

from dvcrypto import _buffers as buffers
from dvcrypto import _sending
from dvcrypto._arrivals import Address
from dvcrypto._faults import sentence
from dvcrypto._keyed import Keyed
from dvcrypto._library import ffi, lib, owned
from dvcrypto._tracebacks import keyless
from dvcrypto.bursts import Burst
from dvcrypto.errors import NonceExhausted, SealerClosed, SealerForked, SealError
from dvcrypto.modes import Mode, as_mode, serving
from dvcrypto.packetizers import Packetizer, native_packetizer
from dvcrypto.rtp import RtpExtension

if TYPE_CHECKING:
    import socket

    from typing_extensions import Buffer

# Looked up once, as each is called for every packet or burst.
_seal: Final = lib.dv_python_seal
_seal_burst: Final = lib.dv_python_seal_burst
_seal_frame: Final = lib.dv_python_seal_frame
_send_frame: Final = lib.dv_python_send_frame

# What dv_python_send_frame returns where not all packets left.
_SEALED_ONLY: Final = -1
_NOT_SEALED: Final = -2

_ERRORS: Final[dict[int, Exception]] = {
    lib.DV_ERROR_CLOSED: SealerClosed("the sealer is closed"),
    lib.DV_ERROR_FORKED: SealerForked(
        "the sealer was made in a parent process; after a fork it would use the same nonces again"
    ),
    lib.DV_ERROR_EXHAUSTED: NonceExhausted(
        "the 32-bit nonce counter does not hold so many packets more, and is closed for good; reconnect for a new key"
    ),
    lib.DV_ERROR_OVERLAP: ValueError(
        "a packet overlaps out without starting exactly where its own sealed packet goes; seal from other memory"
    ),
    lib.DV_ERROR_ARGUMENT: BufferError("the buffer of a packet was there, and then could not be taken"),
    lib.DV_ERROR_ENGINE: SealError("the linked library failed to seal; the output was wiped"),
    lib.DV_ERROR_CAPACITY: SealError("a packet's length changed while it was sealed; the output was wiped"),
    lib.DV_ERROR_CHANGED: SealError("the frame changed while it was sealed; the output was wiped"),
}


_PLAIN: Final = native_packetizer(None)
_RTCP_PAYLOAD_TYPES: Final = range(64, 96)


class Sealer(Keyed):
    """Seals packets under one key. Make one for each key, and use it for everything that is sent under it.

    ``mode`` is a Mode or its name. ``key`` is 32 bytes, or the list of 32 integers of Discord's session description;
    it is copied into C at once. ``first_nonce`` is where the 32-bit counter starts and ``byteorder`` how it is
    written; the defaults are the official client's, which keep clear of a peer that counts up from 0 under the same
    key.

    Threads may share a sealer. It cannot be copied or pickled, and refuses to seal in a forked child. ``close()``,
    the end of a ``with`` block and collection wipe the key.

    Raises ValueError for a mode that is none, a key that is not 32 bytes, or a ``first_nonce`` outside 32 bits.

    >>> sealer = Sealer(Mode.AES256_GCM, bytes(32))
    >>> header = bytes.fromhex("8078000100000000000a0d10")
    >>> sealed = sealer.seal(header, b"payload")
    >>> len(sealed) - len(header) - len(b"payload"), sealed[-4:].hex()
    (20, '00000080')
    """

    __slots__ = ()

    @keyless
    def __init__(
        self,
        mode: Mode | str,
        key: "Buffer | Sequence[int]",
        *,
        first_nonce: int = 0x8000_0000,
        byteorder: Literal["little", "big"] = "little",
    ) -> None:
        """See the class."""
        buffers.once(self, "_native")
        self._mode = as_mode("mode", mode)
        if byteorder not in ("little", "big"):
            message = f"byteorder is {byteorder!r}; it must be 'little' or 'big'"
            raise ValueError(message)
        first = buffers.integer("first_nonce", first_nonce, 0, 0xFFFF_FFFF)
        pointer, made = buffers.key_pointer(key), list[object]()
        result = lib.dv_python_sealer(self._mode.native, pointer, first, byteorder == "big", id(made))
        if result != lib.DV_DONE:
            _raise(result)
        self._owner = made[0]
        self._native = owned("dv_sealer", self._owner)
        self._engine = serving(self._mode)

    def seal(self, header: "Buffer", payload: "Buffer") -> bytes:
        """Seal one packet: header, ciphertext, 16 bytes of tag, 4 of nonce.

        ``header`` is the clear header, of RTP (12 bytes, 4 for each CSRC, 4 of the extension's preamble where the X
        bit is set) or of RTCP (8 bytes). ``payload`` is all the rest: extension body, payload, padding. Either is
        bytes-like; the result is 20 bytes longer than both, and at most 65,535.

        Raises ValueError for a header whose length is not what its bits call for, an extension or padding that does not
        fit, or a packet that is too long; SealerClosed, SealerForked, NonceExhausted.
        """
        sealed: list[bytes] = []
        result = _seal(self._native, id(header), id(payload), id(sealed))
        if result:
            return self._seal_again(header, payload, result)
        return sealed[0]

    def _seal_again(self, header: "Buffer", payload: "Buffer", result: int) -> bytes:
        """Seal other bytes-like objects than bytes; or raise."""
        if result != lib.DV_ERROR_ARGUMENT:
            _raise(result, "header" if _lies_in_header(header) else "payload")
        head = buffers.read("header", header, buffers.PLAIN_MAX_LEN)
        return self.seal(head, buffers.read("payload", payload, buffers.PLAIN_MAX_LEN - len(head)))

    def seal_burst(self, packets: "Iterable[Buffer]") -> Burst:
        """Seal plain RTP and RTCP packets, each with its clear header as associated data, in one native call.

        ``packets`` are bytes-like, each at most 65,515 bytes. The whole burst is looked at before a nonce is used.

        Raises ValueError that names the packet where one cannot be sealed (then none is, and no nonce is used);
        TypeError or BufferError for an item that is not contiguous bytes; SealerClosed, SealerForked, NonceExhausted.

        >>> sealer = Sealer(Mode.XCHACHA20_POLY1305, bytes(32))
        >>> plain = bytes.fromhex("8078000100000000000a0d10") + b"payload"
        >>> [len(packet) for packet in sealer.seal_burst([plain, plain])]
        [39, 39]
        """
        items = buffers.burst(packets)
        sealed: list[bytes] = []
        result = _seal_burst(self._native, id(items), 0, id(sealed))
        if result:
            if result == lib.DV_ERROR_ARGUMENT:
                buffers.check_burst(items)
            _raise(result, "packets[{index}]")
        return Burst(*sealed)

    def seal_burst_into(self, packets: "Iterable[Buffer]", out: "Buffer") -> Burst:
        """Seal as ``seal_burst`` does, into the caller's writable buffer, which may be longer and may be used again.

        The burst is a view into ``out``: its packets are gone when ``out`` is written again. A packet may lie in
        ``out`` itself where it starts exactly where its sealed form will; any other overlap raises ValueError.
        """
        items = buffers.burst(packets)
        ends: list[bytes] = []
        target = buffers.writable("out", out)
        result = _seal_burst(self._native, id(items), id(target), id(ends))
        if result in {lib.DV_ERROR_ARGUMENT, lib.DV_ERROR_CAPACITY}:
            needed = buffers.check_burst(items) + buffers.OVERHEAD_LEN * len(items)
            if target.nbytes < needed:
                message = f"out is {target.nbytes} bytes; {needed} are needed"
                raise ValueError(message)
        if result:
            _raise(result, "packets[{index}]")
        return Burst(target[: buffers.last(ends[0])], ends[0])

    @property
    def packets_left(self) -> int:
        """How many more packets the counter holds; 0 once it is at its end or the sealer is closed."""
        return int(lib.dv_sealer_packets_left(self._native))

    def close(self) -> None:
        """Wipe the key. Sealing raises SealerClosed from then on; closing again does nothing."""
        lib.dv_sealer_close(self._native)

    def __reduce_ex__(self, _: object) -> NoReturn:
        """Refuse: a second counter under the same key would repeat nonces."""
        message = f"a {type(self).__name__} cannot be copied or pickled: its nonces would be used twice"
        raise TypeError(message)

    def __repr__(self) -> str:
        """Mode, engine and packets left; never the key."""
        return f"<dvcrypto.Sealer {self._mode}, {self._engine}, {self.packets_left} packets left>"


class SentFrame(NamedTuple):
    """A frame that was sealed and sent."""

    burst: Burst
    """All of its sealed packets."""
    sent: int
    """How many of them left, from the first on."""


class RtpStream:
    """RTP packets under one SSRC: headers are made here, in sequence, and sealed by ``sealer``.

    ``ssrc`` and ``timestamp`` have 32 bits, ``sequence`` 16, ``payload_type`` 7 (64 to 95 left out). ``extension``
    goes into every packet. ``max_packet`` is the longest sealed packet in bytes, header and tag and nonce included.
    ``picture_id``, 15 bits, is the first one of VP8 and VP9 frames.

    Several streams (audio, video) may share a sealer, and threads may share a stream.

    Raises ValueError for a number outside its range, or where ``max_packet`` leaves no room for payload.

    >>> stream = RtpStream(Sealer(Mode.AES256_GCM, bytes(32)), ssrc=1, payload_type=120)
    >>> _ = stream.seal(b"20 ms of Opus", advance=960)
    >>> stream.sequence, stream.timestamp
    (1, 960)
    """

    __slots__ = ("_body", "_extension", "_sealer", "_stream")

    def __init__(
        self,
        sealer: Sealer,
        ssrc: int,
        payload_type: int,
        *,
        sequence: int = 0,
        timestamp: int = 0,
        extension: RtpExtension | None = None,
        max_packet: int = 1200,
        picture_id: int = 0,
    ) -> None:
        """See the class."""
        buffers.once(self, "_stream")
        if not isinstance(sealer, Sealer):
            message = f"sealer must be a Sealer, not {type(sealer).__name__}"
            raise TypeError(message)
        self._sealer = sealer
        self._stream = ffi.new("dv_stream *")
        self._stream.ssrc = buffers.integer("ssrc", ssrc, 0, 0xFFFF_FFFF)
        number = self._stream.payload_type = buffers.integer("payload_type", payload_type, 0, 127)
        if number in _RTCP_PAYLOAD_TYPES:
            message = f"payload_type is {number}; with the marker, 64 to 95 would be RTCP (RFC 5761, section 4)"
            raise ValueError(message)
        self._stream.sequence = buffers.integer("sequence", sequence, 0, 0xFFFF)
        self._stream.timestamp = buffers.integer("timestamp", timestamp, 0, 0xFFFF_FFFF)
        self._stream.picture_id = buffers.integer("picture_id", picture_id, 0, 0x7FFF)
        self._stream.max_packet_len = buffers.PACKET_MAX_LEN
        self._set_extension(extension)
        lowest = self._overhead_len() + 1
        self._stream.max_packet_len = buffers.integer("max_packet", max_packet, lowest, buffers.PACKET_MAX_LEN)

    def _overhead_len(self) -> int:
        """The bytes of a packet that are not payload: header, extension, tag, nonce."""
        return int(lib.dv_stream_sealed_len(self._stream, 0))

    def _set_extension(self, extension: RtpExtension | None) -> None:
        self._extension = extension
        if extension is None:
            return
        if not isinstance(extension, RtpExtension):
            message = f"extension must be an RtpExtension, not {type(extension).__name__}"
            raise TypeError(message)
        body = buffers.read("extension.data", extension.data)
        self._stream.has_extension = 1
        longest = buffers.PACKET_MAX_LEN - self._overhead_len() - 1
        if len(body) % 4 or len(body) > longest:
            message = f"extension.data is {len(body)} bytes; it must be a multiple of 4, and at most {longest}"
            raise ValueError(message)
        self._body = ffi.from_buffer("uint8_t[]", body)  # held, as the stream only points at it
        self._stream.extension_profile = buffers.integer("extension.profile", extension.profile, 0, 0xFFFF)
        self._stream.extension_len = len(body)
        self._stream.extension = self._body

    def seal(self, payload: "Buffer", *, marker: bool = False, advance: int = 0) -> bytes:
        """Seal one payload as one packet; then the sequence number is one more, and the timestamp ``advance`` more.

        Raises ValueError when the packet would be longer than ``max_packet``, and what Sealer.seal raises.
        """
        data = buffers.read("payload", payload, buffers.PACKET_MAX_LEN)
        sealed_len = lib.dv_stream_sealed_len(self._stream, len(data))
        if sealed_len > self.max_packet:
            room = self.max_packet - self._overhead_len()
            message = f"payload is {len(data)} bytes; max_packet={self.max_packet} leaves room for {room}"
            raise ValueError(message)
        return self._seal(_PLAIN, data, advance, marker=marker)[0]

    def seal_frame(self, frame: "Buffer", *, packetizer: Packetizer | str | None = None, advance: int = 0) -> Burst:
        """Cut a media frame into packets of at most ``max_packet`` bytes and seal them, in one native call.

        ``packetizer`` is the codec's way to cut, a Packetizer or its name; ``frame`` is what the encoder returned for
        one picture, in Annex-B for H.264 and H.265 and in the low-overhead format for AV1. None cuts anywhere: all
        packets but the last are equally long, and an empty frame makes one packet without payload.

        The last packet has the marker. Then the sequence number has grown by the number of packets, the timestamp by
        ``advance``, and the picture ID of VP8 and VP9 by 1.

        Raises ValueError for a frame that the packetizer cannot read, or for which ``max_packet`` leaves too little
        room; no nonce is used then. Raises what Sealer.seal raises; when the nonces do not suffice for the whole
        frame, none of it is sealed.

        >>> stream = RtpStream(Sealer(Mode.AES256_GCM, bytes(32)), ssrc=1, payload_type=101, max_packet=100)
        >>> idr = bytes.fromhex("00000001 65") + bytes(range(1, 101))
        >>> [len(packet) for packet in stream.seal_frame(idr, packetizer=Packetizer.H264, advance=3000)]
        [100, 68]
        """
        data = buffers.read("frame", frame)
        return Burst(*self._seal(native_packetizer(packetizer), data, advance, marker=True))

    def send_frame(
        self,
        sock: "socket.socket",
        frame: "Buffer",
        address: Address | None = None,
        *,
        packetizer: Packetizer | str | None = None,
        advance: int = 0,
        rate: float | None = None,
    ) -> SentFrame:
        """Seal a frame as ``seal_frame`` does and send it as ``Burst.send`` does, in one native call.

        The result has the sealed burst and how many of its packets left: all of them but where a non-blocking socket is
        full, a timeout has passed, or an error came in between. ``result.burst.send(sock, start=result.sent)`` goes on.

        Raises what seal_frame raises, and then nothing was sent; and what Burst.send raises where not one packet left.
        Then the error's attribute ``burst`` is the sealed burst, whose nonces are used.
        """
        data = buffers.read("frame", frame)
        step = buffers.integer("advance", advance, 0, 0xFFFF_FFFF)
        number = _sending.descriptor(sock)
        native = None if address is None else _sending.native_address(sock, address)
        pace = 0.0 if rate is None else _sending.native_rate(rate)
        sealed: list[bytes] = []
        sent = _send_frame(
            self._sealer._native,
            self._stream,
            native_packetizer(packetizer),
            id(data),
            step,
            number,
            0 if native is None else id(native),
            _sending.nanoseconds(sock.gettimeout()),
            _sending.method_of(sock),
            pace,
            id(sealed),
        )
        if sent < _SEALED_ONLY:
            self._raise(_NOT_SEALED - sent)
        burst = Burst(*sealed[:2])
        if sent == _SEALED_ONLY:
            sending = _sending.Sending(sealed[0], sealed[1], sock, address, rate)
            try:
                sent = sending.run(0, _sending.read_progress(sock, sent, sealed))
            except OSError as error:
                error.burst = burst  # type: ignore[attr-defined]
                raise
        return SentFrame(burst, sent)

    def _seal(self, packetizer: int, frame: bytes, advance: int, *, marker: bool) -> list[bytes]:
        """The sealed packets in one, and where each ends."""
        step = buffers.integer("advance", advance, 0, 0xFFFF_FFFF)
        sealed: list[bytes] = []
        result = _seal_frame(self._sealer._native, self._stream, packetizer, id(frame), bool(marker), step, id(sealed))
        if result:
            self._raise(result)
        return sealed

    @staticmethod
    def _raise(result: int) -> NoReturn:
        _raise(result, "frame[{index}:]" if lib.dv_python_refusal().index else "frame")

    @property
    def extension(self) -> RtpExtension | None:
        """The header extension of every packet."""
        return self._extension

    @property
    def ssrc(self) -> int:
        """The synchronization source of every packet."""
        return int(self._stream.ssrc)

    @property
    def payload_type(self) -> int:
        """The payload type of every packet."""
        return int(self._stream.payload_type)

    @property
    def sequence(self) -> int:
        """The sequence number of the next packet."""
        return int(self._stream.sequence)

    @property
    def timestamp(self) -> int:
        """The timestamp of the next packet."""
        return int(self._stream.timestamp)

    @property
    def picture_id(self) -> int:
        """The picture ID of the next frame of VP8 or VP9."""
        return int(self._stream.picture_id)

    @property
    def max_packet(self) -> int:
        """The longest sealed packet, in bytes."""
        return int(self._stream.max_packet_len)

    def __reduce_ex__(self, _: object) -> NoReturn:
        """Refuse, as the sealer does."""
        message = "an RtpStream cannot be copied or pickled: its packets would be sent twice"
        raise TypeError(message)

    def __repr__(self) -> str:
        """Where the stream stands."""
        return (
            f"<dvcrypto.RtpStream ssrc={self.ssrc} payload_type={self.payload_type} sequence={self.sequence} "
            f"timestamp={self.timestamp}>"
        )


def _lies_in_header(header: "Buffer") -> bool:
    """Whether the last fault is one of the clear header itself, and not of what stands behind it."""
    fault = lib.dv_python_refusal().fault
    if fault == lib.DV_FAULT_LONG:
        return memoryview(header).nbytes > buffers.HEADER_MAX_LEN
    return fault in {lib.DV_FAULT_SHORT, lib.DV_FAULT_VERSION, lib.DV_FAULT_HEADER_LEN}


def _raise(result: int, name: str = "") -> NoReturn:
    if result == lib.DV_ERROR_PACKET:
        refusal = lib.dv_python_refusal()
        raise ValueError(sentence(name.format(index=refusal.index), refusal))
    error = _ERRORS.get(result, MemoryError())
    raise type(error)(*error.args)
