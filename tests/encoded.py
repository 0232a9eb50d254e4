"""Real encoded video and audio, made here: a generated picture that moves, by the encoders of PyAV's FFmpeg."""

import functools
import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import av
import pytest

WIDTH, HEIGHT, PICTURES, KEY_INTERVAL = 320, 240, 45, 15

ENCODERS: dict[str, tuple[str, dict[str, str]]] = {
    "h264": ("libx264", {"preset": "veryfast", "tune": "zerolatency", "x264-params": "aud=1:slices=3:crf=20"}),
    "h265": ("libx265", {"preset": "ultrafast", "x265-params": "aud=1:repeat-headers=1:bframes=0:log-level=none"}),
    "vp8": ("libvpx", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0", "error-resilient": "1"}),
    "vp9": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}),
    "av1": ("libsvtav1", {"preset": "12", "svtav1-params": "keyint=15:lookahead=0"}),
}
DECODERS = {"h264": "h264", "h265": "hevc", "vp8": "vp8", "vp9": "vp9", "av1": "libdav1d"}


class Frame(NamedTuple):
    """What an encoder returned at once."""

    data: bytes
    is_key: bool


def pictures(width: int = WIDTH, height: int = HEIGHT, count: int = PICTURES) -> Iterator[Any]:
    """A bright disk goes round before stripes; every tenth picture is noise, and some do not change at all."""
    noise = random.Random(7)
    for number in range(count):
        at = number - number % 4 if number > 20 else number  # some pictures stand still
        x, y = width / 2 + width / 3 * math.cos(at / 5), height / 2 + height / 3 * math.sin(at / 5)
        rows = bytearray()
        for row in range(height):
            reach = (height / 6) ** 2 - (row - y) ** 2
            half = int(math.sqrt(reach)) if reach > 0 else 0
            line = bytearray((60 + (row // 8 * 16 + column // 16 * 8 + at) % 120) for column in range(width))
            if half:
                left, right = max(0, int(x) - half), min(width, int(x) + half)
                line[left:right] = bytes([235]) * (right - left)
            rows += line
        if number % 10 == 9:
            rows = bytearray(noise.randbytes(width * height))
        picture = av.VideoFrame(width, height, "yuv420p")
        planes = [bytes(rows), bytes([128]) * (width * height // 4), bytes([90 + at % 60]) * (width * height // 4)]
        for plane, content in zip(picture.planes, planes, strict=True):
            pad = plane.line_size - plane.width
            plane.update(
                b"".join(content[i * plane.width : (i + 1) * plane.width] + bytes(pad) for i in range(plane.height))
            )
        picture.pts = number
        picture.time_base = Fraction(1, 30)
        yield picture


@functools.cache
def video(name: str, width: int = WIDTH, height: int = HEIGHT, count: int = PICTURES) -> tuple[Frame, ...]:
    """The frames of an encoder, in the order in which it returned them; a visible skip where FFmpeg lacks it."""
    if name == "vp9-superframes":
        return tuple(superframe(pair) for pair in batched(video("vp9", width, height, count), 2))
    encoder, options = ENCODERS[name]
    try:
        context = av.CodecContext.create(encoder, "w")
    except av.codec.codec.UnknownCodecError:
        pytest.skip(f"PyAV's FFmpeg has no {encoder}")
    context.width, context.height, context.pix_fmt = width, height, "yuv420p"
    context.time_base, context.framerate = Fraction(1, 30), Fraction(30)
    context.bit_rate = 2_000_000
    context.gop_size = KEY_INTERVAL
    context.thread_count = 1
    context.options = options
    packets = [packet for picture in pictures(width, height, count) for packet in context.encode(picture)]
    packets += context.encode(None)
    return tuple(Frame(bytes(packet), packet.is_keyframe) for packet in packets)


def batched(frames: tuple[Frame, ...], size: int) -> list[tuple[Frame, ...]]:
    return [frames[start : start + size] for start in range(0, len(frames), size)]


def superframe(frames: tuple[Frame, ...]) -> Frame:
    """Frames with an index of their sizes behind them (VP9 bitstream specification, annex B)."""
    marker = bytes([0b110_00_000 | 2 << 3 | len(frames) - 1])
    sizes = b"".join(len(frame.data).to_bytes(3, "little") for frame in frames)
    return Frame(b"".join(frame.data for frame in frames) + marker + sizes + marker, frames[0].is_key)


@functools.cache
def opus() -> tuple[bytes, ...]:
    """Two seconds of a tone that rises, 20 ms a frame."""
    context = av.CodecContext.create("libopus", "w")
    context.sample_rate, context.layout, context.format = 48000, "mono", "s16"
    context.bit_rate = 64_000
    frames = []
    for number in range(100):
        sound = av.AudioFrame(format="s16", layout="mono", samples=960)
        sound.sample_rate, sound.pts, sound.time_base = 48000, 960 * number, Fraction(1, 48000)
        samples = (int(9000 * math.sin((960 * number + i) ** 1.1 / 40)) for i in range(960))
        sound.planes[0].update(b"".join(sample.to_bytes(2, "little", signed=True) for sample in samples))
        frames += context.encode(sound)
    frames += context.encode(None)
    return tuple(bytes(frame) for frame in frames)


def decode(codec: str, frames: list[bytes]) -> list[bytes]:
    """The pictures of a bitstream, each as the bytes of its planes."""
    context = av.CodecContext.create(DECODERS[codec], "r")
    context.thread_count = 1
    decoded = [picture for frame in frames for picture in context.decode(av.Packet(frame))]
    decoded += context.decode(None)
    return [content(picture) for picture in decoded]


def content(picture: Any) -> bytes:
    """A picture's planes, without what pads their lines."""
    lines = []
    for plane in picture.planes:
        stored = bytes(plane)
        lines += [stored[i * plane.line_size : i * plane.line_size + plane.width] for i in range(plane.height)]
    return b"".join(lines)
