"""discord.py and those that seal as it does: discord.py-self, disnake, nextcord.

Each has a ``VoiceClient`` with a method for each mode, ``_encrypt_`` and its name, and a gateway that takes the first
of the server's modes that the client supports.
"""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from dvcrypto.dropin._library import Library
from dvcrypto.dropin._receiving import read_waiting
from dvcrypto.dropin._replacing import Replacement, addition, method, value
from dvcrypto.dropin._sending import MODES, XCHACHA20, ClientSealer, choose
from dvcrypto.errors import NoCommonMode
from dvcrypto.modes import Mode

_taking_over = threading.Lock()


def encryptor(mode: str, counter: str) -> Callable[[Any, bytes, bytes], bytes]:
    """The method that seals a client's first packet; from then on the client has its own."""

    def encrypt(client: Any, header: bytes, data: bytes) -> bytes:
        with _taking_over:
            if f"_encrypt_{mode}" not in vars(client):
                _take_over(client, getattr(client, counter))
        return vars(client)[f"_encrypt_{mode}"](header, data)  # type: ignore[no-any-return]

    return encrypt


def _take_over(client: Any, used: int) -> None:
    def end() -> None:
        asyncio.run_coroutine_threadsafe(client.disconnect(force=True), client.loop)

    sealer = ClientSealer(used=used, ended=end)

    def encryptor_for(mode: str) -> Callable[[bytes, bytes], bytes]:
        return lambda header, data: sealer.seal(mode, client.secret_key, bytes(header), data)

    for mode in MODES:
        setattr(client, f"_encrypt_{mode}", encryptor_for(mode))


def choosing(connection: str) -> Callable[[Any], Any]:
    """Wraps the gateway's method that takes the first of the server's modes: it finds only the one of our choice.

    ``connection`` is the gateway's attribute that knows the client's modes. A client of a class with modes of its own
    takes one of them where the server has none of ours.
    """

    def make(original: Callable[[Any, dict[str, Any]], Awaitable[None]]) -> Any:
        async def ready(gateway: Any, data: dict[str, Any]) -> None:
            supported = getattr(gateway, connection).supported_modes
            try:
                modes = [choose(data["modes"], _receivable(supported))]
            except NoCommonMode:
                modes = [mode for mode in data["modes"] if mode in supported and mode not in MODES]
                if not modes:
                    raise
            await original(gateway, {**data, "modes": modes})

        return ready

    return make


def _receivable(modes: Sequence[str]) -> Sequence[str]:
    """Those that discord-ext-voice-recv can open too, which may be there and left as it is."""
    reader = sys.modules.get("discord.ext.voice_recv.reader")
    return [mode for mode in modes if reader is None or mode in reader.PacketDecryptor.supported_modes]


def _without_gcm(modes: Any) -> bool:
    return isinstance(modes, tuple) and XCHACHA20 in modes and Mode.AES256_GCM not in modes


def sealing(client: str, counter: str) -> list[Replacement]:
    """What is replaced in a ``VoiceClient`` whose nonces are counted in this attribute."""
    encrypt = f"_encrypt_{XCHACHA20}"
    others = [mode for mode in MODES if mode != XCHACHA20]
    return [
        value(client, "supported_modes", MODES, _without_gcm),
        method(client, encrypt, "self header data", "secret_key ciphertext", lambda _: encryptor(XCHACHA20, counter)),
        *(addition(client, f"_encrypt_{mode}", encryptor(mode, counter)) for mode in others),
    ]


def _voice_client(package: str, counter: str) -> list[Replacement]:
    module, client = f"{package}.voice_client", f"{package}.voice_client:VoiceClient"
    gateway = f"{package}.gateway:DiscordVoiceWebSocket"
    return [
        *sealing(client, counter),
        method(gateway, "initial_connection", "self data", "modes supported_modes", choosing("_connection")),
        # PyNaCl is not needed any more.
        value(module, "has_nacl", new=True, expected=lambda has: isinstance(has, bool)),
        value(client, "warn_nacl", new=False, expected=lambda warn: isinstance(warn, bool)),
    ]


def _discord() -> list[Replacement]:
    uses = "select socket recv _callbacks _running _end"
    return [
        *_voice_client("discord", "_incr_nonce"),
        method("discord.voice_state:SocketReader", "_do_run", "self", uses, lambda _: read_waiting),
    ]


LIBRARIES = (
    Library("discord.py", "discord.voice_client", "discord", ("2.7.1",), _discord),
    Library("discord.py-self", "discord.voice_client", "discord.py-self", ("2.1.0",), _discord),
    Library(
        "disnake", "disnake.voice_client", "disnake", ("2.12.2",), partial(_voice_client, "disnake", "_lite_nonce")
    ),
    Library(
        "nextcord", "nextcord.voice_client", "nextcord", ("3.2.0",), partial(_voice_client, "nextcord", "_incr_nonce")
    ),
)
