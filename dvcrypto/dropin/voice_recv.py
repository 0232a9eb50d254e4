"""discord-ext-voice-recv, which receives for discord.py."""

from dvcrypto.dropin._library import Library
from dvcrypto.dropin._receiving import decrypting, receiving
from dvcrypto.dropin._replacing import Replacement, method

_READER = "discord.ext.voice_recv.reader"
_RTCP_TYPES = range(200, 205)


def _replacements() -> list[Replacement]:
    callback = "rtp decryptor packet_router voice_client"
    return [
        *decrypting(f"{_READER}:PacketDecryptor"),
        method(
            f"{_READER}:AudioReader", "callback", "self packet_data", callback, receiving("voice_client", _RTCP_TYPES)
        ),
    ]


LIBRARIES = (Library("discord-ext-voice-recv", _READER, None, ("0.5.2a179",), _replacements),)
