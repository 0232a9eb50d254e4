"""Real Opus frames: out of the capture that `dvcrypto demo` sends."""

import functools
from importlib import resources

from packets import OPUS_PAYLOAD_TYPE, clear_header_len

from dvcrypto.cli.captures import open_capture


@functools.cache
def frames() -> tuple[bytes, ...]:
    """The capture's Opus frames, in order: 20 ms each, no two alike."""
    found: dict[bytes, None] = {}
    with (
        resources.as_file(resources.files("dvcrypto.cli").joinpath("demo.pcap")) as path,
        open_capture(path) as capture,
    ):
        for record in capture:
            if record.udp is None or len(record.udp.payload) < 12:
                continue
            packet = record.udp.payload
            if packet[1] & 0x7F == OPUS_PAYLOAD_TYPE:
                found[_payload(packet)] = None
    return tuple(frame for frame in found if len(frame) > 3)


def _payload(packet: bytes) -> bytes:
    body = packet[clear_header_len(packet) :]
    if packet[0] & 0x10:
        words = int.from_bytes(packet[clear_header_len(packet) - 2 : clear_header_len(packet)])
        body = body[4 * words :]
    return body[: -body[-1]] if packet[0] & 0x20 else body
