"""A process of its own for one engine: seals and opens packets in every way, and tells what came out.

DVCRYPTO_ENGINE is read when dvcrypto is imported, so a test that forces an engine starts this file. Both standard input
and standard output carry one JSON object; bytes are hexadecimal.
"""

import json
import sys
from typing import Any

from dvcrypto import OpenedPacket, Opener, Sealer

BURST_SIZES = (1, 7, 64, None)
"""None is all packets at once."""


def described(opened: OpenedPacket | None) -> dict[str, Any] | None:
    """Everything an opened packet says about itself."""
    if opened is None:
        return None
    extension = opened.extension
    return {
        "plain": opened.plain.hex(),
        "nonce": opened.nonce.hex(),
        "is_rtcp": opened.is_rtcp,
        "header": list(opened.rtcp_header if opened.is_rtcp else opened.header),
        "extension": None if extension is None else [extension.profile, extension.data.hex()],
        "elements": None
        if extension is None
        else {str(number): data.hex() for number, data in extension.elements.items()},
        "payload": opened.payload.hex(),
    }


def in_bursts(packets: list[bytes], size: int | None) -> list[list[bytes]]:
    """The packets in order, so many at a time."""
    step = size or len(packets)
    return [packets[start : start + step] for start in range(0, len(packets), step)]


def main() -> None:
    """Do what standard input asks for."""
    asked = json.load(sys.stdin)
    mode, key = asked["mode"], bytes.fromhex(asked["key"])
    packets = [bytes.fromhex(packet) for packet in asked["packets"]]

    sealer, opener = Sealer(mode, key), Opener(mode, key)
    singly = [
        sealer.seal(packet[:length], packet[length:])
        for packet, length in zip(packets, asked["header_lens"], strict=True)
    ]
    sealed = {"singly": singly}
    opened: dict[str, list[OpenedPacket | None]] = {"singly": [opener.open(packet) for packet in singly]}
    statuses: dict[str, list[str]] = {}
    for size in BURST_SIZES:
        way = f"in bursts of {size or 'all'}"
        sealer, opener = Sealer(mode, key), Opener(mode, key)
        sealed[way] = [packet for burst in in_bursts(packets, size) for packet in sealer.seal_burst(burst).tolist()]
        bursts = [opener.open_burst(burst) for burst in in_bursts(singly, size)]
        opened[way] = [packet for burst in bursts for packet in burst]
        statuses[way] = [str(status) for burst in bursts for status in burst.statuses]

    told = {
        "engines": [sealer.engine, opener.engine],
        "sealed": {way: [packet.hex() for packet in made] for way, made in sealed.items()},
        "opened": {way: [described(packet) for packet in made] for way, made in opened.items()},
        "statuses": statuses,
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
