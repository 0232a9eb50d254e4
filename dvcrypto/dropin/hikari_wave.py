"""hikari-wave, which sends and records.

Its ``VoiceConnection`` keeps a function that seals and one that opens, and every session description sets both anew.
The one that seals is told a nonce that is always 0.
"""

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any, Final

from dvcrypto.dropin._library import Library
from dvcrypto.dropin._receiving import NO_SPEECH, ReaderOpener
from dvcrypto.dropin._replacing import Replacement, method, relied_on
from dvcrypto.dropin._sending import MODES, ClientSealer, choose
from dvcrypto.errors import NoCommonMode, OpenError
from dvcrypto.opening import OpenedPacket

_CONNECTION = "hikariwave.connection:VoiceConnection"
_PLAYER = "hikariwave.audio.player:AudioPlayer"
_SERVER = "hikariwave.networking.server:VoiceServer"
_ENCRYPT = "hikariwave.internal.encrypt:Encrypt"

_READY: Final = 2  # the gateway's operation codes
_SESSION_DESCRIPTION: Final = 4


def _replacements() -> list[Replacement]:
    play, receive = "_generate_rtp _encryption_mode _secret _nonce", "_decryption_mode _secret check_ssrc_connected"
    return [
        method(_CONNECTION, "_connect", "self", "_ready _gateway connect", _choosing),
        method(_PLAYER, "_generate_rtp", "self", "_sequence _timestamp _ssrc", _sealing),
        method(_SERVER, "_rtp_packet", "self data", receive, _receiving),
        relied_on(_PLAYER, "_play_internal", "self source origin", play),
        *(relied_on(_ENCRYPT, f"encrypt_{mode}", "secret_key nonce header audio", "") for mode in MODES),
        *(relied_on(_ENCRYPT, f"decrypt_{mode}", "secret_key audio", "") for mode in MODES),
    ]


def _choosing(original: Callable[[Any], Awaitable[None]]) -> Any:
    """Wraps what connects, and takes the first of the server's modes: it finds only the one of our choice.

    The library would wait without end where there is none.
    """

    async def connect(connection: Any) -> None:
        ready, refusals = connection._gateway._callbacks[_READY], []

        async def choose_mode(payload: Any) -> None:
            try:
                mode = choose(payload.modes)
            except NoCommonMode as refusal:
                refusals.append(refusal)
                connection._ready.set()  # so that nobody waits for it any longer
                raise
            await ready(dataclasses.replace(payload, modes=[mode]))

        connection._gateway.set_callback(_READY, choose_mode)
        await original(connection)
        if refusals:
            await connection._disconnect()
            raise refusals[0]

    return connect


class _Session:
    """What a connection seals and opens with, to its end, in place of the library's functions."""

    def __init__(self, connection: Any) -> None:
        """Take their place now, and at every session description."""
        self.opened: OpenedPacket | None = None
        """The packet that ``decrypt`` is called for."""
        self._connection = connection
        self._opener = ReaderOpener()
        self._sealer = ClientSealer(used=0, ended=self._end)  # the library's nonce, 0, is none of ours
        self._mode = ""
        self._take_over()
        describe = connection._gateway._callbacks[_SESSION_DESCRIPTION]

        async def session_description(payload: Any) -> None:
            await describe(payload)
            self._take_over()

        connection._gateway.set_callback(_SESSION_DESCRIPTION, session_description)

    def _take_over(self) -> None:
        self._mode = self._connection._encryption_mode.__name__.removeprefix("encrypt_")
        self._connection._encryption_mode = self.encrypt
        self._connection._decryption_mode = self.decrypt

    def _end(self) -> None:
        client = self._connection._client
        client._tasks.create(client.disconnect(guild_id=self._connection._guild_id), name="dvcrypto-end")

    def encrypt(self, secret_key: bytes, _nonce: int, header: bytes, audio: bytes) -> bytes:
        """Seal what the player sends."""
        return self._sealer.seal(self._mode, secret_key, header, audio)

    def decrypt(self, _secret_key: bytes, audio: bytes) -> bytes:
        """The payload of the packet that was opened; else it is opened here. Raises OpenError."""
        packet = self.opened or self.open(audio)
        if packet is None:
            raise OpenError(NO_SPEECH)
        return packet.payload

    def open(self, datagram: bytes) -> OpenedPacket | None:
        """Open a packet; None where that fails or there is no speech in it."""
        return self._opener.open_speech(self._mode, self._connection._secret, datagram)


def _session(connection: Any) -> _Session | None:
    """A connection's session; None while it has no key."""
    if connection._encryption_mode is None:
        return None
    session = getattr(connection._encryption_mode, "__self__", None)
    return session if isinstance(session, _Session) else _Session(connection)


def _sealing(original: Callable[[Any], bytes]) -> Any:
    """Wraps what makes a packet's header: right after it the player seals, and finds us there."""

    def generate_rtp(player: Any) -> bytes:
        _session(player._connection)
        return original(player)

    return generate_rtp


def _receiving(original: Callable[[Any, bytes], None]) -> Any:
    """Wraps what takes a datagram, records it, and notes who speaks: it gets only what opens, and is speech."""

    def rtp_packet(server: Any, data: bytes) -> None:
        session = _session(server._connection)
        packet = session.open(data) if session else None
        if session and packet:
            session.opened = packet
            try:
                original(server, data)
            finally:
                session.opened = None

    return rtp_packet


LIBRARIES = (Library("hikari-wave", "hikariwave.connection", None, ("0.7.0a1",), _replacements),)
