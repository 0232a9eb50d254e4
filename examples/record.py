"""Open sealed Opus that comes in over UDP, and write an Ogg Opus file for each speaker.

    python examples/record.py 127.0.0.1:50004 recordings --key key.hex

It ends by Ctrl-C, or when somebody has spoken and then nobody for a while. What is encrypted end to end (DAVE) would be
decrypted in between.
"""

import argparse
import contextlib
import socket
from fractions import Fraction
from pathlib import Path

import av

import dvcrypto

CLOCK = 48_000  # Hz, of Opus in RTP (RFC 7587, section 4.1)
FRAME = 960  # samples in the 20 ms that Discord's clients send at once
SILENCE = b"\xf8\xff\xfe"  # such a frame


class OggOpus:
    """An Ogg Opus file. Players do not look for gaps in Ogg, so that what was lost becomes silence."""

    def __init__(self, path: Path) -> None:
        """Make the file."""
        self._container = av.open(str(path), "w", format="ogg")
        self._stream = self._container.add_stream("libopus", rate=CLOCK)
        self._next: int | None = None  # RTP timestamp
        self._position = 0

    def write(self, timestamp: int, opus: bytes) -> None:
        """Write a packet behind what was lost, unless its place is taken already."""
        lost = 0 if self._next is None else (timestamp - self._next) & 0xFFFF_FFFF
        if lost < 1 << 31:
            for frame in (*[SILENCE] * (lost // FRAME), opus):
                packet = av.Packet(frame)
                packet.stream, packet.time_base = self._stream, Fraction(1, CLOCK)
                packet.pts = packet.dts = self._position
                self._container.mux(packet)
                self._position += FRAME
            self._next = timestamp + FRAME

    def close(self) -> None:
        """Finish the file."""
        self._container.close()


def main() -> None:
    """Record until it is quiet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("listen", help="HOST:PORT")
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("--key", type=Path, required=True, help="a file of 64 hexadecimal digits")
    parser.add_argument("--mode", type=dvcrypto.Mode, default=dvcrypto.choose_mode(dvcrypto.Mode), help="%(default)s")
    parser.add_argument("--idle", type=float, default=10, help="seconds of silence until the end (%(default)s)")
    options = parser.parse_args()

    host, _, port = options.listen.rpartition(":")
    opener = dvcrypto.Opener(options.mode, bytes.fromhex(options.key.read_text()), replay_window=1024)
    files: dict[int, OggOpus] = {}
    options.folder.mkdir(exist_ok=True)
    sock = socket.socket(type=socket.SOCK_DGRAM)
    sock.bind((host, int(port)))
    with sock, dvcrypto.Receiver(sock, opener) as receiver, contextlib.suppress(KeyboardInterrupt):
        print(f"listening on {host}:{sock.getsockname()[1]}", flush=True)
        while burst := receiver.receive(timeout=options.idle if files else None):
            for packet in burst:
                if packet is None or packet.is_rtcp or not packet.payload:
                    continue
                if packet.ssrc not in files:
                    files[packet.ssrc] = OggOpus(options.folder / f"{packet.ssrc}.ogg")
                files[packet.ssrc].write(packet.header.timestamp, packet.payload)
    for ssrc, file in files.items():
        file.close()
        print(options.folder / f"{ssrc}.ogg")
    print(f"{opener.stats.opened} packets opened, {opener.stats.failed} did not")


if __name__ == "__main__":
    main()
