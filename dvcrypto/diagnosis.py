"""Why a packet does not open: the mistakes that senders make, tried one by one."""

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from dvcrypto import _buffers as buffers
from dvcrypto._tracebacks import keyless
from dvcrypto._trial import Cipher, Trial
from dvcrypto.modes import Mode, as_mode
from dvcrypto.opening import OpenedPacket, Opener, Status
from dvcrypto.rtp import RtcpHeader, RtpHeader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer


class Mistake(enum.StrEnum):
    """What a sender did wrong. The packet was sealed in exactly this way, with the right key."""

    OTHER_MODE = "other_mode"
    AAD_FIRST_12 = "aad_first_12"
    AAD_WITHOUT_CSRCS = "aad_without_csrcs"
    AAD_EMPTY = "aad_empty"
    AAD_WITH_EXTENSION_BODY = "aad_with_extension_body"
    EXTENSION_CLEAR = "extension_clear"
    NONCE_SWAPPED = "nonce_swapped"
    NONCE_RIGHT_ALIGNED = "nonce_right_aligned"
    NONCE_IN_MIDDLE = "nonce_in_middle"
    NONCE_12 = "nonce_12"
    NONCE_WHOLE = "nonce_whole"
    NONCE_IN_FRONT = "nonce_in_front"
    TAG_AND_NONCE_SWAPPED = "tag_and_nonce_swapped"
    TAG_IN_FRONT = "tag_in_front"
    RTCP_AS_RTP = "rtcp_as_rtp"
    RTP_AS_RTCP = "rtp_as_rtcp"
    XSALSA20_SUFFIX = "xsalsa20_suffix"
    XSALSA20_LITE = "xsalsa20_lite"
    XSALSA20 = "xsalsa20"
    WRONG_KEY = "wrong_key"

    @property
    def explanation(self) -> str:
        """What it is, and what would be right, in a sentence."""
        return _EXPLANATIONS[self]


_EXPLANATIONS: Final = {
    Mistake.OTHER_MODE: "sealed in the other mode: the session description says which one it is",
    Mistake.AAD_FIRST_12: (
        "authenticated with the first 12 bytes only: the associated data is the whole clear header, with CSRCs and the "
        "extension's 4 bytes of profile and length"
    ),
    Mistake.AAD_WITHOUT_CSRCS: (
        "authenticated without the CSRCs: they are part of the clear header, and so of the associated data"
    ),
    Mistake.AAD_EMPTY: "authenticated without associated data: that is the clear header",
    Mistake.AAD_WITH_EXTENSION_BODY: (
        "authenticated with the extension's body: only its 4 bytes of profile and length are associated data"
    ),
    Mistake.EXTENSION_CLEAR: (
        "the extension's body was left clear, as SRTP does: here it is encrypted, in front of the payload"
    ),
    Mistake.NONCE_SWAPPED: "the nonce's 4 bytes have another order on the wire than in the nonce: copy them",
    Mistake.NONCE_RIGHT_ALIGNED: "the nonce's 4 bytes were put at its end: they are its first, and zeros follow",
    Mistake.NONCE_IN_MIDDLE: "the nonce's 4 bytes were put in its middle: they are its first, and zeros follow",
    Mistake.NONCE_12: "sealed by ChaCha20-Poly1305 with a nonce of 12 bytes: XChaCha20-Poly1305 takes 24",
    Mistake.NONCE_WHOLE: "the whole nonce stands on the wire: only its first 4 bytes do",
    Mistake.NONCE_IN_FRONT: "the nonce stands in front of the ciphertext: it is the packet's last 4 bytes",
    Mistake.TAG_AND_NONCE_SWAPPED: "the nonce stands in front of the tag: the tag comes first, then the nonce",
    Mistake.TAG_IN_FRONT: "the tag stands in front of the ciphertext: it follows it",
    Mistake.RTCP_AS_RTP: "RTCP that was sealed as RTP: of RTCP, the first 8 bytes are clear, and the associated data",
    Mistake.RTP_AS_RTCP: "RTP that was sealed as RTCP, with 8 bytes of clear header",
    Mistake.XSALSA20_SUFFIX: "sealed in the old mode xsalsa20_poly1305_suffix, refused since November 2024",
    Mistake.XSALSA20_LITE: "sealed in the old mode xsalsa20_poly1305_lite, refused since November 2024",
    Mistake.XSALSA20: "sealed in the old mode xsalsa20_poly1305, refused since November 2024",
    Mistake.WRONG_KEY: "it fits no known mistake: most likely another key, or the packet was changed on its way",
}


class Field(NamedTuple):
    """Some bytes of a packet, as a receiver reads them."""

    name: str
    start: int
    end: int
    """Behind the last byte."""
    meaning: str
    """Their value, in words; empty for bytes that mean nothing by themselves."""


class Diagnosis(NamedTuple):
    """What a packet is, and why it does not open."""

    kind: str
    """``rtp``, ``rtcp``, ``keep-alive``, ``discovery`` or ``unknown``."""
    mode: Mode | None
    """In which it was sealed, as far as that is known."""
    mistake: Mistake | None
    """Why it does not open; None where it does, and where it is no packet at all."""
    reason: str
    """A sentence; empty where all is right."""
    opened: OpenedPacket | None
    """The packet, where it opens as it should."""
    fields: tuple[Field, ...]
    """All bytes, in order."""

    @property
    def is_right(self) -> bool:
        """Whether it opens, in the mode that was asked for."""
        return self.opened is not None and self.mistake is None


_NONCE_LENS: Final = {Mode.AES256_GCM: 12, Mode.XCHACHA20_POLY1305: 24}
_SUFFIX_LEN: Final = 4
_TAG_LEN: Final = 16
_RTCP_CLEAR_LEN: Final = 8
_RTP_FIXED_LEN: Final = 12
_DISCOVERY_LEN: Final = 74
_RTCP_NAMES: Final = {
    200: "sender report",
    201: "receiver report",
    202: "source description",
    203: "goodbye",
    204: "application",
    205: "transport feedback",
    206: "payload feedback",
}
_NO_MEDIA: Final = {8: "keep-alive", _DISCOVERY_LEN: "discovery"}


class _Attempt(NamedTuple):
    """One way to seal, and the parts of a packet that was sealed so."""

    mistake: Mistake
    nonce: bytes
    aad: bytes
    sealed: bytes
    """Ciphertext and tag."""
    cipher: Cipher


@keyless
def diagnose(packet: "Buffer", key: "Buffer | Sequence[int]", *, mode: Mode | str | None = None) -> Diagnosis:
    """Say what a sealed packet is, whether it opens under this key, and if not, which mistake its sender made.

    ``mode`` is that of the session description; without it a packet is right in either mode. The key is as Sealer's.

    Raises ValueError or TypeError for a key or mode that is none, or a packet that is not contiguous bytes.

    >>> packet = bytes.fromhex("8078000100000000000a0d10") + bytes(40)
    >>> diagnose(packet, bytes(32)).mistake
    <Mistake.WRONG_KEY: 'wrong_key'>
    """
    return Diagnoser(key, mode=mode).diagnose(packet)


class Diagnoser:
    """Diagnoses many packets under one key: see ``diagnose``."""

    @keyless
    def __init__(self, key: "Buffer | Sequence[int]", *, mode: Mode | str | None = None) -> None:
        """As ``diagnose``."""
        self._asked = None if mode is None else as_mode("mode", mode)
        self._modes = sorted(Mode, key=lambda each: each != self._asked)
        self._openers = {each: Opener(each, key) for each in self._modes}
        self._trial = Trial(key)

    def diagnose(self, packet: "Buffer") -> Diagnosis:
        """As the function of this name."""
        data = buffers.read("packet", packet)
        results = {mode: opener.open_burst([data]) for mode, opener in self._openers.items()}
        kind, fields = _kind(data), lay_out(data)
        statuses = {mode: result.statuses[0] for mode, result in results.items()}
        reasons = {
            mode: (result.reason(0) or "").replace("packets[0]", "the packet", 1) for mode, result in results.items()
        }
        for mode, result in results.items():
            if result[0] is not None:
                mistake = None if self._asked in {None, mode} else Mistake.OTHER_MODE
                return Diagnosis(kind, mode, mistake, mistake.explanation if mistake else "", result[0], fields)
            if statuses[mode] is Status.MALFORMED and Status.BAD_TAG in statuses.values():  # found behind the tag
                return Diagnosis(kind, mode, None, reasons[mode], None, fields)
        reason = reasons[self._modes[0]]
        if Status.NOT_MEDIA in statuses.values():
            return Diagnosis(_NO_MEDIA[len(data)], None, None, reason, None, fields)
        for sealed_in, mistake in self._mistakes(data) if kind != "unknown" else ():
            return Diagnosis(kind, sealed_in, mistake, mistake.explanation, None, fields)
        if Status.BAD_TAG in statuses.values():
            return Diagnosis(kind, None, Mistake.WRONG_KEY, Mistake.WRONG_KEY.explanation, None, fields)
        return Diagnosis("unknown", None, None, reason, None, fields)

    def _mistakes(self, packet: bytes) -> Iterator[tuple[Mode | None, Mistake]]:
        """Those under which the packet opens."""
        if len(packet) < _RTP_FIXED_LEN + _TAG_LEN:
            return
        for mode in self._modes:
            for attempt in _attempts(packet, mode):
                if self._trial.opens(attempt.cipher, attempt.nonce, attempt.aad, attempt.sealed):
                    yield mode, attempt.mistake
            if self._has_extension_body_authenticated(packet, mode):
                yield mode, Mistake.AAD_WITH_EXTENSION_BODY
        for attempt in _old_attempts(packet):
            if self._trial.opens(attempt.cipher, attempt.nonce, attempt.aad, attempt.sealed):
                yield None, attempt.mistake

    def _has_extension_body_authenticated(self, packet: bytes, mode: Mode) -> bool:
        """The body is encrypted, so that the keystream is needed to know what was authenticated."""
        clear, body = _clear_len(packet), _extension_len(packet)
        sealed, nonce = packet[clear:-_SUFFIX_LEN], packet[-_SUFFIX_LEN:].ljust(_NONCE_LENS[mode], b"\0")
        if not 0 < body <= len(sealed) - _TAG_LEN:
            return False
        keystream = self._trial.keystream(Cipher[mode.name], nonce, body)
        plain = bytes(a ^ b for a, b in zip(sealed[:body], keystream, strict=True))
        return self._trial.opens(Cipher[mode.name], nonce, packet[:clear] + plain, sealed)


def _kind(packet: bytes) -> str:
    if len(packet) < _RTCP_CLEAR_LEN or packet[0] >> 6 != 2:
        return "unknown"
    return "rtcp" if _is_rtcp(packet) else "rtp"


def _is_rtcp(packet: bytes) -> bool:
    return packet[1] in range(192, 224)  # RFC 5761, section 4


def _clear_len(packet: bytes, *, as_rtp: bool = False) -> int:
    if _is_rtcp(packet) and not as_rtp:
        return _RTCP_CLEAR_LEN
    return _RTP_FIXED_LEN + 4 * (packet[0] & 0x0F) + (4 if packet[0] & 0x10 else 0)


def _extension_len(packet: bytes) -> int:
    end = _clear_len(packet)
    if _is_rtcp(packet) or not packet[0] & 0x10 or len(packet) < end:
        return 0
    return 4 * int.from_bytes(packet[end - 2 : end], "big")


def _attempts(packet: bytes, mode: Mode) -> Iterator[_Attempt]:
    """Each differs from what is right in one thing."""
    clear, nonce_len, cipher = _clear_len(packet), _NONCE_LENS[mode], Cipher[mode.name]
    suffix = packet[-_SUFFIX_LEN:]
    nonce, header, sealed = suffix.ljust(nonce_len, b"\0"), packet[:clear], packet[clear:-_SUFFIX_LEN]

    for mistake, aad, start in _other_aads(packet):
        yield _Attempt(mistake, nonce, aad, packet[start:-_SUFFIX_LEN], cipher)
    for offset in range(1, nonce_len - _SUFFIX_LEN + 1):
        at_end = offset == nonce_len - _SUFFIX_LEN
        where = Mistake.NONCE_RIGHT_ALIGNED if at_end else Mistake.NONCE_IN_MIDDLE
        yield _Attempt(where, (bytes(offset) + suffix).ljust(nonce_len, b"\0"), header, sealed, cipher)
    swapped = suffix[::-1]
    yield _Attempt(Mistake.NONCE_SWAPPED, swapped.ljust(nonce_len, b"\0"), header, sealed, cipher)
    yield _Attempt(Mistake.NONCE_RIGHT_ALIGNED, swapped.rjust(nonce_len, b"\0"), header, sealed, cipher)
    for whole_len in {12, nonce_len}:
        whole = packet[-whole_len:].ljust(nonce_len, b"\0")
        yield _Attempt(Mistake.NONCE_WHOLE, whole, header, packet[clear:-whole_len], cipher)
    if mode is Mode.XCHACHA20_POLY1305:
        for short in (suffix.ljust(12, b"\0"), suffix.rjust(12, b"\0")):
            yield _Attempt(Mistake.NONCE_12, short, header, sealed, Cipher.CHACHA20_POLY1305)
        whole, text = packet[-12:], packet[clear:-12]
        yield _Attempt(Mistake.NONCE_12, whole, header, text, Cipher.CHACHA20_POLY1305)
    in_front = packet[clear : clear + _SUFFIX_LEN].ljust(nonce_len, b"\0")
    yield _Attempt(Mistake.NONCE_IN_FRONT, in_front, header, packet[clear + _SUFFIX_LEN :], cipher)
    before_tag = packet[-_TAG_LEN - _SUFFIX_LEN : -_TAG_LEN].ljust(nonce_len, b"\0")
    text = packet[clear : -_TAG_LEN - _SUFFIX_LEN] + packet[-_TAG_LEN:]
    yield _Attempt(Mistake.TAG_AND_NONCE_SWAPPED, before_tag, header, text, cipher)
    yield _Attempt(Mistake.TAG_IN_FRONT, nonce, header, sealed[_TAG_LEN:] + sealed[:_TAG_LEN], cipher)


def _other_aads(packet: bytes) -> Iterator[tuple[Mistake, bytes, int]]:
    """Other associated data, and where the ciphertext starts with it."""
    clear, fixed = _clear_len(packet), packet[:_RTP_FIXED_LEN]
    if _is_rtcp(packet):
        for start in {_RTP_FIXED_LEN, _clear_len(packet, as_rtp=True)}:
            yield Mistake.RTCP_AS_RTP, packet[:start], start
        yield Mistake.AAD_EMPTY, b"", clear
        return
    csrcs_end = _RTP_FIXED_LEN + 4 * (packet[0] & 0x0F)
    body = _extension_len(packet)
    if csrcs_end > _RTP_FIXED_LEN:
        yield Mistake.AAD_WITHOUT_CSRCS, fixed + packet[csrcs_end:clear], clear
    if clear > _RTP_FIXED_LEN:
        yield Mistake.AAD_FIRST_12, fixed, clear
        yield Mistake.AAD_FIRST_12, fixed, _RTP_FIXED_LEN
        yield Mistake.AAD_EMPTY, b"", _RTP_FIXED_LEN
    yield Mistake.AAD_EMPTY, b"", clear
    if body:
        for aad in (packet[: clear + body], packet[:clear], fixed):
            yield Mistake.EXTENSION_CLEAR, aad, clear + body
    yield Mistake.RTP_AS_RTCP, packet[:_RTCP_CLEAR_LEN], _RTCP_CLEAR_LEN


def _old_attempts(packet: bytes) -> Iterator[_Attempt]:
    """The modes before November 2024: NaCl's secretbox, with the tag in front and without associated data."""
    header_len = _RTCP_CLEAR_LEN if _is_rtcp(packet) else _RTP_FIXED_LEN
    for mistake, nonce, text in (
        (Mistake.XSALSA20_SUFFIX, packet[-24:], packet[header_len:-24]),
        (Mistake.XSALSA20_LITE, packet[-4:].ljust(24, b"\0"), packet[header_len:-4]),
        (Mistake.XSALSA20, packet[:header_len].ljust(24, b"\0"), packet[header_len:]),
    ):
        yield _Attempt(mistake, nonce, b"", text, Cipher.XSALSA20_POLY1305)


def lay_out(packet: bytes) -> tuple[Field, ...]:
    """The bytes of a packet by field, as a receiver reads them: all of them, in order."""
    kind = _kind(packet)
    if len(packet) == _DISCOVERY_LEN and packet[0] == 0 and packet[1] in {1, 2}:
        return tuple(_discovery_fields(packet))
    if kind == "unknown" or len(packet) < _clear_len(packet) + _TAG_LEN + _SUFFIX_LEN:
        return (Field("all bytes", 0, len(packet), ""),)
    fields = list(_rtcp_fields(packet) if kind == "rtcp" else _rtp_fields(packet))
    end = len(packet)
    fields += [
        Field("ciphertext", _clear_len(packet), end - 20, f"{end - 20 - _clear_len(packet)} bytes"),
        Field("tag", end - 20, end - 4, ""),
        Field("nonce", end - 4, end, _counted(packet[-4:])),
    ]
    return tuple(field for field in fields if field.end > field.start)


def _rtp_fields(packet: bytes) -> Iterator[Field]:
    header = RtpHeader.read(packet)
    bits = [f"version {header.version}", f"{len(header.csrcs)} CSRCs"]
    bits += ["padding"] if header.padding else []
    bits += ["extension"] if packet[0] & 0x10 else []
    yield Field("bits", 0, 1, ", ".join(bits))
    yield Field("payload type", 1, 2, f"{header.payload_type}{', marker' if header.marker else ''}")
    yield Field("sequence", 2, 4, str(header.sequence))
    yield Field("timestamp", 4, 8, str(header.timestamp))
    yield Field("SSRC", 8, 12, str(header.ssrc))
    for index, csrc in enumerate(header.csrcs):
        yield Field("CSRC", 12 + 4 * index, 16 + 4 * index, str(csrc))
    if packet[0] & 0x10:
        end = _clear_len(packet)
        yield Field("extension profile", end - 4, end - 2, f"0x{packet[end - 4 : end - 2].hex()}")
        yield Field("extension length", end - 2, end, f"{_extension_len(packet) // 4} words of 4 bytes")


def _rtcp_fields(packet: bytes) -> Iterator[Field]:
    header = RtcpHeader.read(packet)
    padding = ", padding" if header.padding else ""
    yield Field("bits", 0, 1, f"version {header.version}, count {header.item_count}{padding}")
    yield Field("packet type", 1, 2, f"{header.packet_type} {_RTCP_NAMES.get(header.packet_type, '')}".strip())
    yield Field("length", 2, 4, f"{header.length}: {4 * (header.length + 1)} bytes")
    yield Field("SSRC", 4, 8, str(header.ssrc))


def _discovery_fields(packet: bytes) -> Iterator[Field]:
    yield Field("type", 0, 2, {1: "1: request", 2: "2: response"}[packet[1]])
    yield Field("length", 2, 4, str(int.from_bytes(packet[2:4], "big")))
    yield Field("SSRC", 4, 8, str(int.from_bytes(packet[4:8], "big")))
    yield Field("address", 8, 72, packet[8:72].rstrip(b"\0").decode("ascii", "replace"))
    yield Field("port", 72, 74, str(int.from_bytes(packet[72:], "big")))


def _counted(suffix: bytes) -> str:
    little, big = int.from_bytes(suffix, "little"), int.from_bytes(suffix, "big")
    return f"0x{little:08x} little-endian, 0x{big:08x} big"
