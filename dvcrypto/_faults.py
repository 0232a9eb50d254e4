"""What the C layer found wrong, in words."""

from collections.abc import Callable
from typing import Any, Final

from dvcrypto._library import lib

_WORDS: Final[dict[int, Callable[[str, int, int], str]]] = {
    lib.DV_FAULT_SHORT: lambda name, value, limit: f"{name} is {value} bytes; it needs at least {limit}",
    lib.DV_FAULT_LONG: lambda name, value, limit: (
        f"{name} is {value} bytes; it may have at most {limit}, since a sealed packet holds at most "
        f"{lib.DV_PACKET_MAX_LEN}"
    ),
    lib.DV_FAULT_VERSION: lambda name, value, limit: f"{name} has RTP version {value}; it must be {limit}",
    lib.DV_FAULT_HEADER_LEN: lambda name, value, limit: f"{name} is {value} bytes; its bits call for {limit}",
    lib.DV_FAULT_EXTENSION_LONG: lambda name, value, limit: (
        f"{name} has a header extension of {value} bytes; behind its header there are {limit}"
    ),
    lib.DV_FAULT_PADDING_ZERO: lambda name, value, limit: (
        f"{name} has a padding count of {value}; it is at least {limit}"
    ),
    lib.DV_FAULT_PADDING_LONG: lambda name, value, limit: (
        f"{name} has a padding count of {value}; there are {limit} bytes for it"
    ),
    lib.DV_FAULT_KEEP_ALIVE: lambda name, value, _: f"{name} is a keep-alive of {value} bytes, not media",
    lib.DV_FAULT_DISCOVERY: lambda name, value, _: f"{name} is an IP discovery packet of {value} bytes, not media",
    lib.DV_FAULT_TAG: lambda name, *_: f"{name} has a wrong tag: another key or mode, or it was changed",
    lib.DV_FAULT_REPLAY: lambda name, value, limit: (
        f"{name} has sequence number {value}, opened before or older than the replay window; the newest is {limit}"
    ),
    lib.DV_FAULT_ROOM: lambda name, value, limit: (
        f"{name} cannot be cut: max_packet leaves room for {value} bytes in a packet, and the packetizer needs {limit}"
    ),
    lib.DV_FAULT_UNCUT: lambda name, value, limit: (
        f"{name} is {value} bytes; it goes into one packet, and max_packet leaves room for {limit}"
    ),
    lib.DV_FAULT_NOTHING: lambda name, value, limit: (
        f"{name} makes {value} packets, as delimiters are not sent; it must make at least {limit}"
    ),
    lib.DV_FAULT_START_CODE: lambda name, value, limit: (
        f"{name} has {value:06x} where its start code {limit:06x} should stand"
    ),
    lib.DV_FAULT_UNIT_SHORT: lambda name, value, limit: f"{name} is a unit of {value} bytes; it needs at least {limit}",
    lib.DV_FAULT_FORBIDDEN: lambda name, value, limit: (
        f"{name} is a unit whose first byte is {value}; with the forbidden bit clear it is at most {limit}"
    ),
    lib.DV_FAULT_NAL_TYPE: lambda name, value, limit: (
        f"{name} is a NAL unit of type {value}; those above {limit} are RTP's own"
    ),
    lib.DV_FAULT_OBU_LONG: lambda name, value, limit: f"{name} is an OBU of {value} bytes; {limit} are left",
    lib.DV_FAULT_OBU_SIZE: lambda name, value, limit: (
        f"{name} is an OBU whose size has no end within {value} bytes; it may have at most {limit}"
    ),
    lib.DV_FAULT_FRAME_MARKER: lambda name, value, limit: f"{name} has frame marker {value}; it must be {limit}",
    lib.DV_FAULT_SUPERFRAME: lambda name, value, limit: (
        f"{name} has a superframe index that calls for {value} bytes; there are {limit}"
    ),
    lib.DV_FAULT_DATAGRAM: lambda name, value, limit: (
        f"{name} is a datagram of {value} bytes or more; the receiver has room for {limit}"
    ),
}


def sentence(name: str, fault: Any) -> str:
    """The sentence for a ``dv_refusal`` or ``dv_opened``, with the value and the limit; ``name`` is the argument's."""
    return _WORDS[fault.fault](name, fault.value, fault.limit)
