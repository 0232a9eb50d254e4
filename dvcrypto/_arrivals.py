"""Addresses and times of datagrams, as C and as Python have them."""

import struct
from _socket import AF_INET, AF_INET6, inet_ntop
from typing import Final

from dvcrypto._library import ffi

Address = tuple[str, int] | tuple[str, int, int] | tuple[str, int, int, int]
"""Host and port; in IPv6 flow info and scope, too."""

ADDRESS: Final = struct.Struct("=16sIIHBB")  # dv_address: bytes, flow_info, scope_id, port, version, unused
ARRIVAL_LEN: Final = int(ffi.sizeof("dv_arrival"))
_TIME: Final = struct.Struct("=q")
_ADDRESS_AT: Final = 8


def read_time(arrivals: bytes, at: int) -> int | None:
    """Nanoseconds since 1970 of the ``dv_arrival`` there."""
    ns: int = _TIME.unpack_from(arrivals, at)[0]
    return ns or None


def read_address(arrivals: bytes, at: int) -> Address | None:
    """The address of the ``dv_arrival`` there."""
    number, flow_info, scope_id, port, version, _ = ADDRESS.unpack_from(arrivals, at + _ADDRESS_AT)
    if version == 4:
        return inet_ntop(AF_INET, number[:4]), port
    return (inet_ntop(AF_INET6, number), port, flow_info, scope_id) if version else None
