"""What is put in place of a library's own encryption, beside it: in real classes, on clients that never connect."""

import asyncio
import itertools
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import packets
import peers
import pytest
from packets import CIPHERS, GCM, XCHACHA

import dvcrypto

Install = Callable[..., None]
NAME, LIBRARY = peers.installed()
if NAME in {"discord-py-interactions", "hikari-wave"}:
    pytest.skip(f"{NAME} seals in another way; a file of its own tests it", allow_module_level=True)
COUNTER = "_lite_nonce" if NAME == "disnake" else "_incr_nonce"
CLIENT = LIBRARY.VoiceClient
ORIGINAL = CLIENT._encrypt_aead_xchacha20_poly1305_rtpsize
ORIGINAL_MODES = CLIENT.supported_modes
KEYS = [bytes(range(start, start + 32)) for start in (0, 100, 200)]
MODES = [GCM, XCHACHA]
LAST_NONCE = 2**32 - 1


class Client(CLIENT):
    """What the methods that make a packet need, and no connection."""

    # Properties that look at the connection in some libraries, plain attributes in others.
    mode = secret_key = ssrc = loop = socket = None
    _player = None

    def __init__(self, mode: str, key: bytes) -> None:
        self.mode, self.secret_key, self.ssrc = mode, list(key), 0x0A0D10
        self.sequence = self.timestamp = 0
        self.dave = self.e2ee_state = None
        self._connection = SimpleNamespace(dave_session=None, can_encrypt=False)
        setattr(self, COUNTER, 0)
        self.disconnects: list[bool] = []

    async def disconnect(self, *, force: bool = False) -> None:
        self.disconnects.append(force)


DISCOVERED = bytes.fromhex("00020046") + bytes(4) + b"127.0.0.1".ljust(64, b"\0") + bytes(2)


async def selected(client: Any, offered: list[str]) -> str:
    """The mode that a gateway without a websocket answers the server's Ready with."""
    if NAME == "py-cord":
        from discord.voice.gateway import VoiceWebSocket as Gateway
    else:
        Gateway = sys.modules[f"{peers.MODULES[NAME]}.gateway"].DiscordVoiceWebSocket  # noqa: N806
    answers = []

    async def nothing(*_: Any) -> None: ...

    async def discover(*_: Any) -> tuple[str, int]:
        return "127.0.0.1", 9

    async def receive(*_: Any) -> bytes:
        return DISCOVERED

    async def select(_ip: str, _port: int, mode: str) -> None:
        answers.append(mode)

    gateway = Gateway.__new__(Gateway)
    gateway._connection = gateway.state = SimpleNamespace(
        supported_modes=client.supported_modes, socket=SimpleNamespace(sendto=lambda *_: None)
    )
    gateway.loop = SimpleNamespace(sock_connect=nothing, sock_recv=receive)
    gateway.request_voice_backend_version, gateway.select_protocol = nothing, select
    gateway.get_ip = gateway.discover_ip = discover
    ready = gateway.ready if NAME == "py-cord" else gateway.initial_connection
    await ready({"ssrc": 1, "ip": "127.0.0.1", "port": 9, "modes": offered})
    return answers[0]


def suffix(packet: bytes) -> bytes:
    return bytes(packet[-4:])


def opens(client: Any, key: bytes, packet: bytes) -> bytes:
    return packets.open_sealed(CIPHERS[client.mode](key), bytes(packet)).payload


@pytest.mark.parametrize("mode", MODES)
def test_a_thousand_packets_are_those_that_the_library_makes_itself(install: Install, mode: str) -> None:
    install()
    client, seen = Client(mode, KEYS[0]), set()
    twin = Client(mode, KEYS[0])
    draw = random.Random(7)
    lengths = [0, 1, 3, 1275, *(draw.randint(0, 1275) for _ in range(996))]
    client.sequence, client.timestamp = 0xFFFF - 500, 2**32 - 1 - 960 * 500
    for length in lengths:
        payload = draw.randbytes(length)
        packet = client._get_voice_packet(payload)
        header = bytes.fromhex("8078") + client.sequence.to_bytes(2, "big") + client.timestamp.to_bytes(4, "big")
        header += client.ssrc.to_bytes(4, "big")
        if mode == XCHACHA:
            setattr(twin, COUNTER, int.from_bytes(suffix(packet), "big"))
            expected = ORIGINAL(twin, bytearray(header), payload)
        else:
            nonce = suffix(packet)
            expected = header + CIPHERS[GCM](KEYS[0]).encrypt(nonce, payload, header) + nonce
        assert bytes(packet) == bytes(expected)
        seen.add(suffix(packet))
        client.checked_add("sequence", 1, 65535)
        client.checked_add("timestamp", 960, 2**32 - 1)
    assert client.sequence < 1000
    assert client.timestamp < 960 * 1000
    assert len(seen) == len(lengths)


@pytest.mark.parametrize("mode", MODES)
def test_every_key_has_one_counter_however_it_comes_back(install: Install, mode: str) -> None:
    install()
    client = Client(mode, KEYS[0])
    counts = []
    for key in (0, 0, 1, 0, 2, 1, 0):
        client.secret_key = list(KEYS[key])  # a new object each time, as from a session description
        packet = client._get_voice_packet(b"payload")
        assert opens(client, KEYS[key], packet) == b"payload"
        counts.append((key, int.from_bytes(suffix(packet), "little") - 0x8000_0000))
    assert counts == [(0, 0), (0, 1), (1, 0), (0, 2), (2, 0), (1, 1), (0, 3)]


def test_the_mode_may_change_with_the_same_key(install: Install) -> None:
    install()
    client = Client(GCM, KEYS[0])
    for mode in (GCM, XCHACHA, GCM, XCHACHA):
        client.mode = mode
        assert opens(client, KEYS[0], client._get_voice_packet(b"payload")) == b"payload"


@pytest.mark.parametrize("mode", MODES)
def test_threads_on_one_client_use_no_nonce_twice(install: Install, mode: str) -> None:
    install()
    for _ in range(20):
        client, suffixes, start = Client(mode, KEYS[0]), [], threading.Barrier(8)

        def send(client: Any = client, suffixes: list[bytes] = suffixes, start: threading.Barrier = start) -> None:
            start.wait()
            for _ in range(50):
                packet = client._get_voice_packet(b"payload")
                suffixes.append(suffix(packet))

        threads = [threading.Thread(target=send) for _ in range(8)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        assert len(set(suffixes)) == len(suffixes) == 400


def test_a_connection_that_sends_already_goes_on_where_it_is(install: Install) -> None:
    client = Client(XCHACHA, KEYS[0])
    before = [client._get_voice_packet(b"payload") for _ in range(300)]
    install()
    after = [client._get_voice_packet(b"payload") for _ in range(300)]
    assert [suffix(packet) for packet in before + after] == [number.to_bytes(4, "big") for number in range(600)]
    assert opens(client, KEYS[0], after[-1]) == b"payload"
    assert getattr(client, COUNTER) == 300  # the library's own is not in use any more


def test_a_client_that_is_sealed_for_stays_so_and_a_new_one_is_the_librarys(install: Install) -> None:
    install()
    client = Client(XCHACHA, KEYS[0])
    first = client._get_voice_packet(b"payload")
    dvcrypto.dropin.uninstall()
    assert int.from_bytes(suffix(client._get_voice_packet(b"")), "little") == 0x8000_0001
    install()
    assert int.from_bytes(suffix(client._get_voice_packet(b"")), "little") == 0x8000_0002
    dvcrypto.dropin.uninstall()
    assert suffix(Client(XCHACHA, KEYS[0])._get_voice_packet(b"")) == bytes(4)
    assert suffix(first) == bytes.fromhex("00000080")


@pytest.mark.parametrize("mode", MODES)
async def test_at_the_counters_end_the_client_disconnects(install: Install, mode: str) -> None:
    install()
    client = Client(mode, KEYS[0])
    client.loop = asyncio.get_running_loop()
    setattr(client, COUNTER, LAST_NONCE)
    assert suffix(client._get_voice_packet(b"payload")) == b"\xff" * 4
    assert client.disconnects == []
    with pytest.raises(dvcrypto.NonceExhausted):
        client._get_voice_packet(b"payload")
    await peers.eventually(lambda: client.disconnects)
    assert client.disconnects == [True]
    with pytest.raises(dvcrypto.NonceExhausted):
        client._get_voice_packet(b"payload")


async def test_no_common_mode_names_both_lists(install: Install) -> None:
    install()
    offered = ["xsalsa20_poly1305_lite", "aead_something_new"]
    with pytest.raises(dvcrypto.NoCommonMode) as raised:
        await selected(Client(GCM, KEYS[0]), offered)
    assert raised.value.offered == tuple(offered)
    assert set(raised.value.supported) == set(MODES)


@pytest.mark.parametrize("offered", [*itertools.permutations([*MODES, "xsalsa20_poly1305"])])
async def test_the_mode_is_chosen_and_not_the_first_one(
    install: Install, monkeypatch: pytest.MonkeyPatch, offered: tuple[str, ...]
) -> None:
    install()
    client = Client(GCM, KEYS[0])
    assert await selected(client, list(offered)) == dvcrypto.choose_mode(offered)
    for mode in MODES:
        install(prefer=mode)
        assert await selected(client, list(offered)) == mode
        assert await selected(client, [XCHACHA]) == XCHACHA
        assert await selected(client, [GCM]) == GCM
    install()
    for mode in MODES:
        monkeypatch.setenv("DVCRYPTO_MODE", mode)
        assert await selected(client, list(offered)) == mode


async def test_a_subclass_has_its_own_modes(install: Install) -> None:
    class Old(Client):
        supported_modes = ORIGINAL_MODES

    install(prefer=GCM)
    assert await selected(Old(GCM, KEYS[0]), [GCM, XCHACHA]) == XCHACHA
    with pytest.raises(dvcrypto.NoCommonMode):
        await selected(Old(GCM, KEYS[0]), [GCM])


async def test_a_subclass_takes_a_mode_that_only_it_has(install: Install) -> None:
    class New(Client):
        supported_modes = ("aead_future", *MODES)

    install()
    new = New(GCM, KEYS[0])
    assert await selected(new, ["aead_other", "aead_future"]) == "aead_future"
    assert await selected(new, ["aead_future", XCHACHA]) == XCHACHA
    with pytest.raises(dvcrypto.NoCommonMode):
        await selected(new, ["aead_other"])


@pytest.mark.skipif(NAME != "discord.py", reason="the receiver is discord.py's")
async def test_no_mode_is_chosen_that_a_receiver_left_as_it_is_cannot_open(install: Install) -> None:
    pytest.importorskip("discord.ext.voice_recv.reader")
    install("discord.py", prefer=GCM)
    assert await selected(Client(GCM, KEYS[0]), [GCM, XCHACHA]) == XCHACHA
    install("discord-ext-voice-recv", prefer=GCM)
    assert await selected(Client(GCM, KEYS[0]), [GCM, XCHACHA]) == GCM


WITHOUT_PYNACL = """
import sys
from types import SimpleNamespace

class NoPyNaCl:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "nacl":
            raise ImportError("there is no PyNaCl")

sys.meta_path.insert(0, NoPyNaCl())
import dvcrypto.dropin
{install}
import {package}
{late}
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

assert not {package}.VoiceClient.warn_nacl
loop = SimpleNamespace(create_future=lambda: None)

class Client({package}.VoiceClient):
    mode = secret_key = ssrc = None
    def create_connection_state(self):
        return SimpleNamespace(dave_session=None, can_encrypt=False)

user = SimpleNamespace(id=1)
state = SimpleNamespace(loop=loop, user=user, self_id=1)
user_client = SimpleNamespace(_connection=state, loop=loop, user=user)
try:
    client = Client(user_client, SimpleNamespace(id=2, guild=SimpleNamespace(id=3)))
except RuntimeError as error:
    assert "no running event loop" in str(error), error
    import asyncio
    async def make():
        return Client(user_client, SimpleNamespace(id=2, guild=SimpleNamespace(id=3)))
    client = asyncio.run(make())
client.ssrc, client.secret_key = 1, list(range(32))
client.dave = client.e2ee_state = None
for client.mode in {modes}:
    packet = client._get_voice_packet(b"payload")
    plain = None
    if client.mode == "aead_aes256_gcm_rtpsize":
        plain = AESGCM(bytes(range(32))).decrypt(packet[-4:] + bytes(8), packet[12:-4], packet[:12])
    else:
        plain = dvcrypto.Opener(client.mode, bytes(range(32))).open(packet).payload
    assert plain == b"payload"
assert "nacl" not in sys.modules
print("sealed")
"""


@pytest.mark.skipif(NAME == "py-cord", reason="py-cord wants PyNaCl for its receiver")
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_pynacl_is_not_needed(tmp_path: Path, late: bool) -> None:
    call = "dvcrypto.dropin.install()"
    code = WITHOUT_PYNACL.format(
        install="" if late else call, late=call if late else "", package=peers.MODULES[NAME], modes=tuple(MODES)
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DVCRYPTO")}
    command = [sys.executable, "-W", "ignore", "-c", code]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout == "sealed\n", ended.stderr
