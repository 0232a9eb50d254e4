"""What Sealer, RtpStream and Opener promise, in plain Python: twins that return and raise what theirs must.

A twin has the method, the arguments and the errors of what it stands for. Its bytes are the oracle's; nonces, sequence
numbers and the replay window are kept the slow way. Of dvcrypto only the names of errors and statuses are used.
"""

import re
from collections import Counter
from typing import NamedTuple

import oracle

from dvcrypto import (
    AuthenticationFailed,
    Malformed,
    Mode,
    NonceExhausted,
    OpenError,
    Replayed,
    RtpExtension,
    SealerClosed,
    Status,
    Truncated,
)

NONCE_END = 2**32
PLAIN_MAX_LEN = 65535 - oracle.OVERHEAD_LEN

ERRORS: dict[Status, type[OpenError]] = {
    Status.TRUNCATED: Truncated,
    Status.MALFORMED: Malformed,
    Status.NOT_MEDIA: Malformed,
    Status.BAD_TAG: AuthenticationFailed,
    Status.REPLAYED: Replayed,
}


class SealerTwin:
    """A key and a counter that never goes back."""

    def __init__(self, mode: Mode, key: bytes, first_nonce: int, byteorder: str) -> None:
        self.mode, self.key, self.byteorder = mode, key, byteorder
        self.next_nonce, self.closed = first_nonce, False

    def seal(self, header: bytes, payload: bytes) -> list[bytes]:
        packet = header + payload
        check_plain(packet)
        if len(header) != oracle.clear_header_len(packet):
            raise ValueError
        return self.seal_checked([packet])

    def seal_burst(self, packets: list[bytes]) -> list[bytes]:
        for packet in packets:
            check_plain(packet)
        return self.seal_checked(packets)

    def seal_burst_into(self, packets: list[bytes], out: memoryview, *, overlap: bool) -> list[bytes]:
        for packet in packets:
            check_plain(packet)
        needed = sum(len(packet) + oracle.OVERHEAD_LEN for packet in packets)
        if len(out) < needed or overlap:
            raise ValueError
        sealed = self.seal_checked(packets)
        out[:needed] = b"".join(sealed)
        return sealed

    def seal_checked(self, packets: list[bytes]) -> list[bytes]:
        suffixes = self.take(len(packets))
        return [oracle.seal(self.mode, self.key, *both) for both in zip(packets, suffixes, strict=True)]

    def take(self, count: int) -> list[bytes]:
        """So many nonces; all of them, or none ever again."""
        if self.closed:
            raise SealerClosed
        first = self.next_nonce
        if first == NONCE_END or first + count > NONCE_END:
            self.next_nonce = NONCE_END
            raise NonceExhausted
        self.next_nonce += count
        return [number.to_bytes(4, self.byteorder) for number in range(first, first + count)]

    @property
    def packets_left(self) -> int:
        return 0 if self.closed else NONCE_END - self.next_nonce

    def close(self) -> None:
        self.closed = True


def check_plain(packet: bytes) -> None:
    """Raises ValueError for what may not be sealed."""
    if len(packet) > PLAIN_MAX_LEN:
        raise ValueError
    oracle.parse(packet)


class StreamTwin:
    """Headers in sequence: all numbers move when a whole frame is sealed, and only then."""

    def __init__(
        self,
        sealer: SealerTwin,
        ssrc: int,
        payload_type: int,
        *,
        sequence: int,
        timestamp: int,
        extension: RtpExtension | None,
        max_packet: int,
        picture_id: int,
    ) -> None:
        self.sealer, self.ssrc, self.payload_type = sealer, ssrc, payload_type
        self.sequence, self.timestamp, self.picture_id = sequence, timestamp, picture_id
        self.extension = extension
        self.room = max_packet - 12 - (4 + len(extension.data) if extension else 0) - oracle.OVERHEAD_LEN

    def seal(self, payload: bytes, *, marker: bool, advance: int) -> list[bytes]:
        if len(payload) > self.room:
            raise ValueError
        return self._seal([payload], advance, marker=marker)

    def seal_frame(self, frame: bytes, *, packetizer: str | None, advance: int) -> list[bytes]:
        sealed = self._seal(cut(frame, packetizer, self.room, self.picture_id), advance, marker=True)
        if packetizer in {"vp8", "vp9"}:
            self.picture_id = (self.picture_id + 1) % 2**15
        return sealed

    def _seal(self, payloads: list[bytes], advance: int, *, marker: bool) -> list[bytes]:
        if not 0 <= advance < 2**32:
            raise ValueError
        last = len(payloads) - 1
        packets = [self._packet(i, payload, marker=marker and i == last) for i, payload in enumerate(payloads)]
        sealed = self.sealer.seal_checked(packets)
        self.sequence = (self.sequence + len(packets)) % 2**16
        self.timestamp = (self.timestamp + advance) % 2**32
        return sealed

    def _packet(self, index: int, payload: bytes, *, marker: bool) -> bytes:
        packet = bytes((0x90 if self.extension else 0x80, 0x80 * marker + self.payload_type))
        packet += ((self.sequence + index) % 2**16).to_bytes(2) + self.timestamp.to_bytes(4) + self.ssrc.to_bytes(4)
        if self.extension:
            profile, body = self.extension
            packet += profile.to_bytes(2) + (len(body) // 4).to_bytes(2) + body
        return packet + payload


def cut(frame: bytes, packetizer: str | None, room: int, picture_id: int) -> list[bytes]:
    """The payloads of a frame. Raises ValueError for a frame, or a room, that the packetizer does not take."""
    if packetizer is None:
        return pieces(frame, room) or [b""]
    if packetizer == "opus":
        return check_cut(pieces(frame, room), packets=1)
    if packetizer == "h264":
        return check_cut(cut_h264(frame, room))
    picture = (0x8000 | picture_id).to_bytes(2)
    if packetizer == "vp8":
        return cut_vp8(frame, room, picture)
    return cut_vp9(frame, room, picture)


def check_cut(payloads: list[bytes], packets: int | None = None) -> list[bytes]:
    if not payloads or packets not in {None, len(payloads)}:
        raise ValueError
    return payloads


def pieces(data: bytes, length: int) -> list[bytes]:
    return [data[start : start + length] for start in range(0, len(data), length)]


def cut_h264(frame: bytes, room: int) -> list[bytes]:
    """RFC 6184, sections 5.6 and 5.8."""
    before, *units = re.split(rb"\x00*\x00\x00\x01", frame)
    if before or not units or room < 3:
        raise ValueError
    payloads = []
    for unit in units:
        whole = unit.rstrip(b"\0")
        if not whole or whole[0] & 0x80:
            raise ValueError
        kind = whole[0] & 0x1F
        if kind == 9:
            continue
        if kind > 23:
            raise ValueError
        if len(whole) <= room:
            payloads.append(whole)
            continue
        parts = pieces(whole[1:], room - 2)
        for i, part in enumerate(parts):
            ends = 0x80 * (i == 0) + 0x40 * (i == len(parts) - 1)
            payloads.append(bytes((whole[0] & 0xE0 | 28, ends | kind)) + part)
    return payloads


def cut_vp8(frame: bytes, room: int, picture: bytes) -> list[bytes]:
    """RFC 7741, section 4.2."""
    is_key = len(frame) >= 3 and not frame[0] & 1
    if len(frame) < 3 or room < 5 or (is_key and (len(frame) < 10 or frame[3:6] != b"\x9d\x01\x2a")):
        raise ValueError
    parts = pieces(frame, room - 4)
    return [bytes((0x80 if i else 0x90, 0x80)) + picture + part for i, part in enumerate(parts)]


def cut_vp9(frame: bytes, room: int, picture: bytes) -> list[bytes]:
    """RFC 9628, section 4.2; for frames that are no superframes, and of profile 0."""
    if not frame or room < 5 or frame[0] >> 6 != 2:
        raise ValueError
    predicted = bool(frame[0] & 0b1100)
    reference = b"\x02" if predicted else b""
    parts = pieces(frame, room - 3 - len(reference))
    last = len(parts) - 1
    return [
        bytes((0x90 | 0x40 * predicted | 0x08 * (i == 0) | 0x04 * (i == last),)) + picture + reference + part
        for i, part in enumerate(parts)
    ]


class Judged(NamedTuple):
    """What became of a packet, and its plain form; nothing where it did not open."""

    status: Status
    plain: bytes


class OpenerTwin:
    """Judges packets by their bytes and by what was opened before."""

    def __init__(self, mode: Mode, key: bytes, window: int) -> None:
        self.mode, self.key = mode, key
        self.replay = ReplayTwin(window) if window else None
        self.counts = Counter[Status]()
        self.closed = False

    def open(self, packet: bytes) -> bytes:
        (judged,) = self.open_burst([packet])
        if judged.status in ERRORS:
            raise ERRORS[judged.status]
        return judged.plain

    def open_burst(self, packets: list[bytes]) -> list[Judged]:
        if self.closed:
            raise ValueError
        judged = [self._open(packet) for packet in packets]
        self.counts.update(status for status, _ in judged)
        return judged

    def close(self) -> None:
        self.closed = True

    def _open(self, packet: bytes) -> Judged:
        refused = refused_by_its_bytes(packet)
        if refused:
            return Judged(refused, b"")
        mark = None
        if self.replay and not oracle.is_rtcp(packet):
            mark = Mark(int.from_bytes(packet[8:12]), int.from_bytes(packet[2:4]), packet[-4:])
        if mark and self.replay.place(mark) is None:
            return Judged(Status.REPLAYED, b"")
        plain = oracle.open_sealed(self.mode, self.key, packet)
        if plain is None:
            return Judged(Status.BAD_TAG, b"")
        if mark:
            self.replay.accept(mark)
        try:
            parts = oracle.parse(plain)
        except ValueError:
            return Judged(Status.MALFORMED, b"")
        has_payload = parts.payload or oracle.is_rtcp(packet)
        return Judged(Status.OK if has_payload else Status.EMPTY, plain)


def refused_by_its_bytes(packet: bytes) -> Status | None:
    """What a packet is that no key opens."""
    if len(packet) == 8 or (len(packet) == 74 and packet[:4] in {b"\0\1\0\x46", b"\0\2\0\x46"}):
        return Status.NOT_MEDIA
    if len(packet) < 8 + oracle.OVERHEAD_LEN:
        return Status.TRUNCATED
    if len(packet) > 65535 or packet[0] >> 6 != 2:
        return Status.MALFORMED
    if len(packet) < oracle.clear_header_len(packet) + oracle.OVERHEAD_LEN:
        return Status.TRUNCATED
    return None


class Mark(NamedTuple):
    ssrc: int
    sequence: int
    suffix: bytes


class Sender:
    """What was opened of an SSRC. Indices are sequence numbers that never wrap."""

    def __init__(self, mark: Mark) -> None:
        self.newest = 2**32 + mark.sequence
        self.suffix = mark.suffix
        self.opened = {self.newest}


class ReplayTwin:
    """csrc/replay.h: the window of RFC 3711, and the nonce's counter where its byte order has been seen."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.senders: dict[int, Sender] = {}
        self.short_steps = {"little": 0, "big": 0}
        self.last_suffix = bytes(4)

    def place(self, mark: Mark) -> int | None:
        """The packet's index; None for a replay."""
        sender = self.senders.get(mark.ssrc)
        if sender is None:
            return 2**32 + mark.sequence
        ahead, later = nearest(mark.sequence - sender.newest, 2**16), self._sealed_later(sender, mark)
        index = sender.newest + ahead
        if ahead > 0:
            return index if later >= -16384 else None
        if later >= 32768:
            return index + 2**16
        return None if -ahead >= self.window or index in sender.opened else index

    def accept(self, mark: Mark) -> None:
        index = self.place(mark)
        assert index is not None
        sender = self.senders.setdefault(mark.ssrc, Sender(mark))
        later = self._sealed_later(sender, mark)
        self._learn(sender.suffix, mark.suffix)
        self._learn(self.last_suffix, mark.suffix)
        self.last_suffix = mark.suffix
        if later > 0 or (later == 0 and index > sender.newest):
            sender.suffix = mark.suffix
        sender.newest = max(sender.newest, index)
        sender.opened.add(index)

    def _learn(self, earlier: bytes, later: bytes) -> None:
        for order in self.short_steps:
            self.short_steps[order] += 1 <= steps(order, earlier, later) % 2**32 <= 64

    def _sealed_later(self, sender: Sender, mark: Mark) -> int:
        """How many packets were sealed since the sender's newest one; 0 where nobody can tell."""
        for order, other in (("little", "big"), ("big", "little")):
            if self.short_steps[order] >= 16 and not self.short_steps[other]:
                return nearest(steps(order, sender.suffix, mark.suffix), 2**32)
        return 0


def steps(order: str, earlier: bytes, later: bytes) -> int:
    return int.from_bytes(later, order) - int.from_bytes(earlier, order)


def nearest(distance: int, circle: int) -> int:
    """The nearer way round."""
    return (distance + circle // 2) % circle - circle // 2
