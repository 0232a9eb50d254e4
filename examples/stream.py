"""Send a file's Opus or H.264 as sealed RTP over UDP, each frame when it is due.

    python examples/stream.py speech.ogg 127.0.0.1:50004 --key key.hex

The video is to be without B-frames, as live video is: its pictures are sent in the order in which they are shown.
"""

import argparse
import socket
import time
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import av
from av.bitstream import BitStreamFilterContext

import dvcrypto


class Format(NamedTuple):
    """How RTP carries a codec. The payload types are those that Discord's client uses."""

    payload_type: int
    clock: int  # Hz
    packetizer: dvcrypto.Packetizer


FORMATS = {
    "opus": Format(120, 48_000, dvcrypto.Packetizer.OPUS),
    "h264": Format(101, 90_000, dvcrypto.Packetizer.H264),
}


def frames_of(container: Any, stream: Any) -> Iterator[tuple[bytes, float]]:
    """Each frame and when it is due, in seconds; pictures of H.264 as access units in Annex B."""
    as_annex_b = BitStreamFilterContext("h264_mp4toannexb", stream) if stream.type == "video" else None
    for packet in container.demux(stream):
        for frame in as_annex_b.filter(packet) if as_annex_b else [packet]:
            if frame.size:
                yield bytes(frame), float(frame.pts * frame.time_base)


def main() -> None:
    """Send the file's first stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="Ogg Opus, or H.264 in MP4 or Matroska")
    parser.add_argument("to", help="HOST:PORT, the host as a number")
    parser.add_argument("--key", type=Path, required=True, help="a file of 64 hexadecimal digits")
    parser.add_argument("--mode", type=dvcrypto.Mode, default=dvcrypto.choose_mode(dvcrypto.Mode), help="%(default)s")
    options = parser.parse_args()

    host, _, port = options.to.rpartition(":")
    sealer = dvcrypto.Sealer(options.mode, bytes.fromhex(options.key.read_text()))
    with av.open(options.file) as container, socket.socket(type=socket.SOCK_DGRAM) as sock:
        stream = container.streams[0]
        rtp = FORMATS[stream.codec_context.name]
        sender = dvcrypto.RtpStream(sealer, ssrc=1, payload_type=rtp.payload_type)
        start, frame_count, packet_count = time.monotonic(), 0, 0
        for (frame, due), (_, next_due) in pairwise(chain(frames_of(container, stream), [(b"", 0.0)])):
            time.sleep(max(0.0, start + due - time.monotonic()))
            advance = max(0, round(next_due * rtp.clock) - round(due * rtp.clock))
            sent = sender.send_frame(sock, frame, (host, int(port)), packetizer=rtp.packetizer, advance=advance)
            packet_count += sent.sent
            frame_count += 1
    print(f"sent {frame_count} frames in {packet_count} packets, {options.mode}")


if __name__ == "__main__":
    main()
