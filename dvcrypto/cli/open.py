"""``dvcrypto open``: a capture with its sealed RTP and RTCP opened."""

import argparse
from typing import Any

import dvcrypto
from dvcrypto.cli.keys import find_key
from dvcrypto.cli.media import integer
from dvcrypto.cli.rewrite import Outcome, add_options, rewrite


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("open", help="open the sealed RTP and RTCP of a capture")
    add_options(parser, "opened")
    parser.add_argument(
        "--replay-window", type=integer, default=0, metavar="N", help="refuse replays within N sequence numbers (off)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Open the capture."""
    with dvcrypto.Opener(options.mode, find_key(options.key), replay_window=options.replay_window) as opener:

        def open_all(packets: list[bytes]) -> list[Outcome]:
            burst = opener.open_burst(packets)
            return [
                (packet.plain, "") if packet else (None, str(burst.reason(i)).removeprefix(f"packets[{i}] "))
                for i, packet in enumerate(burst)
            ]

        return rewrite(options, "opened", open_all)
