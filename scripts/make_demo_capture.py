"""Write a small capture of plain RTP, the way a Discord client sends it before encryption.

    python scripts/make_demo_capture.py OUT.pcap

Needs aiortc (it brings PyAV with libopus and libx264) and dpkt, the dependency group `capture`:

    python -m pip install aiortc dpkt

Sound and picture are computed here and encoded by the real encoders; extensions, CSRCs, padding
and probes follow a fixed pattern, so that each occurs several times. The clock is fixed and x264
runs on one thread: the same encoder versions give the same file. libopus computes in floating
point, so another kind of CPU may give other Opus payloads.
"""

import argparse
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import Path

import dpkt  # type: ignore[import-untyped, unused-ignore]
from aiortc import rtp
from aiortc.codecs import h264
from aiortc.codecs.opus import SAMPLE_RATE, SAMPLES_PER_FRAME, OpusEncoder
from av import AudioFrame, CodecContext, VideoFrame
from av.bitstream import BitStreamFilterContext

EPOCH_S = 1_767_225_600  # 2026-01-01T00:00:00Z as Unix time
NTP_OFFSET_S = 2_208_988_800  # from 1900, where NTP time starts, to 1970
MEDIA_START_US = 200_000  # this and every time below: microseconds since EPOCH_S

MAX_RTP_LEN = 1200  # bytes
MAX_H264_PAYLOAD_LEN = 1000  # bytes; most pictures then take two packets
OPUS_FRAME_COUNT, OPUS_FRAME_US, OPUS_BIT_RATE = 165, 20_000, 40_000
NOTES_HZ, NOTE_FRAME_COUNT = (220.0, 277.18, 329.63, 440.0, 329.63, 277.18), 22  # then silence
WIDTH, HEIGHT, PICTURE_COUNT, PICTURE_RATE, H264_BIT_RATE = 320, 180, 76, 30, 285_000
PROBE_PADDING_LEN = {25: 224, 50: 255}  # a padding-only packet after these pictures, bytes

# Extension ids as Discord's clients have them, and one above 14, which needs the two-byte form
# (RFC 8285, section 4.3).
AUDIO_LEVEL_ID, ABS_SEND_TIME_ID, TRANSPORT_SEQUENCE_ID, PLAYOUT_DELAY_ID, MID_ID = 1, 2, 3, 5, 16
PLAYOUT_DELAY = (PLAYOUT_DELAY_ID, b"\x00\x00\x0a")  # 0 to 100 ms: two 12-bit counts of 10 ms
ONE_BYTE_PROFILE = 0xBEDE
CSRCS = [0x00C0FFEE, 0x00DECADE]
AUDIO_SSRC, VIDEO_SSRC = 0x000A0D10, 0x000A0D11
CNAME = (1, b"demo@192.0.2.10")  # RFC 3550, section 6.5.1

Element = tuple[int, bytes]  # a header extension's id and value
Frame = tuple[int, bytes]  # when (microseconds since EPOCH_S), and the whole Ethernet frame


@dataclass(frozen=True)
class Endpoint:
    """One end of the call; addresses are from the documentation range (RFC 5737)."""

    mac: bytes
    address: IPv4Address
    port: int


CLIENT = Endpoint(bytes.fromhex("020000000010"), IPv4Address("192.0.2.10"), 61234)
SERVER = Endpoint(bytes.fromhex("020000000050"), IPv4Address("192.0.2.50"), 50004)


@dataclass(frozen=True)
class Shape:
    """What surrounds a payload in its packet."""

    elements: list[Element] | None = None  # None is no extension, [] an empty one
    csrcs: list[int] = field(default_factory=list)
    padding_len: int = 0  # bytes, the count in the last one included


@dataclass
class Sender:
    """One RTP stream: its numbering (RFC 3550, 5.1) and the counts for its reports (6.4.1)."""

    ssrc: int
    payload_type: int
    clock_rate: int  # Hz
    start_us: int
    next_sequence: int
    first_timestamp: int
    packet_count: int = 0
    octet_count: int = 0
    frames: list[Frame] = field(default_factory=list)

    def send(self, time_us: int, media_us: int, payload: bytes, marker: bool, shape: Shape) -> None:
        """Add one RTP packet, sent at `time_us`, with media sampled at `media_us`."""
        timestamp, sequence = self.timestamp_at(media_us), self.next_sequence
        packet = rtp.RtpPacket(self.payload_type, marker, sequence, timestamp, self.ssrc, payload)
        data = serialize(packet, shape)
        if len(data) > MAX_RTP_LEN:
            raise ValueError(f"RTP packet is {len(data)} bytes; the capture allows {MAX_RTP_LEN}")
        self.frames.append(udp_frame(time_us, CLIENT, SERVER, data))
        self.next_sequence = (sequence + 1) % 2**16
        self.packet_count += 1
        self.octet_count += len(payload)

    def report(self, time_us: int) -> None:
        """Add a compound RTCP packet: sender report and source description (RFC 3550, 6.1)."""
        timestamp = self.timestamp_at(time_us)
        info = rtp.RtcpSenderInfo(ntp_at(time_us), timestamp, self.packet_count, self.octet_count)
        description = rtp.RtcpSdesPacket([rtp.RtcpSourceInfo(self.ssrc, [CNAME])])
        data = bytes(rtp.RtcpSrPacket(self.ssrc, info)) + bytes(description)
        self.frames.append(udp_frame(time_us, CLIENT, SERVER, data))

    def timestamp_at(self, time_us: int) -> int:
        """Return the RTP timestamp (32 bits, wrapping) of an instant."""
        ticks = round((time_us - self.start_us) * self.clock_rate / 1_000_000)
        return (self.first_timestamp + ticks) % 2**32


def main() -> None:
    """Write the capture to the path given on the command line."""
    parser = argparse.ArgumentParser(description="Write a small capture of plain RTP.")
    parser.add_argument("output", type=Path, metavar="OUT.pcap", help="the file to write")
    with parser.parse_args().output.open("wb") as file:
        writer = dpkt.pcap.Writer(file, snaplen=65535)
        for time_us, frame in sorted([*other_traffic(), *audio(), *video()]):
            writer.writepkt(frame, EPOCH_S + time_us / 1_000_000)


def audio() -> list[Frame]:
    """Return the Opus packets and their reports; sequence number and timestamp both wrap."""
    sender = Sender(AUDIO_SSRC, 120, SAMPLE_RATE, MEDIA_START_US, 65400, 2**32 - SAMPLE_RATE)
    encoder = OpusEncoder()
    encoder.codec.bit_rate = OPUS_BIT_RATE
    for index in range(OPUS_FRAME_COUNT):
        sound = AudioFrame("s16", "stereo", SAMPLES_PER_FRAME)
        sound.planes[0].update(samples(index))
        sound.sample_rate, sound.time_base = SAMPLE_RATE, Fraction(1, SAMPLE_RATE)
        sound.pts = index * SAMPLES_PER_FRAME
        level = rtp.compute_audio_level_dbov(sound)  # -127 (silence) to 0
        voiced = (level > -127) << 7
        shape = shape_at(index, [(AUDIO_LEVEL_ID, bytes([voiced | -level]))])  # RFC 6464
        time_us = MEDIA_START_US + index * OPUS_FRAME_US
        for payload in encoder.encode(sound)[0]:
            sender.send(time_us, time_us, payload, index == 0, shape)
        if index % 50 == 0:
            sender.report(time_us + 1_000)
    return sender.frames


def samples(index: int) -> bytes:
    """Return 20 ms of decaying notes: 960 x 2 samples, s16, interleaved."""
    note, frame_in_note = divmod(index, NOTE_FRAME_COUNT)
    if note >= len(NOTES_HZ):
        return bytes(4 * SAMPLES_PER_FRAME)
    sound = b""
    for i in range(SAMPLES_PER_FRAME):
        seconds = (frame_in_note * SAMPLES_PER_FRAME + i) / SAMPLE_RATE
        phase = 2 * math.pi * NOTES_HZ[note] * seconds
        envelope = 9000 * min(1.0, seconds / 0.01) * math.exp(-6 * seconds)
        value = envelope * sum(math.sin(k * phase) / k for k in (1, 2, 3, 5))
        sound += struct.pack("=2h", round(value), round(value * (0.3 + 0.1 * note)))
    return sound


def video() -> list[Frame]:
    """Return the H.264 packets, the padding-only probes, and the reports."""
    h264.PACKET_MAX = MAX_H264_PAYLOAD_LEN  # aiortc cuts at 1300 and has no parameter for it
    start_us = MEDIA_START_US + 7_000
    sender = Sender(VIDEO_SSRC, 101, 90_000, start_us, 65440, 2**32 - 100_000)
    for index, payloads in enumerate(encoded_pictures()):
        picture_us = start_us + round(index * 1_000_000 / PICTURE_RATE)
        for number, payload in enumerate(payloads, start=1):
            time_us = picture_us + number * 400
            count = sender.packet_count
            shape = shape_at(count, video_elements(count, time_us))
            sender.send(time_us, picture_us, payload, number == len(payloads), shape)
        if index in PROBE_PADDING_LEN:
            probe = Shape([PLAYOUT_DELAY], padding_len=PROBE_PADDING_LEN[index])
            sender.send(picture_us + 8_000, picture_us, b"", False, probe)
        if index % PICTURE_RATE == 0:
            sender.report(picture_us + 9_000)
    return sender.frames


def video_elements(index: int, time_us: int) -> list[Element]:
    """Return playout-delay (1 word), and in every tenth packet send time and sequence (3 words)."""
    if index % 10:
        return [PLAYOUT_DELAY]
    send_time = (ntp_at(time_us) >> 14 & 0xFFFFFF).to_bytes(3, "big")  # seconds, 6.18 fixed point
    sequence = struct.pack("!H", index)
    return [PLAYOUT_DELAY, (ABS_SEND_TIME_ID, send_time), (TRANSPORT_SEQUENCE_ID, sequence)]


def encoded_pictures() -> Iterator[list[bytes]]:
    """Yield the RTP payloads of each picture (RFC 6184: single units, STAP-A, FU-A)."""
    codec = CodecContext.create("libx264", "w")
    codec.width, codec.height, codec.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    codec.framerate, codec.time_base = Fraction(PICTURE_RATE), Fraction(1, PICTURE_RATE)
    codec.bit_rate, codec.gop_size, codec.thread_count = H264_BIT_RATE, PICTURE_RATE, 1
    codec.profile = "Baseline"
    codec.options = {"tune": "zerolatency", "maxrate": str(H264_BIT_RATE), "bufsize": "60000"}
    without_sei = BitStreamFilterContext("filter_units=remove_types=6", "h264")  # x264 names itself
    packetizer = h264.H264Encoder()
    for index in range(PICTURE_COUNT):
        for encoded in codec.encode(picture(index)):
            for packet in without_sei.filter(encoded):
                yield packetizer.pack(packet)[0]


def picture(index: int) -> VideoFrame:
    """Return a picture (320 x 180, yuv420p): rippling stripes, and a bright square that moves."""
    wave = bytes(round(120 + 70 * math.sin(2 * math.pi * x / 80)) for x in range(WIDTH + 80))
    left, top = 3 * index, 60 + round(40 * math.sin(index / 9))
    luma = bytearray()
    for y in range(HEIGHT):
        offset = round(2 * index + y / 2 + 14 * math.sin(y / 17 + index / 6)) % 80
        luma += wave[offset : offset + WIDTH]
    for start in range(top * WIDTH + left, (top + 40) * WIDTH + left, WIDTH):
        luma[start : start + 40] = b"\xe6" * 40
    tint = bytes(round(128 + 40 * math.sin((x + index) / 25)) for x in range(WIDTH // 2))
    frame = VideoFrame(WIDTH, HEIGHT, "yuv420p")
    frame.planes[0].update(bytes(luma))
    frame.planes[1].update(tint * (HEIGHT // 2))
    frame.planes[2].update(tint[::-1] * (HEIGHT // 2))
    frame.pts, frame.time_base = index, Fraction(1, PICTURE_RATE)
    return frame


def other_traffic() -> list[Frame]:
    """Return what is not media: ARP, a TCP SYN, IP discovery and keep-alives both ways."""
    question = {"sha": CLIENT.mac, "spa": CLIENT.address.packed, "tpa": SERVER.address.packed}
    arp = dpkt.arp.ARP(tha=bytes(6), **question)
    ethernet = dpkt.ethernet.Ethernet(dst=b"\xff" * 6, src=CLIENT.mac, type=0x0806, data=arp)
    syn = dpkt.tcp.TCP(sport=CLIENT.port, dport=443, seq=1, flags=dpkt.tcp.TH_SYN)
    address = str(CLIENT.address).encode()
    request = struct.pack("!HHI64sH", 1, 70, AUDIO_SSRC, b"", 0)
    reply = struct.pack("!HHI64sH", 2, 70, AUDIO_SSRC, address, CLIENT.port)
    frames = [
        (0, bytes(ethernet)),
        (1_000, ip_frame(CLIENT, SERVER, dpkt.ip.IP_PROTO_TCP, syn)),
        udp_frame(100_000, CLIENT, SERVER, request),
        udp_frame(120_000, SERVER, CLIENT, reply),
    ]
    for count, time_us in enumerate((150_000, 2_650_500)):
        keep_alive = struct.pack("<Q", count)
        frames.append(udp_frame(time_us, CLIENT, SERVER, keep_alive))
        frames.append(udp_frame(time_us + 20_000, SERVER, CLIENT, keep_alive))
    return frames


def shape_at(index: int, elements: list[Element]) -> Shape:
    """Return the surroundings of packet number `index`: for most, the elements and no more."""
    rare = {
        4: Shape(),
        9: Shape([*elements, (MID_ID, b"demo")]),
        13: Shape([]),
        17: Shape(elements, CSRCS),
        22: Shape(elements, padding_len=16),
        26: Shape(elements, CSRCS, padding_len=4),
    }
    return rare.get(index % 30, Shape(elements))


def serialize(packet: rtp.RtpPacket, shape: Shape) -> bytes:
    """Return the packet in its surroundings; padded with zeros, where aiortc takes random bytes."""
    packet.csrc = shape.csrcs
    data = bytearray(packet.serialize())
    if shape.elements is not None:
        profile, body = rtp.pack_header_extensions(shape.elements)
        end = rtp.RTP_HEADER_LENGTH + 4 * len(shape.csrcs)
        data[end:end] = struct.pack("!HH", profile or ONE_BYTE_PROFILE, len(body) // 4) + body
        data[0] |= 0x10  # X
    if shape.padding_len:
        data += bytes(shape.padding_len - 1) + bytes([shape.padding_len])
        data[0] |= 0x20  # P
    return bytes(data)


def ntp_at(time_us: int) -> int:
    """Return an instant as a 64-bit NTP timestamp (RFC 3550, section 4)."""
    return ((EPOCH_S + NTP_OFFSET_S) * 1_000_000 + time_us << 32) // 1_000_000


def udp_frame(time_us: int, source: Endpoint, target: Endpoint, payload: bytes) -> Frame:
    """Return a datagram in its Ethernet frame, with its time."""
    udp = dpkt.udp.UDP(sport=source.port, dport=target.port, ulen=8 + len(payload), data=payload)
    return time_us, ip_frame(source, target, dpkt.ip.IP_PROTO_UDP, udp)


def ip_frame(source: Endpoint, target: Endpoint, protocol: int, segment: dpkt.Packet) -> bytes:
    """Return an Ethernet frame; dpkt computes the IP checksum and that of the UDP or TCP inside."""
    addresses = {"src": source.address.packed, "dst": target.address.packed}
    packet = dpkt.ip.IP(p=protocol, df=1, data=segment, **addresses)
    return bytes(dpkt.ethernet.Ethernet(dst=target.mac, src=source.mac, data=packet))


if __name__ == "__main__":
    main()
