"""``dvcrypto seal``: a capture with its plain RTP and RTCP sealed."""

import argparse
from typing import Any

import dvcrypto
from dvcrypto.cli.keys import find_key
from dvcrypto.cli.media import integer
from dvcrypto.cli.rewrite import Outcome, Transform, add_options, rewrite


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "seal",
        help="seal the plain RTP and RTCP of a capture",
        description="Seal the plain RTP and RTCP of a capture. Every run counts from --first-nonce: two captures "
        "sealed with one key and one start repeat each other's nonces, which gives both away.",
    )
    add_options(parser, "sealed")
    parser.add_argument(
        "--first-nonce", type=integer, default=0x8000_0000, metavar="N", help="where the counter starts (0x80000000)"
    )
    parser.add_argument("--byteorder", choices=("little", "big"), default="little", help="of the counter (little)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Seal the capture."""
    with dvcrypto.Sealer(
        options.mode, find_key(options.key), first_nonce=options.first_nonce, byteorder=options.byteorder
    ) as sealer:
        return rewrite(options, "sealed", _sealing(sealer))


def _sealing(sealer: dvcrypto.Sealer) -> Transform:
    def seal_one(packet: bytes) -> Outcome:
        try:
            return bytes(sealer.seal_burst([packet])[0]), ""
        except ValueError as error:
            return None, str(error).removeprefix("packets[0] ")

    def seal(packets: list[bytes]) -> list[Outcome]:
        try:
            return [(sealed, "") for sealed in sealer.seal_burst(packets).tolist()]
        except ValueError:  # one of them cannot be sealed, and none was: find out which
            return [seal_one(packet) for packet in packets]

    return seal
