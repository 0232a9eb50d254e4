"""A voice server of Discord's, as small as its clients let it be: the voice gateway, and UDP beside it.

It keeps what it is told and sent, and opens it without dvcrypto; a test then looks at it, or tells it what to do next.
https://docs.discord.com/developers/topics/voice-connections
"""

import asyncio
import json
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import WSMsgType, web
from packets import CIPHERS, GCM, XCHACHA, BadPacket, Cipher, open_sealed, rtp, seal

IDENTIFY, SELECT_PROTOCOL, READY, HEARTBEAT, SESSION_DESCRIPTION, SPEAKING, HEARTBEAT_ACK = range(7)
RESUME, HELLO, RESUMED = 7, 8, 9
CLIENTS_CONNECT, CLIENT_DISCONNECT, MEDIA_SINK_WANTS = 11, 13, 15

SERVER_CRASHED = 4015  # the close code after which clients resume
SESSION_TIMED_OUT = 4009  # after this one they begin anew
DISCOVERY_LEN = 74
KEEP_ALIVE_LEN = 8
KEEP_ALIVE_OF_INTERACTIONS = b"\xc9" + bytes(8)
CLIENT_SSRC = 0x0001_0203
SPEAKER_SSRC = 0x0A0B_0C0D
SAMPLES_PER_FRAME = 960  # 20 ms at 48 kHz


class Heard(NamedTuple):
    """A packet of the client's, opened."""

    header: bytes
    payload: bytes
    suffix: bytes
    generation: int
    """Which of the server's keys opened it, counted from 0."""


@dataclass
class Generation:
    """A key, what it sealed, and the counter of what the server seals under it."""

    key: bytes
    mode: str
    cipher: Cipher
    suffixes: set[bytes] = field(default_factory=set)
    sealed_count: int = 0


class VoiceServer:
    """One session's voice gateway and UDP socket. `modes` is what it offers, in this order."""

    def __init__(self, modes: Sequence[str] = (GCM, XCHACHA)) -> None:
        self.modes = list(modes)
        self.selected: list[str] = []
        """The mode of every select protocol."""
        self.messages: list[dict[str, Any]] = []
        """All that came through the gateway."""
        self.heard: list[Heard] = []
        """The client's packets in the order in which they came, opened."""
        self.datagrams: list[bytes] = []
        """All datagrams, as they came."""
        self.faults: list[str] = []
        """What a client must never do: nonces used twice, packets that no key opens."""
        self.generations: list[Generation] = []
        self.resumed_count = 0
        self.keep_alive_count = 0
        self.sockets: set[web.WebSocketResponse] = set()
        self.client: tuple[str, int] | None = None
        """Where the client's datagrams come from."""
        self._socket: web.WebSocketResponse | None = None
        self._udp: asyncio.DatagramTransport | None = None
        self._waking: asyncio.Future[None] | None = None
        self._changed = asyncio.Event()
        self._sequence = 0
        self._sent_count = 0

    async def start(self) -> None:
        """Open the UDP socket."""
        loop = asyncio.get_running_loop()
        self._udp, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), local_addr=("127.0.0.1", 0))

    async def close(self) -> None:
        """Close both."""
        for socket in list(self.sockets):
            await socket.close()
        if self._udp is not None:
            self._udp.close()

    # What a test looks at.

    async def until(self, condition: Callable[[], object], timeout: float = 15) -> None:
        """Wait until something that came made the condition true. AssertionError after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"not within {timeout} s: {self!r}") from None

    @property
    def payloads(self) -> list[bytes]:
        """What the client said."""
        return [packet.payload for packet in self.heard]

    def __repr__(self) -> str:
        return (
            f"<VoiceServer offers {self.modes}, selected {self.selected}, {len(self.generations)} keys,"
            f" {len(self.heard)} packets heard of {len(self.datagrams)} datagrams, {self.resumed_count} resumed,"
            f" faults {self.faults[:3]}>"
        )

    @property
    def description_count(self) -> int:
        """Of session descriptions that the client took: it then says that it does not speak."""
        return sum(message["op"] == SPEAKING and message["d"]["speaking"] == 0 for message in self.messages)

    # What a test tells it to do.

    async def describe(self, key: bytes | None = None) -> None:
        """Send a session description with a key; without one, with a new key."""
        self._take_key(os.urandom(32) if key is None else key)
        current = self.generations[-1]
        description = {
            "mode": current.mode,
            "secret_key": list(current.key),
            "audio_codec": "opus",
            "video_codec": "H264",
            "media_session_id": "0" * 32,
            "dave_protocol_version": 0,
        }
        await self._send(SESSION_DESCRIPTION, description)

    async def describe_again(self) -> None:
        """Send the same session description once more."""
        await self.describe(self.generations[-1].key)

    async def drop(self, code: int = SERVER_CRASHED) -> None:
        """Close the gateway's socket, by default in such a way that the client resumes."""
        assert self._socket is not None
        await self._socket.close(code=code)

    async def announce(self, user_id: int, ssrc: int = SPEAKER_SSRC) -> None:
        """Say that a user is there, and speaks with an SSRC."""
        await self._send(CLIENTS_CONNECT, {"user_ids": [str(user_id)]})
        await self._send(SPEAKING, {"user_id": str(user_id), "ssrc": ssrc, "speaking": 1})

    async def renounce(self, user_id: int) -> None:
        """Say that a user has gone."""
        await self._send(CLIENT_DISCONNECT, {"user_id": str(user_id)})

    def send_packets(self, packets: Iterable[bytes]) -> None:
        """Seal plain RTP or RTCP packets under the current key, and send them."""
        current = self.generations[-1]
        for packet in packets:
            self.send_raw(seal(current.cipher, current.sealed_count, packet))
            current.sealed_count += 1

    def say(self, frames: Iterable[bytes], ssrc: int = SPEAKER_SSRC) -> None:
        """Send Opus frames as a user's speech, numbered on from the last call."""
        for frame in frames:
            number = self._sent_count
            self.send_packets([rtp(1000 + number, SAMPLES_PER_FRAME * number, ssrc, frame)])
            self._sent_count += 1

    def send_raw(self, datagram: bytes) -> None:
        """Send a datagram as it is."""
        assert self._udp is not None
        assert self.client is not None, "the client has sent nothing yet, so there is no address"
        self._udp.sendto(datagram, self.client)

    # The gateway.

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """A connection to the voice gateway, from hello to its end."""
        socket = web.WebSocketResponse(compress=False, timeout=0.5)
        await socket.prepare(request)
        self.sockets.add(socket)
        self._socket = socket
        await self._send(HELLO, {"v": 8, "heartbeat_interval": 13_750})
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                await self._received(json.loads(message.data))
        self.sockets.discard(socket)
        self._pulse()
        return socket

    async def _received(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        operation, data = message["op"], message.get("d")
        if operation == IDENTIFY:
            await self._send(READY, self._ready())
        elif operation == SELECT_PROTOCOL:
            self.selected.append(data["data"]["mode"])
            await self.describe()
        elif operation == HEARTBEAT:
            await self._send(HEARTBEAT_ACK, {"t": data["t"]} if isinstance(data, dict) else data)
        elif operation == RESUME:
            self.resumed_count += 1
            await self._send(RESUMED, None)
            await self.describe_again()  # without which discord.py does not take itself for connected again
        self._pulse()

    def _ready(self) -> dict[str, Any]:
        assert self._udp is not None
        _, port = self._udp.get_extra_info("sockname")
        return {
            "ssrc": CLIENT_SSRC,
            "ip": "127.0.0.1",
            "port": port,
            "modes": self.modes,
            "experiments": [],
            "heartbeat_interval": 1,  # as Discord's, which says that it is wrong here
            "streams": [],
        }

    async def _send(self, operation: int, data: Any) -> None:
        assert self._socket is not None
        message = {"op": operation, "d": data}
        if operation not in (HELLO, HEARTBEAT_ACK, READY, RESUMED):
            self._sequence += 1
            message["seq"] = self._sequence
        if not self._socket.closed:
            await self._socket.send_json(message)

    def _take_key(self, key: bytes) -> None:
        mode = self.selected[-1]
        if self.generations and (self.generations[-1].key, self.generations[-1].mode) == (key, mode):
            return
        self.generations.append(Generation(key, mode, CIPHERS[mode](key)))

    # UDP.

    def received_datagram(self, datagram: bytes, address: tuple[str, int]) -> None:
        """Answer, or open and keep, what a client sent."""
        self.client = address
        self.datagrams.append(datagram)
        if len(datagram) >= DISCOVERY_LEN and datagram[:4] == struct.pack(">HH", 1, DISCOVERY_LEN - 4):
            self.send_raw(_discovered(datagram, address))
            self._waking = asyncio.ensure_future(self._wake())
        elif datagram == KEEP_ALIVE_OF_INTERACTIONS:
            self.keep_alive_count += 1
        elif len(datagram) == KEEP_ALIVE_LEN:
            self.keep_alive_count += 1
            self.send_raw(datagram)
        else:
            self._hear(datagram)
        self._pulse()

    async def _wake(self) -> None:
        """Say something through the gateway: py-cord's loop sleeps on after its discovery until something comes."""
        await asyncio.sleep(0.02)
        await self._send(MEDIA_SINK_WANTS, {"any": 100})

    def _hear(self, datagram: bytes) -> None:
        for number, generation in reversed(list(enumerate(self.generations))):
            try:
                opened = open_sealed(generation.cipher, datagram)
            except BadPacket:
                continue
            if opened.suffix in generation.suffixes:
                self.faults.append(f"nonce {opened.suffix.hex()} was used twice under key {number}")
            generation.suffixes.add(opened.suffix)
            self.heard.append(Heard(*opened, number))
            return
        self.faults.append(f"no key opens a datagram of {len(datagram)} bytes: {datagram[:16].hex()}...")

    def _pulse(self) -> None:
        self._changed.set()


class _Datagrams(asyncio.DatagramProtocol):
    """What asyncio calls, which is the voice server."""

    def __init__(self, server: VoiceServer) -> None:
        self._server = server

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._server.received_datagram(data, addr)


def _discovered(request: bytes, address: tuple[str, int]) -> bytes:
    host, port = address
    return struct.pack(">HH", 2, DISCOVERY_LEN - 4) + request[4:8] + host.encode().ljust(64, b"\0") + port.to_bytes(2)
