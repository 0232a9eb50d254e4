"""Which UDP datagrams of a capture are media."""

import argparse

from dvcrypto.cli.captures import Datagram
from dvcrypto.cli.reference import is_rtcp

_SYSTEM_PORTS_END = 1024  # RFC 6335, section 6: no media is sent from there, but DNS and its like are
_KEEP_ALIVE_LEN = 8
_DISCOVERY_LEN = 74
_DISCOVERY_TYPES = {b"\0\1", b"\0\2"}  # request, response


def add_port_option(parser: argparse.ArgumentParser, whose: str) -> None:
    """Add ``--port``; ``whose`` says what is only taken from or to it."""
    parser.add_argument(
        "--port",
        type=integer,
        action="append",
        default=[],
        metavar="N",
        help=f"{whose}; may be repeated (all from 1024 up)",
    )


def integer(text: str) -> int:
    """A number, decimal or with 0x."""
    return int(text, 0)


def is_on_ports(datagram: Datagram, ports: frozenset[int]) -> bool:
    """Whether it is from or to one of ``ports``; where none are given, whether no system port takes part."""
    ends = {datagram.source_port, datagram.destination_port}
    return bool(ends & ports) if ports else min(ends) >= _SYSTEM_PORTS_END


def is_media(datagram: Datagram, ports: frozenset[int]) -> bool:
    """Whether it looks like RTP or RTCP, plain or sealed, from or to one of ``ports`` where any are given."""
    payload = datagram.payload
    if not is_on_ports(datagram, ports):
        return False
    if len(payload) < 2 or payload[0] >> 6 != 2:
        return False
    return len(payload) != _KEEP_ALIVE_LEN or is_rtcp(payload)


def is_discovery(payload: bytes) -> bool:
    """Whether it is a request or response of Discord's IP discovery."""
    return len(payload) == _DISCOVERY_LEN and payload[:2] in _DISCOVERY_TYPES
