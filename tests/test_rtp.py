"""A stream's packets are RTP as RFC 3550 has it, and extensions are RFC 8285's, by parsers and bytes written here."""

import math
import random
import struct
import threading
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dvcrypto import Burst, Mode, OpenedPacket, Opener, RtcpHeader, RtpExtension, RtpHeader, RtpStream, Sealer, Status

KEY = bytes(range(32))
FIRST_NONCE = 0x8000_0000
PLAYOUT_DELAY = RtpExtension(0xBEDE, bytes.fromhex("52000000"))

MODES = pytest.mark.parametrize("mode", tuple(Mode), ids=lambda mode: mode.name)


class Parsed(NamedTuple):
    """An RTP packet, read bit by bit (RFC 3550, section 5.1)."""

    version: int
    padding: int
    extension: int
    csrc_count: int
    marker: int
    payload_type: int
    sequence: int
    timestamp: int
    ssrc: int
    profile: int | None
    body: bytes
    payload: bytes


def parse(packet: bytes) -> Parsed:
    bits = "".join(f"{byte:08b}" for byte in packet[:12])
    cuts = (0, 2, 3, 4, 8, 9, 16, 32, 64, 96)
    fields = [int(bits[start:end], 2) for start, end in pairwise(cuts)]
    version, padding, extension, csrc_count, marker, payload_type, sequence, timestamp, ssrc = fields
    rest = packet[12 + 4 * csrc_count :]
    fixed = (version, padding, extension, csrc_count, marker, payload_type, sequence, timestamp, ssrc)
    if not extension:
        return Parsed(*fixed, None, b"", rest)
    profile, words = rest[0] * 256 + rest[1], rest[2] * 256 + rest[3]
    return Parsed(*fixed, profile, rest[4 : 4 + 4 * words], rest[4 + 4 * words :])


def plain_of(mode: Mode, sealed: bytes | memoryview) -> bytes:
    return Opener(mode, KEY).open(sealed).plain


# Streams


@MODES
def test_a_stream_s_header_has_every_field(mode: Mode) -> None:
    stream = RtpStream(Sealer(mode, KEY), 0xDEADBEEF, 101, sequence=0xABCD, timestamp=0x12345678)
    assert parse(plain_of(mode, stream.seal(b"payload", marker=True, advance=960))) == Parsed(
        2, 0, 0, 0, 1, 101, 0xABCD, 0x12345678, 0xDEADBEEF, None, b"", b"payload"
    )
    assert parse(plain_of(mode, stream.seal(b"", advance=1))) == Parsed(
        2, 0, 0, 0, 0, 101, 0xABCE, 0x12345678 + 960, 0xDEADBEEF, None, b"", b""
    )
    assert (stream.sequence, stream.timestamp) == (0xABCF, 0x12345678 + 961)
    assert (stream.ssrc, stream.payload_type, stream.max_packet) == (0xDEADBEEF, 101, 1200)
    assert repr(stream) == f"<dvcrypto.RtpStream ssrc={0xDEADBEEF} payload_type=101 sequence=43983 timestamp=305420857>"


@MODES
def test_a_stream_s_packets_are_what_the_sealer_seals(mode: Mode) -> None:
    stream = RtpStream(Sealer(mode, KEY), 7, 120, sequence=9, timestamp=960, extension=PLAYOUT_DELAY)
    header = struct.pack("!BBHII", 0x90, 120, 9, 960, 7) + bytes.fromhex("bede0001")
    assert stream.seal(b"payload") == Sealer(mode, KEY).seal(header, PLAYOUT_DELAY.data + b"payload")


@MODES
def test_sequence_and_timestamp_wrap_and_the_ssrc_stays(mode: Mode) -> None:
    stream = RtpStream(Sealer(mode, KEY), 2**32 - 1, 127, sequence=65534, timestamp=2**32 - 960)
    parsed = [parse(plain_of(mode, stream.seal(b"x", advance=960))) for _ in range(4)]
    assert [packet.sequence for packet in parsed] == [65534, 65535, 0, 1]
    assert [packet.timestamp for packet in parsed] == [2**32 - 960, 0, 960, 1920]
    assert {packet.ssrc for packet in parsed} == {2**32 - 1}
    assert (stream.sequence, stream.timestamp) == (2, 2880)
    stream.seal(b"", advance=2**32 - 1)
    assert stream.timestamp == 2879


@MODES
def test_a_frame_s_sequence_numbers_wrap_in_its_middle(mode: Mode) -> None:
    stream = RtpStream(Sealer(mode, KEY), 1, 101, sequence=65534, max_packet=100)
    burst = stream.seal_frame(bytes(68 * 4), advance=3000)
    assert [parse(plain_of(mode, packet)).sequence for packet in burst] == [65534, 65535, 0, 1]
    assert (stream.sequence, stream.timestamp) == (2, 3000)


@MODES
@pytest.mark.parametrize(
    "extension",
    [
        RtpExtension(0xBEDE, b""),
        RtpExtension.of({}),
        PLAYOUT_DELAY,
        RtpExtension.of({1: b"a", 2: bytes(16)}),
        RtpExtension.of({200: b"", 3: bytes(255)}, two_byte=True),
        RtpExtension(0x1234, bytes(range(40))),
        RtpExtension(0, bytes(4)),
    ],
)
def test_an_extension_goes_into_every_packet(mode: Mode, extension: RtpExtension) -> None:
    sealer, opener = Sealer(mode, KEY), Opener(mode, KEY)
    stream = RtpStream(sealer, 1, 120, extension=extension, max_packet=500)
    assert stream.extension == extension
    sealed = [stream.seal(b"alone"), *stream.seal_frame(b"f" * 1000).tolist()]
    assert len(sealed) >= 4
    for packet in sealed:
        parsed, opened = parse(plain_of(mode, packet)), opener.open(packet)
        assert (parsed.extension, parsed.profile, parsed.body) == (1, extension.profile, extension.data)
        assert opened.extension == extension
        assert opened.extension.elements == extension.elements
        assert opened.payload == parsed.payload
        assert len(packet) <= 500
    assert b"".join(parse(plain_of(mode, packet)).payload for packet in sealed[1:]) == b"f" * 1000


def test_an_extension_is_copied_and_outlives_its_source() -> None:
    body = bytearray(b"\x52abc")
    stream = RtpStream(Sealer(Mode.AES256_GCM, KEY), 1, 120, extension=RtpExtension(0xBEDE, body))  # type: ignore[arg-type]
    body[:] = b"\0\0\0\0"
    body.clear()
    assert parse(plain_of(Mode.AES256_GCM, stream.seal(b""))).body == b"\x52abc"


@MODES
@pytest.mark.parametrize("max_packet", [33, 34, 100, 1200, 65535])
@pytest.mark.parametrize("extension", [None, PLAYOUT_DELAY])
def test_a_frame_is_cut_into_equal_packets_and_a_last_one_with_the_marker(
    mode: Mode, max_packet: int, extension: RtpExtension | None
) -> None:
    if extension:
        max_packet = max(max_packet, 41)
    room = max_packet - 32 - (8 if extension else 0)
    for frame_len in (0, 1, room - 1, room, room + 1, 2 * room, 2 * room + 1, 5 * room - 1):
        frame = random.Random(frame_len).randbytes(frame_len)
        sealer = Sealer(mode, KEY)
        stream = RtpStream(sealer, 5, 101, sequence=100, timestamp=200, extension=extension, max_packet=max_packet)
        burst = stream.seal_frame(frame, advance=3000)
        count = max(1, math.ceil(frame_len / room))
        assert isinstance(burst, Burst)
        assert len(burst) == count
        assert [len(packet) for packet in burst[:-1]] == [max_packet] * (count - 1)
        assert len(burst[-1]) == max_packet - room + frame_len - room * (count - 1)
        assert burst.offsets == (*range(0, max_packet * count, max_packet), burst.buffer.nbytes)
        assert bytes(burst.buffer) == b"".join(burst)
        parsed = [parse(plain_of(mode, packet)) for packet in burst]
        assert b"".join(packet.payload for packet in parsed) == frame
        assert [packet.marker for packet in parsed] == [0] * (count - 1) + [1]
        assert [packet.sequence for packet in parsed] == list(range(100, 100 + count))
        for index, packet in enumerate(parsed):
            assert (packet.version, packet.payload_type, packet.timestamp, packet.ssrc) == (2, 101, 200, 5)
            assert burst[index][-4:] == (FIRST_NONCE + index).to_bytes(4, "little")
        assert (stream.sequence, stream.timestamp, sealer.packets_left) == (100 + count, 3200, 2**31 - count)


@MODES
def test_streams_share_a_sealer_and_count_for_themselves(mode: Mode) -> None:
    sealer = Sealer(mode, KEY)
    audio, video = RtpStream(sealer, 1, 120), RtpStream(sealer, 2, 101, sequence=500)
    sealed = []
    for _ in range(5):
        sealed += [audio.seal(b"a", advance=960), *video.seal_frame(bytes(2000), advance=3000).tolist()]
    parsed = [parse(plain_of(mode, packet)) for packet in sealed]
    assert [packet.sequence for packet in parsed if packet.ssrc == 1] == list(range(5))
    assert [packet.sequence for packet in parsed if packet.ssrc == 2] == list(range(500, 510))
    assert [int.from_bytes(packet[-4:], "little") - FIRST_NONCE for packet in sealed] == list(range(15))
    assert (audio.timestamp, video.timestamp) == (4800, 15000)


@MODES
def test_threads_sharing_a_stream_use_no_sequence_number_twice(mode: Mode) -> None:
    stream, made = RtpStream(Sealer(mode, KEY), 1, 120), list[bytes]()
    barrier = threading.Barrier(2)

    def seal() -> None:
        barrier.wait()
        for _ in range(100):
            made.extend(stream.seal_frame(bytes(40_000), advance=10).tolist())
            made.append(stream.seal(b"x", advance=10))

    threads = [threading.Thread(target=seal) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened = Opener(mode, KEY).open_burst(made)
    assert set(opened.statuses) == {Status.OK}
    assert sorted(packet.header.sequence for packet in opened if packet) == list(range(len(made)))
    assert len({packet[-4:] for packet in made}) == len(made)
    assert (stream.sequence, stream.timestamp) == (len(made), 4000)


def test_a_stream_keeps_its_sealer_alive() -> None:
    stream = RtpStream(Sealer(Mode.AES256_GCM, KEY), 1, 120)
    assert parse(plain_of(Mode.AES256_GCM, stream.seal(b"alive"))).payload == b"alive"


def test_a_stream_wants_a_sealer() -> None:
    for junk in (None, KEY, Opener(Mode.AES256_GCM, KEY)):
        with pytest.raises(TypeError, match="sealer"):
            RtpStream(junk, 1, 120)  # type: ignore[arg-type]


def test_what_a_stream_is_cannot_be_set() -> None:
    stream = RtpStream(Sealer(Mode.AES256_GCM, KEY), 1, 120, extension=PLAYOUT_DELAY)
    for name in ("ssrc", "payload_type", "sequence", "timestamp", "max_packet", "extension"):
        with pytest.raises(AttributeError):
            setattr(stream, name, None)


@settings(deadline=None, max_examples=80)
@given(
    mode=st.sampled_from(Mode),
    ssrc=st.integers(0, 2**32 - 1),
    payload_type=st.integers(0, 127).filter(lambda n: not 64 <= n <= 95),  # those are RTCP's with the marker, RFC 5761
    sequence=st.integers(0, 65535),
    timestamp=st.integers(0, 2**32 - 1),
    frame=st.binary(max_size=400),
    max_packet=st.integers(60, 300),
    advance=st.integers(0, 2**32 - 1),
)
def test_any_frame_of_any_stream_opens_as_it_was(
    mode: Mode, ssrc: int, payload_type: int, sequence: int, timestamp: int, frame: bytes, max_packet: int, advance: int
) -> None:
    stream = RtpStream(
        Sealer(mode, KEY), ssrc, payload_type, sequence=sequence, timestamp=timestamp, max_packet=max_packet
    )
    burst = Opener(mode, KEY).open_burst(stream.seal_frame(frame, advance=advance))
    packets: list[OpenedPacket] = [packet for packet in burst if packet]
    assert len(packets) == len(burst)
    assert b"".join(packet.payload for packet in packets) == frame
    for index, packet in enumerate(packets):
        marker = index == len(packets) - 1
        number = (sequence + index) % 65536
        assert packet.header == RtpHeader(2, False, marker, payload_type, number, timestamp, ssrc, ())
    assert (stream.sequence, stream.timestamp) == ((sequence + len(packets)) % 65536, (timestamp + advance) % 2**32)


# Headers


def test_an_rtp_header_is_read_from_its_bits() -> None:
    packet = bytes.fromhex("a2e5 fffe 01020304 05060708 0000000a 0000000b") + b"payload"
    expected = RtpHeader(2, True, True, 101, 65534, 0x01020304, 0x05060708, (10, 11))
    assert RtpHeader.read(packet) == RtpHeader.read(memoryview(packet)) == expected
    assert RtpHeader.read(bytes.fromhex("807f 0000 00000000 00000000")) == RtpHeader(2, False, False, 127, 0, 0, 0, ())


def test_an_rtcp_header_is_read_from_its_bits() -> None:
    packet = bytes.fromhex("bfcb 0102 01020304")
    assert RtcpHeader.read(packet) == RtcpHeader.read(memoryview(packet)) == (2, True, 31, 203, 0x0102, 0x01020304)


# Extensions


@pytest.mark.parametrize(
    ("elements", "data"),
    [
        ({}, ""),
        ({1: b"\x7f"}, "107f0000"),
        ({5: b"\x01\x02\x03"}, "52010203"),
        ({14: bytes(16)}, "ef" + "00" * 16 + "000000"),
        ({3: b"\xaa", 1: b"\xbb\xcc"}, "30aa11bbcc000000"),
    ],
)
def test_one_byte_extensions_are_rfc_8285_s(elements: dict[int, bytes], data: str) -> None:
    extension = RtpExtension.of(elements)
    assert extension == (0xBEDE, bytes.fromhex(data))
    assert list(extension.elements.items()) == list(elements.items())


@pytest.mark.parametrize(
    ("elements", "data"),
    [
        ({}, ""),
        ({1: b""}, "01000000"),
        ({255: b"\x7f"}, "ff017f00"),
        ({15: b"ab", 16: b""}, "0f02616210000000"),
        ({7: bytes(255)}, "07ff" + "00" * 255 + "000000"),
    ],
)
def test_two_byte_extensions_are_rfc_8285_s(elements: dict[int, bytes], data: str) -> None:
    extension = RtpExtension.of(elements, two_byte=True)
    assert extension == (0x1000, bytes.fromhex(data))
    assert list(extension.elements.items()) == list(elements.items())


@pytest.mark.parametrize(
    ("profile", "data", "elements"),
    [
        (0xBEDE, "10 7f 000000 20 7e 00", {1: b"\x7f", 2: b"\x7e"}),  # padding between elements
        (0xBEDE, "10 7f f0 20 7e 000000", {1: b"\x7f"}),  # id 15 stops the reading (RFC 8285, section 4.2)
        (0xBEDE, "f0 10 7f 00", {}),
        (0xBEDE, "10 7f 23 01 0203 0000", {1: b"\x7f", 2: bytes.fromhex("01020300")}),
        (0xBEDE, "10 7f 27 01 0203 0405", {1: b"\x7f"}),  # an element that runs past the end
        (0xBEDE, "1f 000000", {}),
        (0xBEDE, "10 01 10 02", {1: b"\x02"}),  # an id that comes twice
        (0xBEDE, "00000000", {}),
        (0xBEDE, "00 10 7f 20", {1: b"\x7f"}),  # a header without its byte
        (0x1000, "01 00 02 01 7f 00 03 00", {1: b"", 2: b"\x7f", 3: b""}),
        (0x1000, "01 01 7f 02", {1: b"\x7f"}),  # a header cut in two
        (0x1000, "01 01 7f 02 05 010203", {1: b"\x7f"}),
        (0x1000, "00000000", {}),
        (0x100F, "01 01 7f 00", {1: b"\x7f"}),  # the low 4 bits are the application's
        (0x1010, "01 01 7f 00", {}),
        (0x0000, "10 7f 0000", {}),
        (0xBEDF, "10 7f 0000", {}),
    ],
)
def test_elements_are_read_as_rfc_8285_has_them(profile: int, data: str, elements: dict[int, bytes]) -> None:
    assert RtpExtension(profile, bytes.fromhex(data)).elements == elements


@pytest.mark.parametrize(
    ("elements", "two_byte", "message"),
    [
        ({0: b"x"}, False, "id is 0; in the one-byte form it is from 1 to 14"),
        ({15: b"x"}, False, "id is 15; in the one-byte form it is from 1 to 14"),
        ({-1: b"x"}, False, "id is -1; in the one-byte form it is from 1 to 14"),
        ({1: b""}, False, "element 1 is 0 bytes; in the one-byte form it has from 1 to 16"),
        ({1: bytes(17)}, False, "element 1 is 17 bytes; in the one-byte form it has from 1 to 16"),
        ({0: b"x"}, True, "id is 0; in the two-byte form it is from 1 to 255"),
        ({256: b"x"}, True, "id is 256; in the two-byte form it is from 1 to 255"),
        ({1: bytes(256)}, True, "element 1 is 256 bytes; in the two-byte form it has from 0 to 255"),
    ],
)
def test_an_element_that_the_form_does_not_hold_is_told(
    elements: dict[int, bytes], two_byte: bool, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RtpExtension.of(elements, two_byte=two_byte)


@settings(deadline=None, max_examples=100)
@given(elements=st.dictionaries(st.integers(1, 14), st.binary(min_size=1, max_size=16)))
def test_one_byte_elements_read_as_they_were_written(elements: dict[int, bytes]) -> None:
    extension = RtpExtension.of(elements)
    assert extension.elements == elements
    assert len(extension.data) % 4 == 0


@settings(deadline=None, max_examples=100)
@given(elements=st.dictionaries(st.integers(1, 255), st.binary(max_size=255), max_size=20))
def test_two_byte_elements_read_as_they_were_written(elements: dict[int, bytes]) -> None:
    extension = RtpExtension.of(elements, two_byte=True)
    assert extension.elements == elements
    assert len(extension.data) % 4 == 0


@settings(deadline=None, max_examples=200)
@given(profile=st.sampled_from([0xBEDE, 0x1000, 0x1007]), data=st.binary(max_size=60))
def test_arbitrary_extension_bytes_are_read_without_an_error(profile: int, data: bytes) -> None:
    for number, element in RtpExtension(profile, data).elements.items():
        assert 1 <= number <= (14 if profile == 0xBEDE else 255)
        assert element in data
