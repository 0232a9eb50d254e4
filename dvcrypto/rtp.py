"""RTP and RTCP headers as people read them (RFC 3550), and header extensions (RFC 8285)."""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

ONE_BYTE_PROFILE: Final = 0xBEDE
TWO_BYTE_PROFILE: Final = 0x1000
_TWO_BYTE_MASK: Final = 0xFFF0  # the low 4 bits are the application's (RFC 8285, section 4.3)
_ONE_BYTE_STOP: Final = 15  # reserved: nothing behind it is read (RFC 8285, section 4.2)


class RtpHeader(NamedTuple):
    """The fixed RTP header and the CSRCs (RFC 3550, section 5.1)."""

    version: int
    padding: bool
    marker: bool
    payload_type: int
    sequence: int
    timestamp: int
    ssrc: int
    csrcs: tuple[int, ...]

    @classmethod
    def read(cls, packet: bytes | memoryview) -> "RtpHeader":
        """Read the header of a packet; at least 12 + 4 * CC bytes."""
        first, second, sequence, timestamp, ssrc = struct.unpack_from("!BBHII", packet)
        csrcs = struct.unpack_from(f"!{first & 0x0F}I", packet, 12)
        return cls(first >> 6, bool(first & 0x20), bool(second & 0x80), second & 0x7F, sequence, timestamp, ssrc, csrcs)


class RtcpHeader(NamedTuple):
    """The first 8 bytes of an RTCP packet (RFC 3550, section 6.4.1)."""

    version: int
    padding: bool
    item_count: int
    """Of reports, sources or whatever the packet type counts (5 bits)."""
    packet_type: int
    length: int
    """Of the first packet of the compound: 32-bit words, less one."""
    ssrc: int

    @classmethod
    def read(cls, packet: bytes | memoryview) -> "RtcpHeader":
        """Read the header of a packet; at least 8 bytes."""
        first, packet_type, length, ssrc = struct.unpack_from("!BBHI", packet)
        return cls(first >> 6, bool(first & 0x20), first & 0x1F, packet_type, length, ssrc)


class RtpExtension(NamedTuple):
    """A header extension: its 16-bit profile and its body.

    >>> RtpExtension.of({1: bytes([127])}).data.hex()
    '107f0000'
    """

    profile: int
    data: bytes
    """A multiple of 4 bytes, at most 65,535 words."""

    @classmethod
    def of(cls, elements: Mapping[int, bytes], *, two_byte: bool = False) -> "RtpExtension":
        """Write elements by id: ids 1 to 14 with 1 to 16 bytes, or 1 to 255 with 0 to 255 in the two-byte form.

        Raises ValueError for an id or a length outside of these.
        """
        ids, lens, form = (range(1, 256), range(256), "two") if two_byte else (range(1, 15), range(1, 17), "one")
        body = bytearray()
        for number, data in elements.items():
            if number not in ids:
                message = f"the extension's id is {number}; in the {form}-byte form it is from 1 to {ids[-1]}"
                raise ValueError(message)
            if len(data) not in lens:
                message = (
                    f"the extension's element {number} is {len(data)} bytes; in the {form}-byte form it has from "
                    f"{lens[0]} to {lens[-1]}"
                )
                raise ValueError(message)
            body += bytes((number, len(data))) if two_byte else bytes((number << 4 | len(data) - 1,))
            body += data
        body += bytes(-len(body) % 4)
        return cls(TWO_BYTE_PROFILE if two_byte else ONE_BYTE_PROFILE, bytes(body))

    @property
    def elements(self) -> dict[int, bytes]:
        """The elements by id, of an id that comes twice the last; none where the profile is not RFC 8285's.

        An element that runs past the end of the body ends the reading; ``data`` has all the bytes.
        """
        if self.profile == ONE_BYTE_PROFILE:
            return _read_elements(self.data, two_byte=False)
        if self.profile & _TWO_BYTE_MASK == TWO_BYTE_PROFILE:
            return _read_elements(self.data, two_byte=True)
        return {}


def _read_elements(body: bytes, *, two_byte: bool) -> dict[int, bytes]:
    elements: dict[int, bytes] = {}
    start = 0
    while start < len(body):
        number = body[start] if two_byte else body[start] >> 4
        if body[start] == 0:  # one byte of padding, in both forms
            start += 1
            continue
        if not two_byte and number == _ONE_BYTE_STOP:
            break
        header_len = 2 if two_byte else 1
        if start + header_len > len(body):
            break
        length = body[start + 1] if two_byte else (body[start] & 0x0F) + 1
        start += header_len
        if start + length > len(body):
            break
        if number:
            elements[number] = body[start : start + length]
        start += length
    return elements
