"""Arguments of every kind to what the package offers: a result that opens again, or an error that is documented."""

import array
import ctypes
from collections.abc import Callable
from typing import Any

from carving import Input

import dvcrypto
from dvcrypto import Mode, Opener, Packetizer, RtpExtension, RtpStream, Sealer

KEY = bytes(range(1, 33))
HEADER = bytes.fromhex("8078 0001 0000 03c0 0000 0d10")
DOCUMENTED = (ValueError, TypeError, BufferError, dvcrypto.DvcryptoError)
CALLS_MAX = 4


class Bytes(bytes):
    """No bytes by their exact type."""


class Index:
    """An integer by its __index__."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number


def released(data: bytes) -> memoryview:
    view = memoryview(data)
    view.release()
    return view


def buffer(given: Input) -> Any:
    """Bytes, in one of the forms that they come in; some of them refused."""
    data = given.take(given.length() % 1500)
    even = data[: len(data) // 8 * 8]
    makers: list[Callable[[], Any]] = [
        lambda: data,
        lambda: bytearray(data),
        lambda: memoryview(data),
        lambda: memoryview(bytearray(data))[1:],
        lambda: memoryview(data)[::2],
        lambda: memoryview(data)[::-1],
        lambda: memoryview(even).cast("H"),
        lambda: memoryview(even).cast("B", shape=(2, len(even) // 2)) if even else memoryview(data),
        lambda: memoryview(data).cast("c"),
        lambda: released(data),
        lambda: array.array("B", data),
        lambda: array.array("d", even),
        lambda: (ctypes.c_char * len(data)).from_buffer_copy(data),
        lambda: ctypes.c_uint64(len(data)),
        lambda: Bytes(data),
        lambda: HEADER + data,
        lambda: Sealer(Mode.AES256_GCM, KEY).seal(HEADER, data),
    ]
    return given.choose(makers)()


def anything(given: Input, depth: int = 2) -> Any:
    """A value of any kind."""
    number = given.number(2)
    makers: list[Callable[[], Any]] = [
        lambda: buffer(given),
        lambda: None,
        lambda: number,
        lambda: number << 48,
        lambda: -number,
        lambda: number / 7,
        lambda: bool(number & 1),
        lambda: Index(number),
        lambda: Index(1 << number % 70),
        lambda: chr(number),
        lambda: given.choose([*Mode, *Packetizer, "little", "big", "AV1", ""]),
        lambda: object(),
        lambda: RtpExtension(number, buffer(given)),
        lambda: RtpExtension(anything(given, depth - 1), anything(given, depth - 1)) if depth else number,
        lambda: [anything(given, depth - 1) for _ in range(number % 40)] if depth else [],
        lambda: tuple(buffer(given) for _ in range(number % 40)),
        lambda: iter([buffer(given) for _ in range(number % 5)]),
        lambda: dict.fromkeys(range(number % 5), number),
        lambda: list(given.take(32)),
    ]
    return given.choose(makers)()


def mostly(given: Input, right: Any) -> Any:
    return anything(given) if given.number() % 4 == 3 else right


def packets(given: Input) -> Any:
    return mostly(given, [mostly(given, HEADER + given.take(given.number() % 60)) for _ in range(given.number() % 6)])


class Bed:
    """What calls are made on."""

    def __init__(self, given: Input) -> None:
        self.given = given
        self.mode = given.choose(list(Mode))
        self.sealer = Sealer(self.mode, KEY, first_nonce=0xFFFF_FFC0)
        self.opener = Opener(self.mode, KEY)
        self.watchful = Opener(self.mode, KEY, replay_window=64)

    def make_sealer(self) -> None:
        given = self.given
        first, order = mostly(given, 5), mostly(given, "big")
        sealer = Sealer(mostly(given, self.mode), mostly(given, KEY), first_nonce=first, byteorder=order)
        assert sealer.packets_left == 2**32 - first.__index__()
        assert repr(sealer)

    def make_opener(self) -> None:
        given = self.given
        opener = Opener(mostly(given, self.mode), mostly(given, list(KEY)), replay_window=mostly(given, 64))
        assert sum(opener.stats) == 0
        assert repr(opener)

    def seal(self) -> None:
        header, payload = mostly(self.given, HEADER), buffer(self.given)
        sealed = self.sealer.seal(header, payload)
        assert self.opener.open(sealed).plain == bytes(header) + bytes(payload)
        assert all(view.c_contiguous and view.itemsize == 1 for view in (memoryview(header), memoryview(payload)))

    def seal_burst(self) -> None:
        plain = packets(self.given)
        if isinstance(plain, (list, tuple)):
            opened = self.opener.open_burst(self.sealer.seal_burst(plain))
            assert [packet.plain for packet in opened if packet] == [bytes(packet) for packet in plain]
        else:
            assert repr(self.sealer.seal_burst(plain))

    def seal_burst_into(self) -> None:
        plain, out = packets(self.given), mostly(self.given, bytearray(b"\xcc" * 600))
        before = bytes(out) if isinstance(out, bytearray) else None
        burst = self.sealer.seal_burst_into(plain, out)
        assert before is None or out[burst.offsets[-1] :] == before[burst.offsets[-1] :]

    def seal_in_place(self) -> None:
        """From the output itself, at any place of it."""
        out = bytearray(b"\xcc" * 100)
        start, size = self.given.number() % 40, self.given.number() % 60
        out[start : start + 12] = HEADER
        plain = bytes(out[start : start + size])
        burst = self.sealer.seal_burst_into([memoryview(out)[start : start + size]], out)
        assert start == 0 or start >= len(burst[0])
        assert self.opener.open(burst[0]).plain == plain

    def open(self) -> None:
        self._look_at(self.opener.open(mostly(self.given, buffer(self.given))))

    def open_burst(self) -> None:
        opener = self.given.choose([self.opener, self.watchful])
        burst = opener.open_burst(packets(self.given))
        for index, (packet, status) in enumerate(zip(burst, burst.statuses, strict=True)):
            assert (packet is None) == bool(burst.reason(index)) == (status not in {"ok", "empty"})
            if packet is not None:
                self._look_at(packet)
        assert repr(burst)

    def stream(self) -> None:
        given = self.given
        options = {
            "sequence": mostly(given, 65535),
            "timestamp": mostly(given, 7),
            "extension": mostly(given, None),
            "max_packet": mostly(given, 64),
            "picture_id": mostly(given, 0x7FFF),
        }
        stream = RtpStream(mostly(given, self.sealer), mostly(given, 1), mostly(given, 101), **options)
        if given.number() & 1:
            sealed = stream.seal(anything(given), marker=mostly(given, True), advance=mostly(given, 960))
            assert len(sealed) <= stream.max_packet
            return
        burst = stream.seal_frame(anything(given), packetizer=anything(given), advance=mostly(given, 960))
        opened = self.opener.open_burst(burst)
        assert all(opened)
        assert max(map(len, burst)) <= stream.max_packet

    def diagnose(self) -> None:
        given = self.given
        packet = mostly(given, buffer(given))
        diagnosis = dvcrypto.diagnose(packet, mostly(given, KEY), mode=mostly(given, None))
        assert b"".join(bytes(packet)[field.start : field.end] for field in diagnosis.fields) == bytes(packet)
        assert diagnosis.is_right or diagnosis.reason

    def choose_mode(self) -> None:
        offered = anything(self.given)
        if not isinstance(offered, memoryview):  # which has errors of its own when it is iterated
            dvcrypto.choose_mode(offered, prefer=mostly(self.given, None))

    @staticmethod
    def _look_at(packet: Any) -> None:
        head, payload = packet.rtcp_header if packet.is_rtcp else packet.header, packet.payload
        extension = packet.extension
        body = extension.data if extension else b""
        assert extension is None or all(value in body for value in extension.elements.values())
        assert head.version == 2
        assert body + payload in packet.plain
        assert repr(packet)


OPERATIONS = [value for name, value in vars(Bed).items() if callable(value) and not name.startswith("_")]


def run(data: bytes) -> None:
    """Make some calls. Only errors that are documented pass, and those of arguments use no nonce."""
    given = Input(data)
    bed = Bed(given)
    for _ in range(CALLS_MAX):
        left = bed.sealer.packets_left
        try:
            given.choose(OPERATIONS)(bed)
        except dvcrypto.DvcryptoError:
            pass
        except DOCUMENTED:
            assert bed.sealer.packets_left == left
