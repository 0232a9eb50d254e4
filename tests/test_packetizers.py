"""What a packetizer cuts, other people's depacketizers put together again, on real encoded video.

FFmpeg reads the plain RTP over loopback, GStreamer from a file; aiortc takes H.264 and VP8 apart. What they do not look
at (descriptor bits, picture IDs) is checked bit by bit against the documents that are cited.
"""

import itertools
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ports import free_ports

from dvcrypto import Mode, NonceExhausted, Opener, Packetizer, RtpExtension, RtpStream, Sealer

av = pytest.importorskip("av", reason="PyAV encodes and depacketizes")
encoded = pytest.importorskip("encoded", reason="PyAV makes the frames")

KEY = bytes(range(32))
PLAYOUT_DELAY = RtpExtension(0xBEDE, bytes.fromhex("52000000"))
VIDEO = ("h264", "h265", "vp8", "vp9", "vp9-superframes", "av1")
EMPTY_REPORT = struct.pack("!BBHI", 0x80, 201, 1, 0x5678)  # RTCP: a receiver of nothing (RFC 3550, section 6.4.2)
BUFFERED = 100_000  # bytes that wait for FFmpeg at most: the buffer that systems give a socket holds twice as many
OVERHEAD = 32  # of a packet without an extension: header, tag, nonce


def codec_of(name: str) -> str:
    return name.split("-", maxsplit=1)[0]


def frames_of(name: str) -> list[bytes]:
    return list(encoded.opus()) if name == "opus" else [frame.data for frame in encoded.video(name)]


def make_stream(**options: Any) -> RtpStream:
    return RtpStream(Sealer(Mode.AES256_GCM, KEY), 0x1234, 101, **options)


def seal_and_open(stream: RtpStream, frame: bytes, packetizer: str, advance: int = 3000) -> list[Any]:
    """The opened packets of a frame, once what every packetizer promises has been checked."""
    sequence, timestamp = stream.sequence, stream.timestamp
    burst = stream.seal_frame(frame, packetizer=packetizer, advance=advance)
    packets = list(Opener(Mode.AES256_GCM, KEY).open_burst(burst))
    count = len(packets)
    assert all(packets)
    assert max(len(packet) for packet in burst) <= stream.max_packet
    assert bytes(burst.buffer) == b"".join(burst)
    assert [packet.header.sequence for packet in packets] == [(sequence + i) % 65536 for i in range(count)]
    assert [packet.header.marker for packet in packets] == [False] * (count - 1) + [True]
    assert {packet.header.timestamp for packet in packets} == {timestamp}
    assert [packet.extension for packet in packets] == [stream.extension] * count
    nonces = [int.from_bytes(packet.nonce[:4], "little") for packet in packets]
    assert nonces == list(range(nonces[0], nonces[0] + count))
    assert stream.sequence == (sequence + count) % 65536
    assert stream.timestamp == (timestamp + advance) % 2**32
    return packets


def payloads(stream: RtpStream, frame: bytes, packetizer: str) -> list[bytes]:
    return [packet.payload for packet in seal_and_open(stream, frame, packetizer)]


def nal_units(annex_b: bytes) -> list[bytes]:
    """The NAL units of a byte stream (ITU-T H.264, annex B)."""
    units = [unit.rstrip(b"\0") for unit in re.split(b"\0\0\1", annex_b)]
    assert units[0] == b""
    return units[1:]


def without_delimiters(codec: str, units: list[bytes]) -> list[bytes]:
    delimiter = {"h264": b"\x09", "h265": b"\x46"}[codec]
    return [unit for unit in units if unit[:1] != delimiter]


# Other people's depacketizers


class Listener(threading.Thread):
    """FFmpeg, reading RTP from loopback until an RTCP BYE."""

    def __init__(self, folder: Path, codec: str, packetizer_port: int, extra: str = "") -> None:
        super().__init__(daemon=True)
        kind, rate = ("audio", "48000/2") if codec == "opus" else ("video", "90000")
        self._file = folder / f"{codec}.sdp"
        self._file.write_text(
            "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
            f"m={kind} {packetizer_port} RTP/AVP 101\r\na=rtpmap:101 {codec.upper()}/{rate}\r\n{extra}"
        )
        self.units: list[bytes] = []
        self.pictures: list[bytes] = []
        self.error: Exception | None = None

    def run(self) -> None:
        options = {"protocol_whitelist": "file,udp,rtp", "reorder_queue_size": "0"}
        try:
            with av.open(str(self._file), format="sdp", options=options, timeout=(20, 20)) as container:
                for packet in container.demux():
                    if packet.size:
                        self.units.append(bytes(packet))
                    decoded = packet.decode()
                    if packet.stream.type == "video":
                        self.pictures += map(encoded.content, decoded)
        except Exception as error:
            self.error = error


def bytes_waiting(port: int) -> int | None:
    """In the UDP socket that has the port, in memory; None where there is none. Only Linux tells."""
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        _, local, _, _, queues, *_ = line.split()
        if int(local.rpartition(":")[2], 16) == port:
            return int(queues.rpartition(":")[2], 16)
    return None


def start_listening(folder: Path, codec: str) -> tuple[Listener, int]:
    """FFmpeg ends at once where a port of its has gone to somebody else in the meantime."""
    extra = "a=fmtp:101 packetization-mode=1\r\n" if codec == "h264" else ""
    for _ in range(5):
        port, port_of_rtcp = free_ports(2)
        listener = Listener(folder, codec, port, extra)
        listener.start()
        while listener.is_alive():
            if bytes_waiting(port_of_rtcp) is not None:  # it is opened last
                return listener, port
            time.sleep(0.01)
    raise AssertionError("FFmpeg does not listen") from listener.error


def in_ffmpeg_s_form(codec: str, packet: Any) -> bytes:
    """The plain packet; VP9 not in flexible mode, since FFmpeg 8 takes P_DIFF (RFC 9628, section 4.2) for payload."""
    if codec != "vp9":
        return packet.plain
    header, payload = packet.plain[: -len(packet.payload)], packet.payload
    assert payload[0] & 0x10
    return header + bytes([payload[0] & ~0x10]) + payload[1:3] + payload[4 if payload[0] & 0x40 else 3 :]


def read_by_ffmpeg(folder: Path, codec: str, stream: RtpStream, frames: list[bytes], advance: int) -> Listener:
    if not Path("/proc/net/udp").exists():
        pytest.skip("this system does not tell whether FFmpeg keeps up")
    listener, port = start_listening(folder, codec)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for packet in (packet for frame in frames for packet in seal_and_open(stream, frame, codec, advance)):
            while (bytes_waiting(port) or 0) > BUFFERED:
                time.sleep(0.001)
            sender.sendto(in_ffmpeg_s_form(codec, packet), ("127.0.0.1", port))
        bye = struct.pack("!BBHI", 0x81, 203, 1, stream.ssrc)
        while listener.is_alive():
            sender.sendto(EMPTY_REPORT + bye, ("127.0.0.1", port))
            listener.join(0.1)
    assert listener.error is None or isinstance(listener.error, EOFError), listener.error
    return listener


@pytest.mark.parametrize("extension", [None, PLAYOUT_DELAY], ids=["plain", "extension"])
@pytest.mark.parametrize("name", VIDEO)
def test_ffmpeg_reads_what_was_encoded(name: str, extension: RtpExtension | None, tmp_path: Path) -> None:
    codec, frames = codec_of(name), frames_of(name)
    stream = make_stream(sequence=65500, picture_id=32760, extension=extension, max_packet=1200 if extension else 700)
    read = read_by_ffmpeg(tmp_path, codec, stream, frames, 3000)
    expected = encoded.decode(codec, frames)
    assert len(expected) == encoded.PICTURES
    assert len(read.pictures) == len(expected)
    assert read.pictures == expected
    if codec in ("h264", "h265"):
        sent = without_delimiters(codec, nal_units(b"".join(frames)))
        assert nal_units(b"".join(read.units)) == sent
    elif codec in ("vp8", "vp9"):
        assert b"".join(read.units) == b"".join(frames)


def test_ffmpeg_reads_opus(tmp_path: Path) -> None:
    frames = frames_of("opus")
    read = read_by_ffmpeg(tmp_path, "opus", make_stream(sequence=65500), frames, 960)
    assert read.units == frames


GSTREAMER = {
    "h264": ("H264", "rtph264depay ! video/x-h264,stream-format=byte-stream,alignment=au"),
    "h265": ("H265", "rtph265depay ! video/x-h265,stream-format=byte-stream,alignment=au"),
    "vp8": ("VP8", "rtpvp8depay"),
    "vp9": ("VP9", "rtpvp9depay"),
    "av1": ("AV1", "rtpav1depay ! video/x-av1,stream-format=obu-stream,alignment=tu"),
}


def gstreamer_has(element: str) -> bool:
    tool = shutil.which("gst-inspect-1.0")
    return bool(tool) and subprocess.run([tool, "--exists", element], check=False).returncode == 0


@pytest.mark.parametrize("max_packet", [80, 1200])
@pytest.mark.parametrize("name", VIDEO)
def test_gstreamer_reads_what_was_encoded(name: str, max_packet: int, tmp_path: Path) -> None:
    codec, frames = codec_of(name), frames_of(name)
    encoding, elements = GSTREAMER[codec]
    if not gstreamer_has(elements.split()[0]) or not gstreamer_has("rtpstreamdepay"):
        pytest.skip(f"GStreamer's {elements.split()[0]} is not installed (Debian: gstreamer1.0-plugins-good, -tools)")
    stream = make_stream(max_packet=max_packet, sequence=65500, picture_id=32760)
    with (tmp_path / "packets").open("wb") as file:  # RFC 4571: each packet behind its length
        for frame in frames:
            for packet in seal_and_open(stream, frame, codec):
                file.write(struct.pack("!H", len(packet.plain)) + packet.plain)
    caps = f"application/x-rtp-stream,media=video,encoding-name={encoding},clock-rate=90000,payload=101"
    pipeline = (
        f"filesrc location={tmp_path}/packets ! {caps} ! rtpstreamdepay ! {elements} ! "
        f"multifilesink location={tmp_path}/%05d.frame"
    )
    subprocess.run(["gst-launch-1.0", "-q", *pipeline.split()], check=True, timeout=120)
    read = [path.read_bytes() for path in sorted(tmp_path.glob("*.frame"))]
    assert encoded.decode(codec, read) == encoded.decode(codec, frames)
    if codec in ("h264", "h265"):
        sent = without_delimiters(codec, nal_units(b"".join(frames)))
        assert nal_units(b"".join(read)) == sent
    elif codec != "av1":
        assert read == frames


@pytest.mark.parametrize("max_packet", [50, 300, 1200])
def test_aiortc_reads_h264(max_packet: int) -> None:
    h264 = pytest.importorskip("aiortc.codecs.h264")
    stream, sent, read = make_stream(max_packet=max_packet), list[bytes](), b""
    for frame in frames_of("h264"):
        sent += without_delimiters("h264", nal_units(frame))
        for payload in payloads(stream, frame, "h264"):
            descriptor, output = h264.H264PayloadDescriptor.parse(payload)
            assert descriptor.first_fragment == output.startswith(b"\0\0\0\1")
            read += output
    assert nal_units(read) == sent


@pytest.mark.parametrize("max_packet", [50, 300, 1200])
def test_aiortc_reads_vp8(max_packet: int) -> None:
    vpx = pytest.importorskip("aiortc.codecs.vpx")
    stream = make_stream(max_packet=max_packet, picture_id=0x7FF0)
    for number, frame in enumerate(frames_of("vp8")):
        read = b""
        for index, payload in enumerate(payloads(stream, frame, "vp8")):
            descriptor, output = vpx.VpxPayloadDescriptor.parse(payload)
            assert descriptor.partition_start == (index == 0)
            assert descriptor.partition_id == 0
            assert descriptor.picture_id == (0x7FF0 + number) % 0x8000
            assert (descriptor.tl0picidx, descriptor.tid, descriptor.keyidx) == (None, None, None)
            read += output
        assert read == frame


# Bit by bit


def read_nal(codec: str, packets: list[bytes]) -> list[bytes]:
    """The NAL units of single packets and fragmentation units (RFC 6184, section 5.8; RFC 7798, section 4.4.3)."""
    units, open_unit = list[bytes](), False
    for packet in packets:
        kind = packet[0] & 31 if codec == "h264" else packet[0] >> 1 & 63
        if kind != {"h264": 28, "h265": 49}[codec]:
            assert not open_unit
            units.append(packet)
            continue
        if codec == "h264":
            header, fragment, rest = bytes([packet[0] & 0xE0 | packet[1] & 31]), packet[1] & 0xE0, packet[2:]
        else:
            header, fragment, rest = bytes([packet[0] & 0x81 | (packet[2] & 63) << 1, packet[1]]), packet[2], packet[3:]
        start, end = bool(fragment & 0x80), bool(fragment & 0x40)
        assert not (start and end)
        assert start != open_unit
        assert rest
        units = [*units, header + rest] if start else [*units[:-1], units[-1] + rest]
        open_unit = not end
    assert not open_unit
    return units


def read_obus(packets: list[bytes]) -> list[bytes]:
    """The OBUs of packets with one element each (AV1 RTP payload format, section 4.4)."""
    obus, continues = list[bytes](), False
    for packet in packets:
        assert (packet[0] >> 4 & 3, packet[0] & 7) == (1, 0)  # W, reserved
        assert bool(packet[0] & 0x80) == continues
        obus = [*obus[:-1], obus[-1] + packet[1:]] if continues else [*obus, packet[1:]]
        continues = bool(packet[0] & 0x40)
    assert not continues
    return obus


def low_overhead(obus: list[bytes]) -> bytes:
    """OBUs with their sizes (AV1 bitstream specification, section 5.3.1)."""
    written = b""
    for obu in obus:
        header_len = 2 if obu[0] & 4 else 1
        size, left = b"", len(obu) - header_len
        while left > 127:
            size, left = size + bytes([left & 127 | 128]), left >> 7
        written += bytes([obu[0] | 2]) + obu[1:header_len] + size + bytes([left]) + obu[header_len:]
    return written


@pytest.mark.parametrize("max_packet", [36, 37, 60, 1200, 65535])
@pytest.mark.parametrize("codec", ["h264", "h265"])
def test_nal_units_are_whole_at_every_room(codec: str, max_packet: int) -> None:
    stream = make_stream(max_packet=max_packet)
    for frame in frames_of(codec)[:: 1 if max_packet > 100 else 8]:
        assert read_nal(codec, payloads(stream, frame, codec)) == without_delimiters(codec, nal_units(frame))


@pytest.mark.parametrize("max_packet", [36, 60, 1200, 65535])
def test_av1_has_its_obus_and_marks_new_sequences(max_packet: int) -> None:
    stream, keys = make_stream(max_packet=max_packet), 0
    for frame in encoded.video("av1"):
        packets = payloads(stream, frame.data, "av1")
        assert frame.data[:2] == b"\x12\x00"  # the temporal delimiter
        assert low_overhead(read_obus(packets)) == frame.data[2:]
        assert [bool(packet[0] & 8) for packet in packets] == [frame.is_key] + [False] * (len(packets) - 1)
        keys += frame.is_key
    assert keys == 3


@pytest.mark.parametrize("max_packet", [37, 60, 1200, 65535])
@pytest.mark.parametrize("name", ["vp9", "vp9-superframes"])
def test_vp9_descriptors_are_rfc_9628_s(name: str, max_packet: int) -> None:
    stream, superframes = make_stream(max_packet=max_packet, picture_id=0x7FF0), 0
    for number, frame in enumerate(encoded.video(name)[: None if max_packet > 100 else 12]):
        packets = payloads(stream, frame.data, "vp9")
        picture = struct.pack("!H", 0x8000 | (0x7FF0 + number) % 0x8000)
        predicted = 0 if frame.is_key else 0x40
        descriptor_len = 3 if frame.is_key else 4
        for index, packet in enumerate(packets):
            first, last = 8 * (index == 0), 4 * (index == len(packets) - 1)
            assert packet[0] == 0x90 | predicted | first | last
            assert packet[1:descriptor_len] == picture + (b"" if frame.is_key else b"\x02")
        assert b"".join(packet[descriptor_len:] for packet in packets) == frame.data
        superframes += frame.data[-1] >> 5 == 6
    assert (superframes > 0) == (name == "vp9-superframes")


def test_opus_is_one_packet_and_never_cut() -> None:
    longest = max(map(len, frames_of("opus")))
    stream = make_stream(max_packet=OVERHEAD + longest)
    for frame in frames_of("opus"):
        assert payloads(stream, frame, "opus") == [frame]
    told = f"frame is {longest + 1} bytes; it goes into one packet, and max_packet leaves room for {longest}"
    with pytest.raises(ValueError, match=f"^{told}$"):
        stream.seal_frame(bytes(longest + 1), packetizer="opus")


# Edges


def unit_of(codec: str, length: int) -> bytes:
    header = {"h264": b"\x65", "h265": b"\x26\x01"}[codec]
    return (header + b"\xab" * length)[:length]


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize("room", [4, 5, 20, 100])
def test_a_unit_that_just_fits_is_one_packet(codec: str, room: int) -> None:
    stream = make_stream(max_packet=OVERHEAD + room)
    prefix_len, header_len = {"h264": (2, 1), "h265": (3, 2)}[codec]
    for length in range(header_len, 4 * room):
        unit = unit_of(codec, length)
        packets = payloads(stream, b"\0\0\1" + unit, codec)
        if length <= room:
            assert packets == [unit]
        else:
            assert len(packets) == -(-(length - header_len) // (room - prefix_len)) >= 2
            assert [len(packet) for packet in packets[:-1]] == [room] * (len(packets) - 1)
        assert read_nal(codec, packets) == [unit]


@pytest.mark.parametrize(
    ("frame", "units"),
    [
        ("000001 65", ["65"]),
        ("00000001 65", ["65"]),
        ("000000000001 6588", ["6588"]),
        ("000001 6588 0000", ["6588"]),
        ("00000001 67aa 00000001 68bb 000001 65cc", ["67aa", "68bb", "65cc"]),
        ("000001 67aa 00 000001 68bb 000000 000001 65cc 000000", ["67aa", "68bb", "65cc"]),
        ("000001 6500000301 000001 6501", ["6500000301", "6501"]),  # emulation prevention stays
        ("000001 650001 000001 6501", ["650001", "6501"]),
        ("000001 65010101 000001 41", ["65010101", "41"]),
        ("000001 6501 000001 41", ["6501", "41"]),
        ("000001 09f0 000001 41", ["41"]),
        ("00000001 41 00000001 09f0", ["41"]),  # the marker is on the last packet that is sent
        ("000001 0cff 000001 41", ["0cff", "41"]),  # filler stays
    ],
)
def test_start_codes_of_every_kind(frame: str, units: list[str]) -> None:
    assert payloads(make_stream(), bytes.fromhex(frame), "h264") == list(map(bytes.fromhex, units))


def test_h265_drops_its_own_delimiter_alone() -> None:
    frame = bytes.fromhex("00000001 460150 000001 4201aa 000001 0901bb")
    assert payloads(make_stream(), frame, "h265") == [bytes.fromhex("4201aa"), bytes.fromhex("0901bb")]


@pytest.mark.parametrize(
    ("frame", "packets"),
    [
        ("1200 3203aabbcc", ["10 30aabbcc"]),
        ("1200 3203aabbcc 1200", ["10 30aabbcc"]),
        ("1200 30aabbcc", ["10 30aabbcc"]),  # the last OBU may have no size
        ("36 28 03 aabbcc", ["10 34 28 aabbcc"]),  # an extension header
        ("32 83808000 aabbcc", ["10 30aabbcc"]),  # a size longer than needed
        ("0a01 00 3201 10", ["18 08 00", "10 30 10"]),
        ("0a01 00 0a01 00 3201 10", ["18 08 00", "10 08 00", "10 30 10"]),  # twice
        ("0a01 00 3201 00", ["10 08 00", "10 30 00"]),  # a key frame that is not shown
        ("0a01 00 3201 30", ["10 08 00", "10 30 30"]),  # an inter frame
        ("0a01 00 3201 90", ["10 08 00", "10 30 90"]),  # shows an earlier frame
        ("0a01 08 3201 ff", ["18 08 08", "10 30 ff"]),  # reduced_still_picture_header
        ("3201 10", ["10 30 10"]),  # no sequence header
        ("0a01 00 1a01 10", ["18 08 00", "10 18 10"]),
        ("4201 aa 3201 10", ["10 30 10"]),  # a tile list
        ("7a00 3201 10", ["10 78", "10 30 10"]),  # an OBU without a body
    ],
)
def test_obus_of_every_kind(frame: str, packets: list[str]) -> None:
    assert payloads(make_stream(), bytes.fromhex(frame), "av1") == list(map(bytes.fromhex, packets))


def test_av1_is_cut_behind_an_extension_header() -> None:
    stream = make_stream(max_packet=OVERHEAD + 5)
    packets = payloads(stream, bytes.fromhex("36 28 07 01020304050607"), "av1")
    assert packets == [bytes.fromhex(one) for one in ("50 34 28 0102", "d0 03040506", "90 07")]


@pytest.mark.parametrize(
    ("header", "descriptor"),
    [
        (0b10_00_0_0_1_0, "9c 8000"),  # a key frame
        (0b10_00_0_1_1_0, "dc 8000 02"),  # an inter frame
        (0b10_00_1_0_0_0, "dc 8000 02"),  # shows an earlier frame
        (0b10_10_0_0_1_0, "9c 8000"),  # profile 1
        (0b10_11_0_0_0_1, "9c 8000"),  # profile 3 has a reserved bit
        (0b10_11_0_0_1_1, "dc 8000 02"),
        (0b10_11_0_1_0_1, "dc 8000 02"),
    ],
)
def test_vp9_reads_the_frame_s_own_header(header: int, descriptor: str) -> None:
    frame = bytes([header, 1, 2, 3])
    assert payloads(make_stream(), frame, "vp9") == [bytes.fromhex(descriptor) + frame]


@pytest.mark.parametrize("codec", ["vp8", "vp9"])
def test_a_picture_id_wraps_and_counts_frames_alone(codec: str) -> None:
    stream, seen = make_stream(picture_id=0x7FFE, max_packet=60), []
    frame = (b"\x01" if codec == "vp8" else b"\x86") + bytes(100)
    for _ in range(4):
        numbers = {packet[2 - (codec == "vp9") :][:2] for packet in payloads(stream, frame, codec)}
        seen += [int.from_bytes(number, "big") for number in numbers]
    assert seen == [0xFFFE, 0xFFFF, 0x8000, 0x8001]
    assert stream.picture_id == 2
    stream.seal_frame(b"\0\0\1\x65", packetizer="h264")
    stream.seal_frame(bytes(500))
    stream.seal(b"x")
    assert stream.picture_id == 2


def test_a_picture_id_has_15_bits() -> None:
    with pytest.raises(ValueError, match="picture_id is 32768; it must be from 0 to 32767"):
        make_stream(picture_id=32768)


def test_nothing_advances_when_the_nonces_do_not_suffice() -> None:
    frame = frames_of("vp8")[0]
    sealer = Sealer(Mode.AES256_GCM, KEY, first_nonce=2**32 - 1)
    stream = RtpStream(sealer, 1, 101, sequence=5, timestamp=6, picture_id=7)
    with pytest.raises(NonceExhausted):
        stream.seal_frame(frame, packetizer="vp8", advance=3000)
    assert (stream.sequence, stream.timestamp, stream.picture_id, sealer.packets_left) == (5, 6, 7, 0)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview], ids=["bytes", "bytearray", "memoryview"])
def test_any_bytes_like_frame_is_cut(make: Callable[[bytes], Any]) -> None:
    frame = frames_of("h264")[0]
    expected = make_stream().seal_frame(frame, packetizer=Packetizer.H264)
    assert bytes(make_stream().seal_frame(make(frame), packetizer="h264").buffer) == bytes(expected.buffer)


def test_a_packetizer_goes_by_its_name() -> None:
    assert list(Packetizer) == ["opus", "h264", "h265", "vp8", "vp9", "av1"]
    for junk in ("H264", "plain", "", "h266"):
        with pytest.raises(
            ValueError, match=f"packetizer is {junk!r}; the packetizers are opus, h264, h265, vp8, vp9, av1"
        ):
            make_stream().seal_frame(b"", packetizer=junk)
    for wrong in (1, b"h264", Packetizer):
        with pytest.raises(TypeError, match="packetizer must be a Packetizer, its name or None, not "):
            make_stream().seal_frame(b"", packetizer=wrong)  # type: ignore[arg-type]


# Malformed frames

FORBIDDEN = "with the forbidden bit clear it is at most 127"


@pytest.mark.parametrize(
    ("packetizer", "frame", "message"),
    [
        ("opus", "", "frame is 0 bytes; it needs at least 1"),
        ("h264", "", "frame is 0 bytes; it needs at least 4"),
        ("h264", "000001", "frame is 3 bytes; it needs at least 4"),
        ("h265", "00000102", "frame is 4 bytes; it needs at least 5"),
        ("h264", "65888888", "frame has 658888 where its start code 000001 should stand"),
        ("h264", "0000000000", "frame[2:] has 000000 where its start code 000001 should stand"),
        ("h264", "ff000001 65", "frame has ff0000 where its start code 000001 should stand"),
        ("h264", "00000002 65", "frame[1:] has 000002 where its start code 000001 should stand"),
        ("h264", "0000000267", "frame[1:] has 000002 where its start code 000001 should stand"),
        ("h264", "000001 65 000001 000001 41", "frame[7:] is a unit of 0 bytes; it needs at least 1"),
        ("h264", "000001 65 00000001", "frame[8:] is a unit of 0 bytes; it needs at least 1"),
        ("h264", "000001 000001", "frame[3:] is a unit of 0 bytes; it needs at least 1"),
        ("h264", "000001 0000", "frame[3:] is a unit of 0 bytes; it needs at least 1"),
        ("h265", "000001 26 00000001 2601", "frame[3:] is a unit of 1 bytes; it needs at least 2"),
        ("h264", "000001 65 000001 e5", "frame[7:] is a unit whose first byte is 229; " + FORBIDDEN),
        ("h265", "000001 8001", "frame[3:] is a unit whose first byte is 128; " + FORBIDDEN),
        ("h264", "000001 7c85", "frame[3:] is a NAL unit of type 28; those above 23 are RTP's own"),
        ("h265", "000001 6201", "frame[3:] is a NAL unit of type 49; those above 47 are RTP's own"),
        ("h264", "000001 09f0", "frame makes 0 packets, as delimiters are not sent; it must make at least 1"),
        ("vp8", "", "frame is 0 bytes; it needs at least 3"),
        ("vp8", "0000009d012a400140", "frame is 9 bytes; it needs at least 10"),
        ("vp8", "0000009d012b40014000", "frame has 9d012b where its start code 9d012a should stand"),
        ("vp9", "", "frame is 0 bytes; it needs at least 1"),
        ("vp9", "42", "frame has frame marker 1; it must be 2"),
        ("vp9", "86 c1 05 05 c1", "frame has a superframe index that calls for 14 bytes; there are 5"),
        ("av1", "", "frame is 0 bytes; it needs at least 1"),
        ("av1", "1200", "frame makes 0 packets, as delimiters are not sent; it must make at least 1"),
        ("av1", "1200 b20100", "frame[2:] is a unit whose first byte is 178; " + FORBIDDEN),
        ("av1", "1200 3204aabbcc", "frame[2:] is an OBU of 4 bytes; 3 are left"),
        ("av1", "1200 36", "frame[2:] is a unit of 1 bytes; it needs at least 2"),
        ("av1", "1200 32", "frame[2:] is an OBU whose size has no end within 0 bytes; it may have at most 8"),
        ("av1", "32 8080", "frame is an OBU whose size has no end within 2 bytes; it may have at most 8"),
        (
            "av1",
            "32 ffffffffffffffff00 aa",
            "frame is an OBU whose size has no end within 8 bytes; it may have at most 8",
        ),
        ("av1", "32 ffffffffffffff7f aa", "frame is an OBU of 4294967295 bytes; 1 are left"),
        ("av1", "32 ffffffff0f aa", "frame is an OBU of 4294967295 bytes; 1 are left"),
    ],
)
def test_a_malformed_frame_is_refused_and_uses_no_nonce(packetizer: str, frame: str, message: str) -> None:
    sealer = Sealer(Mode.AES256_GCM, KEY)
    stream = RtpStream(sealer, 1, 101, sequence=5, timestamp=6, picture_id=7)
    left = sealer.packets_left
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        stream.seal_frame(bytes.fromhex(frame), packetizer=packetizer, advance=1)
    assert (stream.sequence, stream.timestamp, stream.picture_id, sealer.packets_left) == (5, 6, 7, left)


@pytest.mark.parametrize(
    ("packetizer", "least"), [("opus", 1), ("h264", 3), ("h265", 4), ("vp8", 5), ("vp9", 5), ("av1", 4)]
)
@pytest.mark.parametrize("extension", [None, PLAYOUT_DELAY], ids=["plain", "extension"])
def test_a_room_too_small_is_told(packetizer: str, least: int, extension: RtpExtension | None) -> None:
    frame = {"opus": b"a", "vp8": b"\1\1\1", "vp9": b"\x86", "av1": b"\x30a"}.get(packetizer, b"\0\0\1\x26\1")
    overhead = OVERHEAD + (8 if extension else 0)
    for room in range(1, least):
        message = f"max_packet leaves room for {room} bytes in a packet, and the packetizer needs {least}"
        with pytest.raises(ValueError, match=f"^frame cannot be cut: {message}$"):
            make_stream(max_packet=overhead + room, extension=extension).seal_frame(frame, packetizer=packetizer)
    assert payloads(make_stream(max_packet=overhead + least, extension=extension), frame, packetizer)


@pytest.mark.parametrize("name", VIDEO)
def test_a_frame_cut_short_is_refused_or_sealed_as_it_is(name: str) -> None:
    codec, frame = codec_of(name), frames_of(name)[1]
    for length in itertools.chain(range(80), range(80, len(frame), 41)):
        stream = make_stream(max_packet=100)
        try:
            packets = payloads(stream, frame[:length], codec)
        except ValueError:
            assert stream.sequence == 0
            continue
        if codec in ("h264", "h265"):
            assert read_nal(codec, packets) == without_delimiters(codec, nal_units(frame[:length]))
