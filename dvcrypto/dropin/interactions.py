"""interactions.py, which sends and records.

Its ``VoiceGateway`` lives as long as a connection, over all of its keys. It seals with nonces that are drawn at random,
4 bytes long, and cannot seal in XChaCha20-Poly1305 at all.
"""

import asyncio
import struct
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

from dvcrypto.dropin._library import Library
from dvcrypto.dropin._receiving import NO_SPEECH, ReaderOpener, call, drain
from dvcrypto.dropin._replacing import Replacement, method, relied_on
from dvcrypto.dropin._sending import ClientSealer, choose
from dvcrypto.errors import NoCommonMode, OpenError

_GATEWAY = "interactions.api.voice.voice_gateway:VoiceGateway"
_AUDIO = "interactions.api.voice.audio:RawInputAudio"
_RECORDER = "interactions.api.voice.recorder:Recorder"

_READY: Final = 2  # the gateway's operation code
_HEADER: Final = struct.Struct(">BBHII")
_VERSION: Final = 0x80
_OPUS: Final = 0x78
_WAIT_SECONDS: Final = 0.01  # as the library's; a recorder that was stopped ends after it

_taking_over = threading.Lock()


def _replacements() -> list[Replacement]:
    make_packet = "sock_sequence timestamp ssrc encryptor encrypt voice_modes"
    ingest = "_recorder decrypt get_decoder decode recording_whitelist user_id"
    return [
        method(_GATEWAY, "generate_packet", "self data", make_packet, lambda _: _generate_packet),
        relied_on(_GATEWAY, "send_packet", "self data encoder needs_encode", "generate_packet sendto"),
        method(_GATEWAY, "dispatch_opcode", "self data op", "voice_modes modes selected_mode secret", _choosing),
        method(_GATEWAY, "wait_until_ready", "self", "to_thread ready wait", _refusing),
        method(_RECORDER, "run", "self", "socket recv audio recording RawInputAudio process_data", lambda _: _run),
        method(_AUDIO, "ingest", "self data", ingest, lambda _: _ingest),
    ]


def _generate_packet(gateway: Any, data: bytes) -> bytes:
    """Seals a gateway's first packet; from then on the gateway has its own method.

    Which nonces the library has drawn before, nobody knows; but no more are drawn.
    """
    with _taking_over:
        if "generate_packet" not in vars(gateway):
            _take_over(gateway)
    return gateway.generate_packet(data)  # type: ignore[no-any-return]


def _take_over(gateway: Any) -> None:
    def end() -> None:
        asyncio.run_coroutine_threadsafe(_leave(gateway), gateway._stopping.get_loop())

    sealer = ClientSealer(used=0, ended=end)

    def generate_packet(data: bytes) -> bytes:
        header = _HEADER.pack(_VERSION, _OPUS, gateway.sock_sequence, gateway.timestamp, gateway.ssrc)
        return sealer.seal(gateway.selected_mode, gateway.secret, header, data)

    gateway.generate_packet = generate_packet


async def _leave(gateway: Any) -> None:
    """Close the connection, and leave the channel."""
    gateway.close()
    await gateway.state.gateway.voice_state_update(gateway.guild_id, None)


def _choosing(original: Callable[[Any, Any, int], Awaitable[None]]) -> Any:
    """Wraps what takes the first of the server's modes: it finds only the one of our choice."""

    async def dispatch_opcode(gateway: Any, data: Any, op: int) -> None:
        if op == _READY:
            try:
                data = {**data, "modes": [choose(data["modes"])]}
            except NoCommonMode as refusal:
                gateway._dvcrypto_refusal = refusal
                gateway.ready.set()  # so that nobody waits for it any longer
                raise
        await original(gateway, data, op)

    return dispatch_opcode


def _refusing(original: Callable[[Any], Awaitable[None]]) -> Any:
    """Wraps the wait for a connection, which the library would wait for without end when there is none."""

    async def wait_until_ready(gateway: Any) -> None:
        await original(gateway)
        if "_dvcrypto_refusal" in vars(gateway):
            await _leave(gateway)
            raise gateway._dvcrypto_refusal

    return wait_until_ready


def _run(recorder: Any) -> None:
    """The loop of a recorder's thread: hands on what opens."""
    opener, gateway = ReaderOpener(), recorder.state.ws
    key, socket = gateway.secret, gateway.socket
    while drain(socket, 0):
        pass  # what came before the recording
    with recorder.audio:
        while recorder.recording:
            datagrams = drain(socket, _WAIT_SECONDS)
            if recorder.state.ws.secret:  # a gateway that has no key yet has no socket either
                gateway = recorder.state.ws
            for datagram in datagrams:
                packet = opener.open_speech(gateway.selected_mode, gateway.secret, datagram)
                if packet is not None:
                    recorder._dvcrypto_opened = packet
                    call(_record, recorder, datagram)
            if gateway.secret is not key:
                # The first datagram on a new socket is for the gateway, which gets its key after that.
                key, socket = gateway.secret, gateway.socket


def _record(recorder: Any, datagram: bytes) -> None:
    from interactions.api.voice.audio import RawInputAudio

    recorder.process_data(RawInputAudio(recorder, datagram))


def _ingest(audio: Any, data: bytes) -> bytes | None:
    """Takes in the packet that the recorder has just opened; else opens it here. Raises OpenError."""
    recorder, gateway = audio._recorder, audio._recorder.state.ws
    opened = vars(recorder).pop("_dvcrypto_opened", None)
    opened = opened or ReaderOpener().open_speech(gateway.selected_mode, gateway.secret, data)
    if opened is None:
        raise OpenError(NO_SPEECH)
    _, _, audio.sequence, audio.audio_timestamp, audio.ssrc = _HEADER.unpack_from(data)
    if recorder.recording_whitelist and audio.user_id not in recorder.recording_whitelist:
        return None
    audio.decoded = recorder.get_decoder(audio.ssrc).decode(opened.payload)
    return audio.decoded  # type: ignore[no-any-return]


LIBRARIES = (
    Library(
        "discord-py-interactions",
        "interactions.models.internal.active_voice_state",
        None,
        ("5.16.0",),
        _replacements,
    ),
)
