"""How a media frame is cut into RTP payloads."""

import enum
from typing import Final

from dvcrypto._library import lib, text


class Packetizer(enum.StrEnum):
    """A codec's RTP payload format, by the codec's name in lower case."""

    OPUS = "opus"
    """RFC 7587: the frame is one packet, and never cut."""
    H264 = "h264"
    """RFC 6184 in packetization mode 1, from an Annex-B access unit: single NAL units and FU-A."""
    H265 = "h265"
    """RFC 7798, from an Annex-B access unit: single NAL units and fragmentation units."""
    VP8 = "vp8"
    """RFC 7741, with a 15-bit picture ID."""
    VP9 = "vp9"
    """RFC 9628 in flexible mode with one layer and a 15-bit picture ID; frames and superframes."""
    AV1 = "av1"
    """AOM's RTP payload format, from a temporal unit in the low-overhead format: one OBU or fragment a packet."""


_NATIVE: Final[dict[str, int]] = {text(lib.dv_packetizer_name(i)): i for i in range(lib.dv_packetizer_count())}
_PLAIN: Final = int(lib.DV_PACKETIZER_PLAIN)


def native_packetizer(packetizer: Packetizer | str | None) -> int:
    """The C layer's number of a ``packetizer`` argument. None cuts anywhere.

    Raises ValueError that names the packetizers, TypeError for what is no name.
    """
    if packetizer is None:
        return _PLAIN
    if not isinstance(packetizer, str):
        message = f"packetizer must be a Packetizer, its name or None, not {type(packetizer).__name__}"
        raise TypeError(message)
    try:
        return _NATIVE[Packetizer(packetizer)]
    except ValueError:
        message = f"packetizer is {packetizer!r}; the packetizers are {', '.join(Packetizer)}"
        raise ValueError(message) from None
