"""The bytes that a sealed packet hides, by field: RFC 3550 sections 6.4 to 6.7, RFC 4585 section 6.1, RFC 8285."""

import datetime as dt
from collections.abc import Iterator
from typing import Final

from dvcrypto import OpenedPacket
from dvcrypto.diagnosis import Field
from dvcrypto.rtp import ONE_BYTE_PROFILE, TWO_BYTE_PROFILE, RtpExtension

_RTCP_CLEAR_LEN: Final = 8
_REPORT_LEN: Final = 24
_SENDER_REPORT, _RECEIVER_REPORT, _DESCRIPTION, _GOODBYE, _APPLICATION = 200, 201, 202, 203, 204
_FEEDBACK: Final = {205, 206}
_NAMES: Final = {
    _SENDER_REPORT: "sender report",
    _RECEIVER_REPORT: "receiver report",
    _DESCRIPTION: "source description",
    _GOODBYE: "goodbye",
    _APPLICATION: "application",
    205: "transport feedback",
    206: "payload feedback",
    207: "extended report",
}
_ITEMS: Final = ("end", "CNAME", "NAME", "EMAIL", "PHONE", "LOC", "TOOL", "NOTE", "PRIV")
_NTP_EPOCH: Final = dt.datetime(1900, 1, 1, tzinfo=dt.UTC)


def hidden_fields(packet: OpenedPacket) -> list[Field]:
    """All that was encrypted, in order. Offsets are those of the plain packet, and of the sealed one."""
    return list(_rtcp_fields(packet.plain) if packet.is_rtcp else _rtp_fields(packet))


def extension_fault(extension: RtpExtension | None) -> str:
    """What contradicts RFC 8285 in a header extension; empty where nothing does."""
    if extension is None or not _is_known(extension.profile):
        return ""
    return next((field.meaning for field in _elements(extension, 0) if field.name == "broken element"), "")


def _is_known(profile: int) -> bool:
    return profile == ONE_BYTE_PROFILE or profile & 0xFFF0 == TWO_BYTE_PROFILE


def _rtp_fields(packet: OpenedPacket) -> Iterator[Field]:
    plain, extension = packet.plain, packet.extension
    start = 12 + 4 * (plain[0] & 0x0F) + (4 if extension is not None else 0)
    if extension is not None and extension.data:
        if _is_known(extension.profile):
            yield from _elements(extension, start)
        else:
            profile = f"profile 0x{extension.profile:04x}: not of RFC 8285"
            yield Field("extension body", start, start + len(extension.data), profile)
        start += len(extension.data)
    payload_end = start + len(packet.payload)
    if payload_end > start:
        yield Field("payload", start, payload_end, _bytes(payload_end - start))
    if payload_end < len(plain):
        yield Field(
            "padding", payload_end, len(plain), f"{_bytes(len(plain) - payload_end)}; the last one is the count"
        )


def _elements(extension: RtpExtension, at: int) -> Iterator[Field]:
    """The elements of an extension whose body starts at ``at``."""
    body, start = extension.data, 0
    is_two_byte = extension.profile != ONE_BYTE_PROFILE
    head_len = 2 if is_two_byte else 1
    while start < len(body):
        rest = body[start:]
        if rest[0] == 0:
            end = start + len(rest) - len(rest.lstrip(b"\0"))
            yield Field("extension padding", at + start, at + end, "")
            start = end
            continue
        number = rest[0] if is_two_byte else rest[0] >> 4
        if not is_two_byte and number == 15:
            yield Field("extension rest", at + start, at + len(body), "id 15: nothing behind it is read")
            return
        if len(rest) < head_len:
            yield Field("broken element", at + start, at + len(body), f"extension element {number} has no length")
            return
        length = rest[1] if is_two_byte else (rest[0] & 0x0F) + 1
        if head_len + length > len(rest):
            fault = f"extension element {number} has {_bytes(length)}; {len(rest) - head_len} are left"
            yield Field("broken element", at + start, at + len(body), fault)
            return
        end = start + head_len + length
        name = f"element {number}" if number else "ignored element"
        yield Field(name, at + start, at + end, _bytes(length))
        start = end


def _rtcp_fields(plain: bytes) -> Iterator[Field]:
    """A compound packet, behind its clear 8 bytes; what fits no packet is called so."""
    start = 0
    while start < len(plain):
        if len(plain) - start < 4 or plain[start] >> 6 != 2:
            yield Field("rest", start, len(plain), f"{_bytes(len(plain) - start)}: no RTCP packet")
            return
        end = start + 4 * (int.from_bytes(plain[start + 2 : start + 4], "big") + 1)
        if end > len(plain):
            yield Field("rest", max(start, _RTCP_CLEAR_LEN), len(plain), f"its length is {end - start} bytes")
            return
        yield from (field for field in _one_rtcp(plain, start, end) if field.start >= _RTCP_CLEAR_LEN)
        start = end


def _one_rtcp(plain: bytes, start: int, end: int) -> Iterator[Field]:
    count, packet_type = plain[start] & 0x1F, plain[start + 1]
    name = _NAMES.get(packet_type, f"type {packet_type}")
    yield Field("RTCP packet", start, start + 4, f"{packet_type} {name}, count {count}, {_bytes(end - start)}")
    at = start + 4
    content = _chunks(plain, at, end) if packet_type == _DESCRIPTION else _words(plain, at, end, packet_type, count)
    for field in content:
        yield field
        at = field.end
    if at < end:
        yield Field("contents", at, end, _bytes(end - at))


def _words(plain: bytes, at: int, end: int, packet_type: int, count: int) -> Iterator[Field]:
    """The parts of all packets that are made of words, as far as they are there."""
    names: list[tuple[str, int]] = []
    if packet_type == _SENDER_REPORT:
        names = [("SSRC", 4), ("NTP time", 8), ("RTP timestamp", 4), ("packets sent", 4), ("bytes sent", 4)]
    elif packet_type == _GOODBYE:
        names = [("SSRC", 4)] * count
    elif packet_type in _FEEDBACK:
        names = [("SSRC", 4), ("media SSRC", 4)]
    else:
        names = [("SSRC", 4)]
    if packet_type in {_SENDER_REPORT, _RECEIVER_REPORT}:
        names += [("report block", _REPORT_LEN)] * count
    for name, length in names:
        if at + length > end:
            return
        yield Field(name, at, at + length, _meaning(name, plain[at : at + length]))
        at += length


def _chunks(plain: bytes, at: int, end: int) -> Iterator[Field]:
    """The items of a source description."""
    while at + 4 <= end:
        yield Field("SSRC", at, at + 4, _meaning("SSRC", plain[at : at + 4]))
        chunk_start, at = at, at + 4
        while at + 2 <= end and plain[at]:
            item_end = at + 2 + plain[at + 1]
            if item_end > end:
                return
            name = _ITEMS[plain[at]] if plain[at] < len(_ITEMS) else f"item {plain[at]}"
            yield Field(name, at, item_end, repr(plain[at + 2 : item_end].decode("utf-8", "replace")))
            at = item_end
        chunk_end = min(end, at + 4 - (at - chunk_start) % 4)  # zeros, one at least, up to a whole word
        if chunk_end > at:
            yield Field("end of items", at, chunk_end, "")
        at = chunk_end


def _meaning(name: str, data: bytes) -> str:
    if name == "NTP time":
        seconds, fraction = int.from_bytes(data[:4], "big"), int.from_bytes(data[4:], "big")
        moment = _NTP_EPOCH + dt.timedelta(seconds=seconds + fraction / 2**32)
        return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} UTC"
    if name == "report block":
        ssrc, lost = int.from_bytes(data[:4], "big"), int.from_bytes(data[5:8], "big", signed=True)
        newest, jitter = int.from_bytes(data[8:12], "big"), int.from_bytes(data[12:16], "big")
        return f"SSRC {ssrc}: {data[4]}/256 lost, {lost} in all, newest {newest}, jitter {jitter}"
    return str(int.from_bytes(data, "big"))


def _bytes(count: int) -> str:
    return f"{count} byte{'' if count == 1 else 's'}"
