"""A Discord of our own on loopback: as much REST and gateway as a library needs to log in and to join a voice channel.

A client is not patched to reach it: `SmallDiscord.connector` is an aiohttp connector that takes every host name to this
server's port, and trusts the certificate that was made for it. Clients that do not take a connector take
`SmallDiscord.proxy`, and `SmallDiscord.certificate_path`.
https://docs.discord.com/developers/events/gateway-events
"""

import asyncio
import contextlib
import datetime as dt
import json
import re
import ssl
import tempfile
import zlib
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import WSMsgType, web
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from packets import GCM, XCHACHA
from voice_server import VoiceServer

DISPATCH, HEARTBEAT, IDENTIFY, _, VOICE_STATE, _, RESUME, _, REQUEST_MEMBERS = range(9)
HELLO, HEARTBEAT_ACK = 10, 11

BOT_ID, GUILD_ID, CHANNEL_ID, SPEAKER_ID, EVERYONE = 1001, 2001, 3001, 4001, 2001
TOKEN = "MTAwMQ.aaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbb"
GATEWAY_HOST, VOICE_HOST = "gateway.discord.gg", "small.discord.media"
HOSTS = ["discord.com", "*.discord.com", "*.discord.gg", "*.discord.media", "discordapp.com", "localhost"]
NETWORK_SECONDS = 0.05
"""Between a request to join and each of its answers. discord.py and its like can miss an event that comes as soon as
they have asked, or the second of two that come at once, and then wait for ever."""
JOINED = "2020-01-01T00:00:00.000000+00:00"


class SmallDiscord:
    """The server, as a context manager: REST and gateways on one TLS port, the voice server beside it."""

    def __init__(self, modes: Sequence[str] = (GCM, XCHACHA)) -> None:
        self.voice = VoiceServer(modes)
        self.unknown: list[str] = []
        """REST requests that were answered with 404."""
        self.port = 0
        self.proxy = ""
        """The URL of an HTTP proxy that leads here, whatever host it is asked for."""
        self.certificate_path = Path()
        """What a client must trust, in PEM."""
        self._stack = contextlib.AsyncExitStack()
        self._sockets: set[web.WebSocketResponse] = set()

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            self.certificate_path = Path(folder, "certificate.pem")
            await self.voice.start()
            stack.push_async_callback(self.voice.close)
            await self._listen(_certified(self.certificate_path), stack)
            stack.push_async_callback(self._close_sockets)
            proxy = await asyncio.start_server(self._tunnel, "127.0.0.1", 0)
            stack.callback(proxy.close)
            self.proxy = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _listen(self, context: ssl.SSLContext, stack: contextlib.AsyncExitStack) -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]

    async def _close_sockets(self) -> None:
        for socket in list(self._sockets):
            await socket.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a CONNECT (RFC 9110, section 9.3.6), to this server alone."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            request = await reader.readuntil(b"\r\n\r\n")
            if not request.startswith(b"CONNECT "):
                writer.write(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
                return
            there, back = await asyncio.open_connection("127.0.0.1", self.port)
            with contextlib.closing(back):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _until_first(_pass_on(reader, back), _pass_on(there, writer))

    def client_context(self) -> ssl.SSLContext:
        """TLS that trusts this server, and nothing else."""
        return ssl.create_default_context(cafile=self.certificate_path)

    def connector(self) -> aiohttp.TCPConnector:
        """What takes an aiohttp client here, whatever host it asks for."""
        return aiohttp.TCPConnector(limit=0, ssl=self.client_context(), resolver=_HereResolver(self.port))

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return self._rest(request)
        if request.host.split(":")[0] == VOICE_HOST:
            return await self.voice.serve(request)
        return await _Gateway(self).serve(request, self._sockets)

    def _rest(self, request: web.Request) -> web.Response:
        path = re.sub(r"^/api(/v\d+)?", "", request.path)
        answer = _answers().get(f"{request.method} {path}")
        if answer is None:
            self.unknown.append(f"{request.method} {request.path}")
            return _json({"message": "404: Not Found", "code": 0}, status=404)
        return _json(answer)


def _json(answer: Any, status: int = 200) -> web.Response:
    # Without a charset, as Discord: some libraries compare the whole header.
    body = json.dumps(answer).encode()
    return web.Response(body=body, status=status, headers={"Content-Type": "application/json"})


class _Gateway:
    """A connection to the main gateway."""

    def __init__(self, discord: SmallDiscord) -> None:
        self._discord = discord
        self._socket = web.WebSocketResponse(compress=False, timeout=0.5)  # curl offers it, and does not understand it
        self._zlib: Any = None
        self._is_joined = False
        self._sequence = 0

    async def serve(self, request: web.Request, sockets: set[web.WebSocketResponse]) -> web.WebSocketResponse:
        """From hello to the end."""
        if request.query.get("compress") == "zlib-stream":
            self._zlib = zlib.compressobj()
        await self._socket.prepare(request)
        sockets.add(self._socket)
        await self._send({"op": HELLO, "d": {"heartbeat_interval": 41_250}, "s": None, "t": None})
        async for message in self._socket:
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                await self._received(json.loads(message.data))
        sockets.discard(self._socket)
        return self._socket

    async def _received(self, message: dict[str, Any]) -> None:
        operation, data = message["op"], message.get("d")
        if operation == HEARTBEAT:
            await self._send({"op": HEARTBEAT_ACK, "d": None, "s": None, "t": None})
        elif operation == IDENTIFY:
            await self._identified(data)
        elif operation == RESUME:
            await self._dispatch("RESUMED", {})
        elif operation == REQUEST_MEMBERS:
            await self._dispatch("GUILD_MEMBERS_CHUNK", _members_chunk(data))
        elif operation == VOICE_STATE:
            await self._moved(data)

    async def _identified(self, data: dict[str, Any]) -> None:
        if "intents" in data:
            await self._dispatch("READY", _ready())
            await self._dispatch("GUILD_CREATE", _guild())
        else:  # a user's client, to which the guilds come in READY already
            await self._dispatch("READY", _ready() | {"guilds": [_guild()]})
            await self._dispatch("READY_SUPPLEMENTAL", _supplement())

    async def _moved(self, state: dict[str, Any]) -> None:
        was_joined, self._is_joined = self._is_joined, state["channel_id"] is not None
        if not self._is_joined:
            if was_joined:
                await self._dispatch("VOICE_STATE_UPDATE", _voice_state(BOT_ID, None))
            return
        await asyncio.sleep(NETWORK_SECONDS)
        # This order: with the other one, discord.py waits for ever where it was connected already and resumes.
        where = {"token": "voicetoken", "guild_id": str(GUILD_ID), "endpoint": f"{VOICE_HOST}:443"}
        await self._dispatch("VOICE_SERVER_UPDATE", where)
        await asyncio.sleep(NETWORK_SECONDS)
        await self._dispatch("VOICE_STATE_UPDATE", _voice_state(BOT_ID, str(state["channel_id"])))

    async def _dispatch(self, event: str, data: Any) -> None:
        self._sequence += 1
        await self._send({"op": DISPATCH, "t": event, "s": self._sequence, "d": data})

    async def _send(self, message: dict[str, Any]) -> None:
        if self._socket.closed:
            return
        text = json.dumps(message)
        if self._zlib is None:
            await self._socket.send_str(text)
        else:
            await self._socket.send_bytes(self._zlib.compress(text.encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH))


class _HereResolver(AbstractResolver):
    """Every name is this port on loopback."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        del port, family
        return [ResolveResult(hostname=host, host="127.0.0.1", port=self._port, family=2, proto=0, flags=0)]

    async def close(self) -> None:
        """Nothing is open."""


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


async def _until_first(*parts: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.ensure_future(part) for part in parts]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _certified(path: Path) -> ssl.SSLContext:
    """TLS of a server with a certificate for Discord's names; it is written to the path."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a small Discord")])
    now = dt.datetime.now(dt.UTC)
    usage = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False)
    usage |= {"digital_signature": True, "key_cert_sign": True, "crl_sign": False}
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage, encipher_only=False, decipher_only=False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key_path = path.with_name("key.pem")
    key_path.write_bytes(key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key_path)
    return context


# What Discord would say.


def _user(user_id: int, name: str, *, bot: bool = False) -> dict[str, Any]:
    return {
        "id": str(user_id),
        "username": name,
        "discriminator": "0",
        "global_name": name,
        "avatar": None,
        "bot": bot,
        "system": False,
        "mfa_enabled": False,
        "verified": True,
        "email": None,
        "flags": 0,
        "public_flags": 0,
        "premium_type": 0,
        "locale": "en-US",
    }


def _bot() -> dict[str, Any]:
    return _user(BOT_ID, "small-bot", bot=True)


def _member(user: dict[str, Any]) -> dict[str, Any]:
    return {
        "user": user,
        "nick": None,
        "avatar": None,
        "roles": [],
        "joined_at": JOINED,
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "flags": 0,
        "pending": False,
        "communication_disabled_until": None,
    }


def _members() -> list[dict[str, Any]]:
    return [_member(_bot()), _member(_user(SPEAKER_ID, "speaker"))]


def _members_chunk(request: dict[str, Any]) -> dict[str, Any]:
    chunk = {"guild_id": str(GUILD_ID), "members": _members(), "chunk_index": 0, "chunk_count": 1, "not_found": []}
    if "nonce" in request:
        chunk["nonce"] = request["nonce"]
    return chunk


def _voice_state(user_id: int, channel_id: str | None) -> dict[str, Any]:
    member = next(member for member in _members() if member["user"]["id"] == str(user_id))
    return {
        "guild_id": str(GUILD_ID),
        "channel_id": channel_id,
        "user_id": str(user_id),
        "member": member,
        "session_id": f"session-of-{user_id}",
        "deaf": False,
        "mute": False,
        "self_deaf": False,
        "self_mute": False,
        "self_video": False,
        "suppress": False,
        "request_to_speak_timestamp": None,
    }


def _channel() -> dict[str, Any]:
    return {
        "id": str(CHANNEL_ID),
        "type": 2,
        "guild_id": str(GUILD_ID),
        "name": "voice",
        "position": 0,
        "permission_overwrites": [],
        "nsfw": False,
        "parent_id": None,
        "bitrate": 64_000,
        "user_limit": 0,
        "rtc_region": None,
        "rate_limit_per_user": 0,
        "last_message_id": None,
        "flags": 0,
    }


def _guild() -> dict[str, Any]:
    everyone = {
        "id": str(EVERYONE),
        "name": "@everyone",
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": 0,
        "permissions": str(1 << 3),  # administrator
        "managed": False,
        "mentionable": False,
        "flags": 0,
    }
    return {
        "id": str(GUILD_ID),
        "name": "guild",
        "icon": None,
        "splash": None,
        "discovery_splash": None,
        "banner": None,
        "description": None,
        "owner_id": str(SPEAKER_ID),
        "region": "local",
        "afk_channel_id": None,
        "afk_timeout": 300,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "public_updates_channel_id": None,
        "safety_alerts_channel_id": None,
        "application_id": None,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw": False,
        "nsfw_level": 0,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "premium_progress_bar_enabled": False,
        "preferred_locale": "en-US",
        "vanity_url_code": None,
        "max_members": 1000,
        "max_presences": None,
        "max_video_channel_users": 25,
        "max_stage_video_channel_users": 25,
        "roles": [everyone],
        "emojis": [],
        "stickers": [],
        "features": [],
        "joined_at": JOINED,
        "large": False,
        "unavailable": False,
        "lazy": True,
        "member_count": len(_members()),
        "members": _members(),
        "voice_states": [_voice_state(SPEAKER_ID, str(CHANNEL_ID))],
        "channels": [_channel()],
        "threads": [],
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
        "application_command_counts": {},
        "embedded_activities": [],
        "hub_type": None,
        "incidents_data": None,
        "home_header": None,
        "version": 1,
    }


def _ready() -> dict[str, Any]:
    return {
        "v": 10,
        "user": _bot(),
        "guilds": [{"id": str(GUILD_ID), "unavailable": True}],
        "session_id": "main-session",
        "session_type": "normal",
        "resume_gateway_url": f"wss://{GATEWAY_HOST}",
        "application": {"id": str(BOT_ID), "flags": 1 << 18 | 1 << 14},
        "shard": [0, 1],
        "private_channels": [],
        "relationships": [],
        "presences": [],
        "user_settings": {},
        "users": [],
        "merged_members": [[]],
        "_trace": [],
    }


def _supplement() -> dict[str, Any]:
    return {"guilds": [{}], "merged_members": [[]], "merged_presences": {"guilds": [[]], "friends": []}}


def _application() -> dict[str, Any]:
    return {
        "id": str(BOT_ID),
        "name": "small-bot",
        "icon": None,
        "description": "",
        "summary": "",
        "type": None,
        "is_monetized": False,
        "bot": _bot(),
        "bot_public": True,
        "bot_require_code_grant": False,
        "verify_key": "0" * 64,
        "flags": 1 << 18 | 1 << 14,
        "hook": True,
        "owner": _user(SPEAKER_ID, "speaker"),
        "team": None,
        "rpc_origins": [],
        "redirect_uris": [],
        "interactions_endpoint_url": None,
        "role_connections_verification_url": None,
        "approximate_guild_count": 1,
        "approximate_user_install_count": 0,
        "tags": [],
    }


def _answers() -> dict[str, Any]:
    gateway = {"url": f"wss://{GATEWAY_HOST}"}
    limit = {"total": 1000, "remaining": 999, "reset_after": 86_400_000, "max_concurrency": 1}
    return {
        "GET /users/@me": _bot(),
        "GET /gateway": gateway,
        "GET /gateway/bot": gateway | {"shards": 1, "session_start_limit": limit},
        "GET /oauth2/applications/@me": _application(),
        "GET /applications/@me": _application(),
        f"GET /applications/{BOT_ID}/commands": [],
        f"GET /applications/{BOT_ID}/guilds/{GUILD_ID}/commands": [],
        f"GET /applications/{BOT_ID}/emojis": {"items": []},
        f"GET /guilds/{GUILD_ID}": _guild(),
        f"GET /channels/{CHANNEL_ID}": _channel(),
        "GET /sticker-packs": {"sticker_packs": []},
        "GET /soundboard-default-sounds": [],
    }
