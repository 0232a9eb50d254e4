"""What is found of each packet by itself."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from dvcrypto.diagnosis import Diagnosis
from dvcrypto.modes import Mode

_NO_MEDIA: Final = {"keep-alive", "discovery"}


class Datagram(NamedTuple):
    """A datagram as it was seen. Addresses have their port, and are empty for a packet without a capture."""

    number: int
    time: float | None
    source: str
    destination: str
    payload: bytes


@dataclass(slots=True)
class Row:
    """A packet, and what was found of it."""

    number: int
    time: float | None
    """Seconds since the first record of the capture."""
    source: str
    destination: str
    length: int
    kind: str
    ssrc: int | None
    sequence: int | None
    packet_type: int | None
    """The payload type of RTP, the packet type of RTCP."""
    nonce: str
    """The last 4 bytes, in hexadecimal; empty where it is no media."""
    mode: Mode | None
    verdict: str
    """``opens``, ``not_media``, or the name of what is wrong with it."""
    reason: str
    """Why it does not open, in a sentence."""
    notes: list[str]
    """What is remarkable beside other packets, and inside of it."""

    @property
    def failed(self) -> bool:
        """Whether it is media, or nothing known, and does not open as it should."""
        return self.verdict not in {"opens", "not_media"}

    @property
    def is_remarkable(self) -> bool:
        """Whether there is more to say of it than that it opens."""
        return self.failed or bool(self.notes)


def row_of(datagram: Datagram, diagnosis: Diagnosis) -> Row:
    """What is known of one packet by itself."""
    payload, kind = datagram.payload, diagnosis.kind
    is_rtp, is_media = kind == "rtp", kind in {"rtp", "rtcp"}
    ssrc_at = 8 if is_rtp else 4
    return Row(
        number=datagram.number,
        time=datagram.time,
        source=datagram.source,
        destination=datagram.destination,
        length=len(payload),
        kind=kind,
        ssrc=int.from_bytes(payload[ssrc_at : ssrc_at + 4], "big") if is_media else None,
        sequence=int.from_bytes(payload[2:4], "big") if is_rtp else None,
        packet_type=(payload[1] & 0x7F if is_rtp else payload[1]) if is_media else None,
        nonce=payload[-4:].hex() if is_media else "",
        mode=diagnosis.mode,
        verdict=_verdict(diagnosis),
        reason="" if kind in _NO_MEDIA else diagnosis.reason,
        notes=[],
    )


def _verdict(diagnosis: Diagnosis) -> str:
    if diagnosis.is_right:
        return "opens"
    if diagnosis.kind in _NO_MEDIA:
        return "not_media"
    if diagnosis.mistake is not None:
        return diagnosis.mistake.value
    if diagnosis.mode is None:
        return "no_packet"
    return "bad_padding" if "padding" in diagnosis.reason else "bad_extension"
