"""py-cord, which sends and receives."""

from collections.abc import Callable
from typing import Any

from dvcrypto.dropin._library import Library
from dvcrypto.dropin._receiving import decrypting, is_ours, receiving
from dvcrypto.dropin._replacing import Replacement, method
from dvcrypto.dropin.discord_py import choosing, sealing

_CLIENT = "discord.voice.client:VoiceClient"
_GATEWAY = "discord.voice.gateway:VoiceWebSocket"
_READER = "discord.voice.receive.reader"
_RTCP_TYPES = (200, 201)  # it takes 202 to 204 for RTCP too, and then reads them as RTP


def _replacements() -> list[Replacement]:
    decryptor, uses = f"{_READER}:PacketDecryptor", "dave_session update_extended_header ssrc_user_map"
    callback = "decode decryptor packet_router client"
    return [
        *sealing(_CLIENT, "_incr_nonce"),
        method(
            "discord.voice.gateway:VoiceWebSocket", "ready", "self data", "modes supported_modes", choosing("state")
        ),
        *decrypting(decryptor),
        method(decryptor, "decrypt_rtp", "self packet", uses, _before_dave),
        method(decryptor, "decrypt_rtcp", "self packet", "_decryptor_rtcp", lambda _: _decrypt_rtcp),
        method(f"{_READER}:AudioReader", "callback", "self packet_data", callback, receiving("client", _RTCP_TYPES)),
    ]


def _before_dave(original: Callable[[Any, Any], bytes | None]) -> Any:
    """Wraps the step that opens a packet and takes its end-to-end encryption (DAVE) off, which stays the library's.

    The library returns nothing where there is no DAVE, and takes the header extension off again after it.
    """

    def decrypt_rtp(decryptor: Any, packet: Any) -> bytes | None:
        if not is_ours(decryptor):
            return original(decryptor, packet)
        dave = decryptor.client._connection.dave_session
        if dave is None or not dave.ready:
            return decryptor._decryptor_rtp(packet)  # type: ignore[no-any-return]
        extended, packet.extended = packet.extended, False
        try:
            return original(decryptor, packet)
        finally:
            packet.extended = extended

    return decrypt_rtp


def _decrypt_rtcp(decryptor: Any, packet: bytes) -> bytes:
    """The plain packet. The library goes round for ever at its end; its reports have no end-to-end encryption."""
    return decryptor._decryptor_rtcp(packet)  # type: ignore[no-any-return]


LIBRARIES = (Library("py-cord", "discord.voice.client", "pycord", ("2.8.1",), _replacements),)
