"""Which UDP datagrams of a capture are media."""

from dvcrypto.cli.captures import Datagram
from dvcrypto.cli.reference import is_rtcp

_SYSTEM_PORTS_END = 1024  # RFC 6335, section 6: no media is sent from there, but DNS and its like are
_KEEP_ALIVE_LEN = 8


def is_media(datagram: Datagram, ports: frozenset[int]) -> bool:
    """Whether it looks like RTP or RTCP, plain or sealed, from or to one of ``ports`` where any are given."""
    ends = {datagram.source_port, datagram.destination_port}
    if ports and not ends & ports:
        return False
    if not ports and min(ends) < _SYSTEM_PORTS_END:
        return False
    payload = datagram.payload
    if len(payload) < 2 or payload[0] >> 6 != 2:
        return False
    return len(payload) != _KEEP_ALIVE_LEN or is_rtcp(payload)
