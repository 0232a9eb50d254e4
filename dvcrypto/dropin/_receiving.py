"""What the backends for receivers share: reading all that waits on a socket, opening it, and handing it on."""

import logging
import math
import select
import struct
import time
from collections.abc import Callable, Container, Sequence
from types import MethodType
from typing import Any, Final

from dvcrypto.dropin._replacing import Replacement, addition, method, value
from dvcrypto.dropin._sending import MODES, XCHACHA20, fingerprint
from dvcrypto.errors import OpenError
from dvcrypto.opening import OpenedPacket, Opener, Status

_log = logging.getLogger(__name__)

_REPLAY_WINDOW: Final = 1024
_LONGEST_DATAGRAM: Final = 4096  # the most that a library reads
_LONGEST_BURST: Final = 64
_SELECT_SECONDS: Final = 30
_CLOSED_SECONDS: Final = 0.05  # until a closed socket may have been replaced by another one
_WARNING_SECONDS: Final = 10  # between two of wrong tags
NO_SPEECH: Final = "the packet does not open, or there is no speech in it"


def read_waiting(reader: Any) -> None:
    """The loop of a socket reader's thread: hands on, in one burst, all datagrams that wait."""
    while not reader._end.is_set():
        if not reader._running.is_set():
            reader._running.wait()
        elif datagrams := drain(reader.state.socket, _SELECT_SECONDS):
            for callback in tuple(reader._callbacks):
                _deliver(callback, datagrams)


def drain(socket: Any, seconds: float) -> list[bytes]:
    """Wait for a datagram, and read it with all that are behind it; nothing when none comes or the socket is closed."""
    datagrams: list[bytes] = []
    try:
        if select.select([socket], [], [], seconds)[0]:
            while len(datagrams) < _LONGEST_BURST:
                datagrams.append(socket.recv(_LONGEST_DATAGRAM))
    except BlockingIOError:
        pass
    except (ValueError, TypeError, OSError) as error:
        _log.debug("the voice socket cannot be read: %s: %s", type(error).__name__, error)
        if not datagrams:
            time.sleep(_CLOSED_SECONDS)
    return datagrams


def _deliver(callback: Any, datagrams: list[bytes]) -> None:
    take_burst = getattr(callback, "take_burst", None)
    if take_burst:
        call(take_burst, callback.__self__, datagrams)
        return
    for datagram in datagrams:
        call(callback, datagram)


def call(function: Callable[..., object], *arguments: object) -> None:
    """Call it; what it raises goes to the log."""
    try:
        function(*arguments)
    except Exception:
        _log.exception("%s failed", function)


class ReaderOpener:
    """Opens for one receiver, under the key that its connection has just then, and under the one before.

    Packets that were on their way when the key changed open too, and none opens twice.
    """

    def __init__(self) -> None:
        """Without a key yet."""
        self._openers: list[tuple[tuple[str, bytes], Opener]] = []  # the newest first
        self._mode: str | None = None
        self._key: object = None
        self._warned = -math.inf  # when, by time.monotonic
        self._unwarned = 0

    def open_burst(self, mode: str, key: Any, datagrams: Sequence[bytes]) -> list[OpenedPacket | None]:
        """Open a burst; None for what did not open, with the reason in the log. Nothing opens while there is no key."""
        if not key:
            return [None] * len(datagrams)
        if key is not self._key or mode != self._mode:
            self._renew(mode, key)
        (_, opener), *older = self._openers
        burst = opener.open_burst(datagrams)
        packets = list(burst)
        for index, status in enumerate(burst.statuses):
            if status is Status.BAD_TAG and older:
                packets[index] = _open_or_none(older[0][1], datagrams[index])
            if packets[index] is None and status is not Status.NOT_MEDIA:
                _log.debug("a packet of %d bytes did not open: %s", len(datagrams[index]), burst.reason(index))
                if status is Status.BAD_TAG:
                    self._warn(len(datagrams[index]))
        return packets

    def open_speech(self, mode: str, key: Any, datagram: bytes) -> OpenedPacket | None:
        """Open one packet, as a burst; None also for RTCP, and for RTP without payload."""
        if not key:
            return None
        if key is not self._key or mode != self._mode:
            self._renew(mode, key)
        packet = _open_or_none(self._openers[0][1], datagram)
        if packet is None:
            (packet,) = self.open_burst(mode, key, [datagram])  # which tries the key before, and tells why
        return packet if packet and not packet.is_rtcp and packet.payload else None

    def _warn(self, length: int) -> None:
        """Of a wrong tag, now and then: who knows the port can send any number of them."""
        self._unwarned += 1
        if time.monotonic() - self._warned >= _WARNING_SECONDS:
            message = "packets with a wrong tag: %d, the last of %d bytes; another key or mode, or they were changed"
            _log.warning(message, self._unwarned, length)
            self._warned, self._unwarned = time.monotonic(), 0

    def _renew(self, mode: str, key: Any) -> None:
        known_by = (mode, fingerprint(key))
        known = [entry for entry in self._openers if entry[0] == known_by]
        others = [entry for entry in self._openers if entry[0] != known_by]
        self._openers = [*(known or [(known_by, Opener(mode, key, replay_window=_REPLAY_WINDOW))]), *others[:1]]
        self._mode, self._key = mode, key


def _open_or_none(opener: Opener, datagram: bytes) -> OpenedPacket | None:
    try:
        return opener.open(datagram)
    except OpenError:
        return None


class _Callback:
    """``callback`` of a reader class: ours for readers whose decryptor is ours, which then keep it to their end.

    A reader must find, when it stops, the very callback that it has registered when it started, though the backend was
    installed or uninstalled between.
    """

    def __init__(self, original: Callable[[Any, bytes], None], own: Callable[[Any, bytes], None]) -> None:
        """``original`` is the library's function."""
        self._original = original
        self._own = own

    def __get__(self, reader: Any, owner: type | None = None) -> Any:
        if reader is None:
            return self
        if not is_ours(reader.decryptor):
            return MethodType(self._original, reader)
        return vars(reader).setdefault("callback", MethodType(self._own, reader))


def receiving(client: str, rtcp_types: Container[int]) -> Callable[[Any], Any]:
    """Wraps a reader's ``callback(packet)``, which is called with what opens only; ``decrypt`` finds it opened already.

    ``client`` is the reader's attribute that knows mode and key; ``rtcp_types`` are those that the library can read.
    """

    def make(original: Callable[[Any, bytes], None]) -> Any:
        def take_burst(reader: Any, datagrams: list[bytes]) -> None:
            opener = vars(reader).setdefault("_dvcrypto_opener", ReaderOpener())
            connection = getattr(reader, client)
            packets = opener.open_burst(connection.mode, connection.secret_key, datagrams)
            for datagram, packet in zip(datagrams, packets, strict=True):
                if packet is not None and _is_wanted(packet, rtcp_types):
                    reader.decryptor._dvcrypto_opened = packet
                    call(original, reader, packet.plain if packet.is_rtcp else datagram)
                    vars(reader.decryptor).pop("_dvcrypto_opened", None)

        def callback(reader: Any, packet_data: bytes) -> None:
            take_burst(reader, [packet_data])

        callback.take_burst = take_burst  # type: ignore[attr-defined]
        return _Callback(original, callback)

    return make


def _is_wanted(packet: OpenedPacket, rtcp_types: Container[int]) -> bool:
    """Whether the library has a use for it: not for RTCP that it cannot read, nor for RTP without payload."""
    return packet.rtcp_header.packet_type in rtcp_types if packet.is_rtcp else bool(packet.payload)


def decrypting(owner: str) -> list[Replacement]:
    """What is replaced in a ``PacketDecryptor``: its box, and the methods for each mode."""
    rtp, rtcp = "_decrypt_rtp_", "_decrypt_rtcp_"
    others = [mode for mode in MODES if mode != XCHACHA20]
    return [
        value(owner, "supported_modes", list(MODES), lambda modes: isinstance(modes, list) and XCHACHA20 in modes),
        method(owner, "_make_box", "self secret_key", "mode Aead", _making_box),
        method(owner, rtp + XCHACHA20, "self packet", "adjust_rtpsize box header", lambda _: _decrypt_rtp),
        method(owner, rtcp + XCHACHA20, "self data", "box", lambda _: _decrypt_rtcp),
        *(addition(owner, rtp + mode, _decrypt_rtp) for mode in others),
        *(addition(owner, rtcp + mode, _decrypt_rtcp) for mode in others),
    ]


def is_ours(decryptor: Any) -> bool:
    """Whether a ``PacketDecryptor`` was made with our methods, which it looks up once: they want our box."""
    return any(getattr(bound, "__func__", None) is _decrypt_rtp for bound in vars(decryptor).values())


def _making_box(original: Callable[[Any, bytes], Any]) -> Any:
    def make_box(decryptor: Any, secret_key: bytes) -> Any:
        return Opener(decryptor.mode, secret_key) if is_ours(decryptor) else original(decryptor, secret_key)

    return make_box


def _decrypt_rtp(decryptor: Any, packet: Any) -> bytes:
    """The payload, without extension and padding. What is known of the packet besides is given to it."""
    csrcs = b"".join(csrc.to_bytes(4, "big") for csrc in packet.csrcs)
    opened = _opened(decryptor, lambda: bytes(packet.header) + csrcs + bytes(packet.data))
    packet.nonce = opened.nonce
    if extension := opened.extension:
        words = struct.unpack(f"!{len(extension.data) // 4}I", extension.data)
        packet.extension = packet._ext_header(extension.profile.to_bytes(2, "big"), len(words), words)
        packet.extension_data = extension.elements
    return opened.payload


def _decrypt_rtcp(decryptor: Any, data: bytes) -> bytes:
    """The whole plain packet, header included."""
    return _opened(decryptor, lambda: data).plain


def _opened(decryptor: Any, sealed: Callable[[], bytes]) -> OpenedPacket:
    """What ``receiving`` has just opened; else the packet is opened here. Raises PyNaCl's CryptoError."""
    opened: OpenedPacket | None = vars(decryptor).pop("_dvcrypto_opened", None)
    if opened is not None:
        return opened
    try:
        return decryptor.box.open(sealed())  # type: ignore[no-any-return]
    except OpenError as error:
        from nacl.exceptions import CryptoError

        raise CryptoError(str(error)) from error
