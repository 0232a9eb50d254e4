"""Read a packet capture, replace UDP payloads in it, and write it again.

dpkt parses the IP and UDP headers. Its file readers, and python-pcapng, are not used: they drop
what must come back byte for byte (original lengths, options, blocks, interfaces) and allocate
whatever length a file claims. Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, ClassVar, NamedTuple, Self

import dpkt
from dpkt.utils import inet_to_str

RECORD_LIMIT = 16 * 1024 * 1024  # as Wireshark's for a block, so that no length exhausts memory
IP_LENGTH_LIMIT = 0xFFFF
UDP_HEADER_LEN = 8

PCAP_ORDERS = {  # microseconds and nanoseconds, big-endian and little-endian
    b"\xa1\xb2\xc3\xd4": ">",
    b"\xa1\xb2\x3c\x4d": ">",
    b"\xd4\xc3\xb2\xa1": "<",
    b"\x4d\x3c\xb2\xa1": "<",
}
SECTION_ORDERS = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
SECTION, INTERFACE, OBSOLETE_PACKET, SIMPLE_PACKET, ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 6
NUMBERED_BLOCKS = {9, 0xBAD, 0x40000BAD}  # journal and custom blocks: Wireshark numbers them too
SHORTEST_BLOCK = {SECTION: 28, INTERFACE: 20, OBSOLETE_PACKET: 32, SIMPLE_PACKET: 16}
SHORTEST_BLOCK[ENHANCED_PACKET] = 32
NANOSECONDS = 10**9  # in a second
NANOSECOND_MAGICS = {b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1"}
TIME_RESOLUTION, TIME_RESOLUTION_DEFAULT = 9, 6  # the option's code; its value is an exponent

# https://www.tcpdump.org/linktypes.html; 12 and 14 are raw IP as some systems number it.
RAW_IP_LINKS = {12, 14, 101, 228, 229}
LOOPBACK_LINKS = {0, 108}
ETHERTYPE_LINKS = {1: (12, 14), 113: (14, 16), 276: (0, 20)}  # EtherType offset, header length
IP_ETHERTYPES = {b"\x08\x00", b"\x86\xdd"}
VLAN_ETHERTYPES = {b"\x81\x00", b"\x88\xa8", b"\x91\x00", b"\x92\x00"}
# In the byte order of the capturing machine; IPv6 is 24, 28 or 30, as the BSDs disagree.
IP_FAMILIES = {n.to_bytes(4, order) for n in (2, 24, 28, 30) for order in ("little", "big")}


class CaptureError(ValueError):
    """The file is not a capture, or is damaged from some record on."""


@dataclass(slots=True)
class Datagram:
    """A whole UDP datagram. Addresses are text: `192.0.2.1` or `2001:db8::1`."""

    payload: bytes
    source: str
    source_port: int
    destination: str
    destination_port: int


class _Frame(NamedTuple):
    """How a record holds its packet. Offsets, here and below, count from the record's start."""

    order: str
    block_type: int  # 0 in classic pcap
    start: int
    captured: int
    original: int
    link_type: int
    snap_length: int


class _Interface(NamedTuple):
    """What a section says of an interface."""

    link_type: int
    snap_length: int
    ticks: int  # of a timestamp, in a second


class _Headers(NamedTuple):
    """Where the headers of a datagram are, and where the datagram ends."""

    ip_version: int
    ip: int
    udp: int
    end: int


@dataclass(slots=True)
class Record:
    """A packet; or, where `number` is None, a file header or a pcapng block that is no packet.

    `number` counts from 1 as Wireshark does. `position` is the file offset behind the record.
    `udp` is None unless the packet is a whole, unfragmented datagram; `cut` is a sentence if the
    snap length has cut it. `time` is in nanoseconds, None where the format has none.
    """

    raw: bytes
    position: int
    number: int | None = None
    udp: Datagram | None = None
    cut: str | None = None
    time: int | None = None
    _frame: _Frame | None = None
    _headers: _Headers | None = None

    def with_payload(self, payload: bytes) -> bytes:
        """The record with another UDP payload: lengths set, checksums as right or wrong as before.

        ValueError if there is no datagram, or if the packet would outgrow its IP length field or
        the snap length of a pcapng simple packet block.
        """
        if self.udp is None or self._frame is None or self._headers is None:
            raise ValueError(f"packet {self.number} has no whole UDP datagram to replace")
        frame_end = self._frame.start + self._frame.captured
        try:
            headers = _resized_headers(self.raw, self._headers, self.udp.payload, payload)
            data = headers + payload + self.raw[self._headers.end : frame_end]
            return _reframed(self.raw, self._frame, data)
        except ValueError as error:
            raise ValueError(f"packet {self.number}: {error}") from None


class CaptureWriter:
    """Writes records to a binary file, which stays the caller's to close."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, record: Record, payload: bytes | None = None) -> None:
        """Write the record as it was read or, see `Record.with_payload`, with another payload."""
        self._file.write(record.raw if payload is None else record.with_payload(payload))


class Capture:
    """An open capture: a context manager that iterates once over all records, in file order.

    `size` is the length of the file in bytes, 0 for a pipe. A damaged record raises CaptureError
    after all records before it were delivered.
    """

    def __init__(self, file: BufferedReader, name: str) -> None:
        self.size = os.fstat(file.fileno()).st_size
        self._file, self._name = file, name
        self._position = self._record_start = self._packet_count = 0
        magic = file.peek(4)[:4]
        if magic in PCAP_ORDERS:
            ticks = NANOSECONDS if magic in NANOSECOND_MAGICS else 10**6
            self._records = self._pcap_records(PCAP_ORDERS[magic], ticks)
        elif magic == SECTION.to_bytes(4):  # a palindrome: the same in both byte orders
            self._records = self._pcapng_records()
        else:
            raise CaptureError(f"{name} is neither pcap nor pcapng: it starts with {magic.hex()!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Record]:
        return self._records

    def _pcap_records(self, order: str, ticks: int) -> Iterator[Record]:
        header = self._read(24)
        major, minor, link_type = struct.unpack(order + "4xHH12xI", header)
        if major != 2:
            raise self._error(f"pcap version {major}.{minor}; 2 is the only one read")
        yield Record(header, self._position)
        while self._more():
            head = self._read(16)
            seconds, fraction, captured, original = struct.unpack(order + "IIII", head)
            # The upper half of the link type tells of a frame check sequence.
            frame = _Frame(order, 0, 16, captured, original, link_type & 0xFFFF, RECORD_LIMIT)
            yield self._packet(
                head + self._read(captured), frame, seconds * NANOSECONDS + fraction * NANOSECONDS // ticks
            )

    def _pcapng_records(self) -> Iterator[Record]:
        order = ""
        interfaces: list[_Interface] = []  # of the section
        while self._more():
            head = self._read(12)  # the shortest block; its last 4 bytes may be the byte order
            if head[:4] == SECTION.to_bytes(4):
                if head[8:] not in SECTION_ORDERS:
                    raise self._error(f"a section with the byte-order magic {head[8:].hex()!r}")
                order, interfaces = SECTION_ORDERS[head[8:]], []
            block_type, raw = self._block(order, head)
            if block_type == INTERFACE:
                link_type, snap_length = struct.unpack_from(order + "HxxI", raw, 8)
                interfaces.append(_Interface(link_type, snap_length or RECORD_LIMIT, _ticks(order, raw)))
            if block_type in (OBSOLETE_PACKET, SIMPLE_PACKET, ENHANCED_PACKET):
                yield self._block_packet(order, block_type, raw, interfaces)
            elif block_type in NUMBERED_BLOCKS:
                self._packet_count += 1
                yield Record(raw, self._position, self._packet_count)
            else:
                yield Record(raw, self._position)

    def _block(self, order: str, head: bytes) -> tuple[int, bytes]:
        block_type, size = struct.unpack_from(order + "II", head)
        shortest = SHORTEST_BLOCK.get(block_type, 12)
        if size < shortest or size % 4:
            limit = f"at least {shortest} and a multiple of 4"
            raise self._error(f"a block of type {block_type} and length {size}; it must be {limit}")
        raw = head + self._read(size - 12)
        (repeated,) = struct.unpack_from(order + "I", raw, size - 4)
        if repeated != size:
            raise self._error(f"a block of length {size} that ends with the length {repeated}")
        return block_type, raw

    def _block_packet(self, order: str, block_type: int, raw: bytes, interfaces: list[_Interface]) -> Record:
        simple = block_type == SIMPLE_PACKET  # which names no interface: it means the first
        width = "H" if block_type == OBSOLETE_PACKET else "I"
        number = 0 if simple else struct.unpack_from(order + width, raw, 8)[0]
        if number >= len(interfaces):
            raise self._error(f"interface {number}; its section describes {len(interfaces)}")
        interface = interfaces[number]
        start = 12 if simple else 28
        captured, original = struct.unpack_from(order + "II", raw, start - 8)
        if simple:  # which has the original length only (pcapng, section 4.4)
            captured = min(original, interface.snap_length)
        if captured > len(raw) - start - 4:
            raise self._error(f"{captured} bytes in a block with room for {len(raw) - start - 4}")
        frame = _Frame(order, block_type, start, captured, original, interface.link_type, interface.snap_length)
        if simple:
            return self._packet(raw, frame, None)
        high, low = struct.unpack_from(order + "II", raw, 12)
        return self._packet(raw, frame, (high << 32 | low) * NANOSECONDS // interface.ticks)

    def _packet(self, raw: bytes, frame: _Frame, time: int | None) -> Record:
        self._packet_count += 1
        record = Record(raw, self._position, self._packet_count, time=time, _frame=frame)
        try:
            record._headers = _find_headers(raw[: frame.start + frame.captured], frame)
        except dpkt.NeedData:  # the headers promise more bytes than there are
            if frame.captured < frame.original:
                size = f"{frame.captured} of {frame.original} bytes"
                record.cut = f"packet {record.number} was cut by the capture's snap length: {size}"
        except dpkt.UnpackError:  # the headers contradict themselves
            pass
        if record._headers is not None:
            record.udp = _datagram(raw, record._headers)
        return record

    def _more(self) -> bool:
        self._record_start = self._position
        return bool(self._file.peek(1))

    def _read(self, size: int) -> bytes:
        if size > RECORD_LIMIT:
            raise self._error(f"a length of {size} bytes; the limit is {RECORD_LIMIT}")
        data = self._file.read(size)
        self._position += len(data)
        if len(data) < size:
            raise self._error(f"the file ends early: {size} bytes expected, {len(data)} there")
        return data

    def _error(self, reason: str) -> CaptureError:
        place = f"at byte {self._record_start}, after packet {self._packet_count}"
        return CaptureError(f"{self._name}, {place}: {reason}")


def open_capture(path: str | os.PathLike[str]) -> Capture:
    """Open a pcap or pcapng file. OSError if that fails, CaptureError if it is neither."""
    with ExitStack() as stack:
        capture = Capture(stack.enter_context(Path(path).open("rb")), os.fspath(path))
        stack.pop_all()
        return capture


def _ticks(order: str, raw: bytes) -> int:
    """How many ticks of an interface's timestamps make a second (pcapng, section 4.2, if_tsresol)."""
    exponent, start = TIME_RESOLUTION_DEFAULT, 16
    while start + 8 <= len(raw) - 4:  # an option with a value, before the block's second length
        code, length = struct.unpack_from(order + "HH", raw, start)
        if code == TIME_RESOLUTION and length == 1:
            exponent = raw[start + 4]
        start += 4 + length + -length % 4
    return 1 << (exponent & 0x7F) if exponent & 0x80 else 10**exponent


class _Ip4(dpkt.ip.IP):  # type: ignore[misc]  # dpkt has no types
    _protosw: ClassVar = {dpkt.ip.IP_PROTO_UDP: dpkt.udp.UDP}  # other layers stay bytes


class _Ip6(dpkt.ip6.IP6):  # type: ignore[misc]
    _protosw: ClassVar = _Ip4._protosw


def _find_headers(raw: bytes, frame: _Frame) -> _Headers | None:
    """None if not a whole UDP datagram; dpkt.NeedData if bytes are missing at the end of `raw`."""
    ip_start = _ip_start(raw, frame)
    if ip_start is None or frame.original > RECORD_LIMIT:
        return None
    # No more than the longest packet: dpkt walks IPv6 extension headers through all it gets.
    packet = raw[ip_start : ip_start + 40 + IP_LENGTH_LIMIT]
    if not packet:
        raise dpkt.NeedData
    version = packet[0] >> 4
    if version == 4:
        ip = _Ip4(packet)
        whole = not (ip.mf or ip.offset)
        udp_start, ip_end = 4 * ip.hl, ip.len
    elif version == 6:
        ip = _Ip6(packet)
        # AH authenticates the payload (RFC 4302): another one would make the packet invalid.
        whole = not ip.extension_hdrs.keys() & {dpkt.ip.IP_PROTO_FRAGMENT, dpkt.ip.IP_PROTO_AH}
        udp_start, ip_end = 40 + sum(h.length for h in ip.all_extension_headers), 40 + ip.plen
    else:
        return None
    if not whole or getattr(ip, "p", None) != dpkt.ip.IP_PROTO_UDP:  # behind ESP, dpkt has no p
        return None
    if udp_start + UDP_HEADER_LEN > ip_end or ip_end > frame.start + frame.original - ip_start:
        return None
    if not isinstance(ip.data, dpkt.udp.UDP):
        raise dpkt.NeedData
    udp_end = udp_start + ip.data.ulen
    if not udp_start + UDP_HEADER_LEN <= udp_end <= ip_end:
        return None
    if udp_end > len(packet):
        raise dpkt.NeedData
    return _Headers(version, ip_start, ip_start + udp_start, ip_start + udp_end)


def _ip_start(raw: bytes, frame: _Frame) -> int | None:
    start = frame.start
    if frame.link_type in RAW_IP_LINKS:
        return start
    if frame.link_type in LOOPBACK_LINKS:
        return start + 4 if raw[start : start + 4] in IP_FAMILIES else None
    if frame.link_type not in ETHERTYPE_LINKS:
        return None
    type_at, header_len = ETHERTYPE_LINKS[frame.link_type]
    ethertype, end = raw[start + type_at : start + type_at + 2], start + header_len
    while ethertype in VLAN_ETHERTYPES:  # by hand, as dpkt stops at two tags
        ethertype, end = raw[end + 2 : end + 4], end + 4
    return end if ethertype in IP_ETHERTYPES else None


def _datagram(raw: bytes, headers: _Headers) -> Datagram:
    source_port, destination_port = struct.unpack_from(">HH", raw, headers.udp)
    at, size = (headers.ip + 12, 4) if headers.ip_version == 4 else (headers.ip + 8, 16)
    source, destination = raw[at : at + size], raw[at + size : at + 2 * size]
    payload = raw[headers.udp + UDP_HEADER_LEN : headers.end]
    source_text, destination_text = inet_to_str(source), inet_to_str(destination)
    return Datagram(payload, source_text, source_port, destination_text, destination_port)


def _resized_headers(raw: bytes, at: _Headers, old: bytes, new: bytes) -> bytes:
    """All of the record before the UDP payload, with IP and UDP headers that fit `new`."""
    data = bytearray(raw[: at.udp + UDP_HEADER_LEN])
    growth = len(new) - len(old)
    ip_length_at, name = (2, "IPv4 total") if at.ip_version == 4 else (4, "IPv6 payload")
    (ip_length,) = struct.unpack_from(">H", data, at.ip + ip_length_at)
    if ip_length + growth > IP_LENGTH_LIMIT:
        raise ValueError(f"{name} length {ip_length + growth} is over {IP_LENGTH_LIMIT}")
    struct.pack_into(">H", data, at.ip + ip_length_at, ip_length + growth)
    if at.ip_version == 4:  # no right sum is 0xFFFF, as a header is never all zero
        _update_checksum(data, at.ip + 10, ip_length, ip_length + growth, unset=0xFFFF)
    udp_length = UDP_HEADER_LEN + len(old)
    struct.pack_into(">H", data, at.udp + 4, udp_length + growth)
    # The length is summed twice, in the pseudo header and in the header. 0 is "no checksum"
    # (RFC 768; for IPv6, RFC 6935).
    removed, added = _word_sum(old) + 2 * udp_length, _word_sum(new) + 2 * (udp_length + growth)
    _update_checksum(data, at.udp + 6, removed, added, unset=0)
    return bytes(data)


def _word_sum(data: bytes) -> int:
    """Sum of 16-bit words modulo 0xFFFF, an odd end padded with zero (RFC 1071)."""
    return int.from_bytes(data + bytes(len(data) % 2)) % 0xFFFF  # as 0x10000 is 1 modulo 0xFFFF


def _update_checksum(data: bytearray, at: int, removed: int, added: int, unset: int) -> None:
    """Update a checksum by RFC 1624, equation 3.

    Of the two zeros, 0 and 0xFFFF, `unset` is no sum: neither changed nor produced. So each value has one image, and
    replacing back restores it, wrong or right.
    """
    (old,) = struct.unpack_from(">H", data, at)
    if old != unset:
        struct.pack_into(">H", data, at, (old + removed - added) % 0xFFFF or 0xFFFF - unset)


def _reframed(raw: bytes, frame: _Frame, data: bytes) -> bytes:
    """The record with `data` in place of everything up to the end of its packet."""
    old_end, head, order = frame.start + frame.captured, bytearray(data), frame.order
    captured, original = len(data) - frame.start, frame.original + len(data) - old_end
    if frame.block_type != SIMPLE_PACKET:
        struct.pack_into(order + "II", head, 20 if frame.block_type else 8, captured, original)
    elif captured == min(original, frame.snap_length):  # which is what a reader will take
        struct.pack_into(order + "I", head, 8, original)
    else:
        raise ValueError(f"{original} bytes are over the snap length {frame.snap_length}")
    if not frame.block_type:
        return bytes(head)
    # Growth by a multiple of 4 keeps the padding too, where writers may leave anything.
    old_padding, padding_len = raw[old_end : old_end + -frame.captured % 4], -captured % 4
    head += old_padding[:padding_len].ljust(padding_len, b"\0")
    head += raw[old_end + len(old_padding) : -4]
    head[4:8] = size = struct.pack(order + "I", len(head) + 4)
    return bytes(head + size)
