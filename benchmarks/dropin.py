"""What a library takes to make a voice packet, by its own code and with dvcrypto in its place; by turns."""

import importlib
from collections.abc import Iterator
from importlib import metadata
from types import MethodType, SimpleNamespace
from typing import Any

import dvcrypto
import dvcrypto.dropin
from benchmarks import peers
from benchmarks.timing import Work, interleave, repeated

_PAYLOAD = bytes(200)
_OWN_MODE = dvcrypto.Mode.XCHACHA20_POLY1305  # the only one that they have
_MODULES = {
    "discord.py": "discord.voice_client",
    "discord.py-self": "discord.voice_client",
    "disnake": "disnake.voice_client",
    "nextcord": "nextcord.voice_client",
    "py-cord": "discord.voice.client",
}


def measure(*, full: bool) -> list[dict[str, Any]]:
    """A row for each library that is installed, and each mode."""
    rows = []
    for name, module in _MODULES.items():
        try:
            rows += _rows(name, metadata.version(name), importlib.import_module(module), rounds=401 if full else 101)
        except (metadata.PackageNotFoundError, ImportError):
            continue
    return rows


def _rows(name: str, version: str, module: Any, rounds: int) -> list[dict[str, Any]]:
    own = _client(module.VoiceClient, _OWN_MODE)
    encrypt = f"_encrypt_{_OWN_MODE}"
    setattr(own, encrypt, MethodType(getattr(module.VoiceClient, encrypt), own))
    contenders: dict[str, Work] = {"own": _packets(own)}
    dvcrypto.dropin.install(name)
    try:
        for mode in dvcrypto.Mode:
            contenders[mode] = _packets(_client(module.VoiceClient, mode))
        medians = interleave(contenders, rounds, seconds=0.002)  # short: a busy machine changes its pace in between
    finally:
        dvcrypto.dropin.uninstall()
    return [
        {
            "library": f"{name} {version}",
            "mode": mode.value,
            "its own XChaCha20, ns": medians["own"],
            "with dvcrypto, ns": medians[mode],
            "x as fast": medians["own"] / medians[mode],
        }
        for mode in dvcrypto.Mode
    ]


def _client(kind: Any, mode: dvcrypto.Mode) -> Any:
    """One that was never connected."""
    known = {"mode": mode.value, "secret_key": list(peers.KEY), "ssrc": 0x0A0D10}
    client = kind.__new__(kind)
    client._connection = SimpleNamespace(**known, dave_session=None, can_encrypt=False)
    client.dave = client.e2ee_state = None
    client.sequence = client.timestamp = client._incr_nonce = client._lite_nonce = 0
    for name, value in known.items():
        if not isinstance(getattr(kind, name, None), property):  # which looks at the connection
            setattr(client, name, value)
    return client


def _packets(client: Any) -> Work:
    """Work that takes a packet's number on, as the library does for each."""

    def once() -> None:
        client.checked_add("sequence", 1, 65535)
        client._get_voice_packet(_PAYLOAD)

    return repeated(once)


def tables(rows: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """One table."""
    if rows:
        yield f"_get_voice_packet with {len(_PAYLOAD)} bytes", rows
