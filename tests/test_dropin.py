"""How backends are put in place and taken away, on packages that look like the real ones, which tests/dropin has."""

import copy
import importlib
import importlib.machinery
import importlib.resources
import importlib.util
import inspect
import pickle
import pkgutil
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dvcrypto
from dvcrypto import dropin
from dvcrypto.dropin import DropinWarning

GCM, XCHACHA = "aead_aes256_gcm_rtpsize", "aead_xchacha20_poly1305_rtpsize"
PACKAGES = ("discord", "disnake", "nextcord")
NAMES = {
    "discord.py",
    "discord.py-self",
    "disnake",
    "nextcord",
    "py-cord",
    "discord-ext-voice-recv",
    "discord-py-interactions",
    "hikari-wave",
}

VOICE_CLIENT = """
import {package}.gateway
{more}
has_nacl = False

class VoiceClient:
    warn_nacl = not has_nacl
    supported_modes = ("aead_xchacha20_poly1305_rtpsize", "xsalsa20_poly1305_lite")
    {counter} = 0

    def _encrypt_aead_xchacha20_poly1305_rtpsize(self, header, data):
        box = bytes(self.secret_key)
        return header + box.encrypt(data).ciphertext
"""
GATEWAY = """
class DiscordVoiceWebSocket:
    async def initial_connection(self, data):
        modes = [mode for mode in data["modes"] if mode in self._connection.supported_modes]
        return modes[0]
"""
VOICE_STATE = """
import select

class SocketReader:
    def _do_run(self):
        while not self._end.is_set() and self._running.wait():
            select.select([self.state.socket], [], [], 30)
            for callback in self._callbacks:
                callback(self.state.socket.recv(2048))
"""
READER = """
class PacketDecryptor:
    supported_modes = ["aead_xchacha20_poly1305_rtpsize"]

    def _make_box(self, secret_key):
        if self.mode:
            return Aead(secret_key)

    def _decrypt_rtp_aead_xchacha20_poly1305_rtpsize(self, packet):
        packet.adjust_rtpsize()
        return self.box.decrypt(packet.header)

    def _decrypt_rtcp_aead_xchacha20_poly1305_rtpsize(self, data):
        return self.box.decrypt(data)

class AudioReader:
    def callback(self, packet_data):
        if rtp.is_rtcp(packet_data):
            self.decryptor(self.voice_client)
        self.packet_router.feed(packet_data)
"""


class Library:
    """A package on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, path: str, text: str) -> None:
        """A module; packages on the way to it are made."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for parent in file.parent.relative_to(self.folder).parents:
            if parent != Path():
                (self.folder / parent / "__init__.py").touch()
        file.write_text(textwrap.dedent(text))
        importlib.invalidate_caches()

    def distribution(self, name: str, version: str) -> None:
        """Metadata, as pip writes it."""
        folder = name.replace("-", "_").replace(".", "_")
        self.write(
            f"{folder}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )

    def discord(self, title: str = "discord", name: str = "discord.py", version: str = "2.7.1", **texts: str) -> None:
        """One like discord.py; ``texts`` replace those of its modules."""
        self._sender("discord", title, {"_incr_nonce": "import discord.voice_state"}, texts)
        self.write("discord/voice_state.py", texts.get("voice_state", VOICE_STATE))
        self.distribution(name, version)

    def nextcord(self) -> None:
        self._sender("nextcord", "nextcord", {"_incr_nonce": ""}, {})
        self.distribution("nextcord", "3.2.0")

    def disnake(self) -> None:
        self._sender("disnake", "disnake", {"_lite_nonce": ""}, {})
        self.distribution("disnake", "2.12.2")

    def voice_recv(self) -> None:
        self.write("discord/ext/voice_recv/__init__.py", "")
        self.write("discord/ext/voice_recv/reader.py", READER)
        self.distribution("discord-ext-voice-recv", "0.5.2a179")

    def _sender(self, package: str, title: str, counter: dict[str, str], texts: dict[str, str]) -> None:
        ((name, more),) = counter.items()
        self.write(f"{package}/__init__.py", f"__title__ = {title!r}\n")
        self.write(f"{package}/notes.txt", "a resource")
        client = texts.get("voice_client", VOICE_CLIENT)
        self.write(f"{package}/voice_client.py", client.format(package=package, counter=name, more=more))
        self.write(f"{package}/gateway.py", texts.get("gateway", GATEWAY))


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """None of the real packages can be seen, imported or not; afterwards all is as it was."""
    monkeypatch.delenv("DVCRYPTO_MODE", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a text that changes within a second is read again
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(path for path in sys.path if "site-packages" not in path)])
    real = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_ours(name)}
    finders = list(sys.meta_path)
    yield Library(tmp_path)
    dropin.uninstall()
    assert sys.meta_path == finders
    for name in [name for name in sys.modules if _is_ours(name)]:
        del sys.modules[name]
    sys.modules.update(real)


def client(package: str = "discord") -> ModuleType:
    return importlib.import_module(f"{package}.voice_client")


def state(name: str = "discord.py") -> dropin.LibraryStatus:
    (status,) = [status for status in dropin.status() if status.name == name]
    return status


def snapshot(package: str = "discord") -> dict[str, dict[str, int]]:
    """Which object every attribute of the package's modules and classes is."""
    found: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package:
            found[name] = vars(module)
            found |= {f"{name}.{n}": vars(v) for n, v in vars(module).items() if isinstance(v, type)}
    return {owner: {name: id(value) for name, value in of.items()} for owner, of in found.items()}


def seals(module: ModuleType) -> bool:
    """Whether a new client seals with dvcrypto."""
    new = module.VoiceClient()
    new.secret_key = list(range(32))
    try:
        sealed = new._encrypt_aead_xchacha20_poly1305_rtpsize(bytearray(b"\x80\x78" + bytes(10)), b"payload")
    except AttributeError:  # the original has only a dummy to encrypt with
        return False
    return dvcrypto.Opener(XCHACHA, bytes(range(32))).open(sealed).payload == b"payload"


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("package", PACKAGES)
def test_a_library_may_be_imported_before_or_after(library: Library, package: str, before: bool) -> None:
    getattr(library, package)()
    if before:
        assert not seals(client(package))
    dropin.install()
    assert seals(client(package))
    assert client(package).has_nacl is True
    assert client(package).VoiceClient.warn_nacl is False
    assert client(package).VoiceClient.supported_modes == (GCM, XCHACHA)


def test_all_that_are_there_are_served(library: Library) -> None:
    library.discord()
    library.voice_recv()
    library.nextcord()
    library.disnake()
    client("nextcord")
    dropin.install()
    for module in ("discord.voice_client", "discord.ext.voice_recv.reader", "disnake.voice_client"):
        importlib.import_module(module)
    found = {status.name for status in dropin.status() if status.state == "replaced"}
    assert found == {"discord.py", "discord-ext-voice-recv", "nextcord", "disnake"}


def test_installing_again_changes_nothing(library: Library) -> None:
    library.discord()
    client()
    dropin.install()
    once, finders = snapshot(), list(sys.meta_path)
    dropin.install()
    dropin.install("discord.py")
    assert snapshot() == once
    assert sys.meta_path == finders


def test_only_those_that_are_named_are_served_and_others_may_be_added(library: Library) -> None:
    library.discord()
    library.nextcord()
    client(), client("nextcord")
    dropin.install("nextcord")
    assert (state("nextcord").state, state("discord.py").state) == ("replaced", "not asked for")
    assert not seals(client())
    dropin.install("discord.py")
    assert seals(client())
    assert seals(client("nextcord"))


def test_uninstalling_restores_every_attribute(library: Library) -> None:
    library.discord()
    library.voice_recv()
    client(), importlib.import_module("discord.ext.voice_recv.reader")
    before = snapshot()
    dropin.install()
    assert snapshot() != before
    dropin.uninstall()
    assert snapshot() == before
    dropin.uninstall()
    assert snapshot() == before
    dropin.install()
    assert seals(client())


def test_uninstalling_while_a_library_is_awaited_leaves_it_alone(library: Library) -> None:
    library.discord()
    dropin.install()
    dropin.uninstall()
    assert not seals(client())
    assert state().state == "not asked for"


def test_status_in_each_state(library: Library) -> None:
    assert {status.name for status in dropin.status()} == NAMES
    assert all(status.tested for status in dropin.status())
    assert state()[1:3] == ("not installed", None)
    library.discord()
    assert state()[1:3] == ("not asked for", "2.7.1")
    dropin.install()
    assert state()[1:3] == ("waiting", "2.7.1")
    assert state().reason == "discord.voice_client is not imported yet"
    client()
    assert state()[1:3] == ("replaced", "2.7.1")
    assert state().reason == ""
    expected = {
        "discord.voice_client.VoiceClient.supported_modes",
        f"discord.voice_client.VoiceClient._encrypt_{XCHACHA}",
        f"discord.voice_client.VoiceClient._encrypt_{GCM}",
        "discord.gateway.DiscordVoiceWebSocket.initial_connection",
        "discord.voice_state.SocketReader._do_run",
    }
    assert expected <= set(state().replaced)
    dropin.uninstall()
    assert state()[1:3] == ("not asked for", "2.7.1")
    assert state().replaced == ()


def test_what_is_not_installed_is_so_although_it_is_asked_for(library: Library) -> None:  # noqa: ARG001
    dropin.install()
    assert {status.state for status in dropin.status()} == {"not installed"}


def test_unknown_names_are_refused_with_those_there_are(library: Library) -> None:
    library.discord()
    client()
    with pytest.raises(ValueError, match="no backend for 'hikari', 'pycord'; there are ") as raised:
        dropin.install("discord.py", "hikari", "pycord")
    assert all(name in str(raised.value) for name in NAMES)
    assert state().state == "not asked for"


def test_a_list_of_names_is_refused_as_a_name_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"no backend for \['discord\.py'\]; there are "):
        dropin.install(["discord.py"])  # type: ignore[arg-type]


def test_a_library_without_metadata_has_its_status_once_it_is_imported(library: Library) -> None:
    """As in a program that was frozen."""
    library.discord(gateway="")
    (metadata,) = library.folder.glob("discord_py-*.dist-info/METADATA")
    metadata.unlink()
    metadata.parent.rmdir()
    importlib.invalidate_caches()
    dropin.install()
    assert state()[1:3] == ("not installed", None)
    with pytest.warns(DropinWarning, match=r"discord\.py of an unknown version is left alone"):
        client()
    assert (*state()[1:3], state().reason) == ("left alone", None, "discord.gateway.DiscordVoiceWebSocket is missing")
    assert state("discord.py-self").state == "not installed"


def test_a_preference_that_is_none_is_refused(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.discord()
    client()
    with pytest.raises(ValueError, match="prefer is 'aes'; the modes are "):
        dropin.install(prefer="aes")
    with pytest.raises(TypeError, match="prefer"):
        dropin.install(prefer=bytes(32))  # type: ignore[arg-type]
    monkeypatch.setenv("DVCRYPTO_MODE", "aes")
    with pytest.raises(ValueError, match="DVCRYPTO_MODE is 'aes'"):
        dropin.install()
    assert not seals(client())
    assert state().state == "not asked for"


METHOD = f"def _encrypt_{XCHACHA}(self, header, data):"
UNEXPECTED = {
    "method missing": {"voice_client": VOICE_CLIENT.replace("def _encrypt_aead", "def _encrypt_new")},
    "other arguments": {"voice_client": VOICE_CLIENT.replace("(self, header, data)", "(self, header, data, nonce)")},
    "other code": {"voice_client": VOICE_CLIENT.replace("self.secret_key", "self.keys")},
    "not a function": {
        "voice_client": VOICE_CLIENT.replace(METHOD, f"_encrypt_{XCHACHA} = 1\n\n    def other(self, header, data):")
    },
    "modes missing": {"voice_client": VOICE_CLIENT.replace("supported_modes =", "modes =")},
    "modes in a list": {"voice_client": VOICE_CLIENT.replace('_lite")', '_lite"]').replace('modes = ("', 'modes = ["')},
    "modes of no use": {"voice_client": VOICE_CLIENT.replace(f'"{XCHACHA}", ', "")},
    "does AES itself": {"voice_client": VOICE_CLIENT.replace('("aead_xcha', f'("{GCM}", "aead_xcha')},
    "AES method there": {"voice_client": VOICE_CLIENT + f"\n    def _encrypt_{GCM}(self, header, data): ...\n"},
    "class missing": {"voice_client": VOICE_CLIENT.replace("class VoiceClient", "class Client")},
    "gateway changed": {"gateway": GATEWAY.replace("self, data", "self, payload")},
    "gateway empty": {"gateway": ""},
    "socket reader changed": {"voice_state": VOICE_STATE.replace("self._callbacks", "()")},
    "no has_nacl": {"voice_client": VOICE_CLIENT.replace("has_nacl = False", "").replace("not has_nacl", "True")},
}


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("texts", UNEXPECTED.values(), ids=UNEXPECTED)
def test_code_that_is_not_as_expected_is_left_alone(library: Library, texts: dict[str, str], before: bool) -> None:
    library.discord(version="9.9.9", **texts)
    if before:
        client()
    else:
        dropin.install()
    with pytest.warns(
        DropinWarning, match=r"discord\.py 9\.9\.9 is left alone, as discord\..*; tested versions: 2\.7\.1"
    ):
        dropin.install() if before else client()
    now = snapshot()
    assert (state().state, state().replaced) == ("left alone", ())
    assert state().reason.startswith("discord.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dropin.install()  # warns once
    dropin.uninstall()
    assert snapshot() == now


def test_of_a_left_alone_receiver_nothing_is_replaced(library: Library) -> None:
    library.discord()
    library.voice_recv()
    for old, new in (("supported_modes", "modes"), ("_make_box", "_box"), ("self.voice_client", "self.client")):
        library.write("discord/ext/voice_recv/reader.py", READER.replace(old, new))
        reader = importlib.import_module("discord.ext.voice_recv.reader")
        before = snapshot()
        with pytest.warns(DropinWarning, match=r"discord-ext-voice-recv 0\.5\.2a179 is left alone"):
            dropin.install("discord-ext-voice-recv")
        assert snapshot() == before
        dropin.uninstall()
        del sys.modules[reader.__name__]


def test_a_warning_made_an_error_is_raised_and_all_is_known(library: Library) -> None:
    library.discord(gateway="")
    dropin.install()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DropinWarning):
            client()
    assert state().state == "left alone"


def test_what_someone_else_put_there_since_stays(library: Library) -> None:
    library.discord()
    kind = client().VoiceClient
    original = kind.supported_modes
    dropin.install()
    ours = kind._encrypt_aead_xchacha20_poly1305_rtpsize

    def theirs(self: Any, header: bytes, data: bytes) -> Any:
        return ours(self, header, data)

    kind._encrypt_aead_xchacha20_poly1305_rtpsize = theirs
    dropin.uninstall()
    assert kind._encrypt_aead_xchacha20_poly1305_rtpsize is theirs
    assert kind.supported_modes is original
    with pytest.warns(DropinWarning, match="is not as expected"):
        dropin.install()
    assert kind._encrypt_aead_xchacha20_poly1305_rtpsize is theirs


@pytest.mark.parametrize(
    ("title", "served"),
    [("discord", "discord.py"), ("discord.py-self", "discord.py-self"), ("pycord", None), ("somefork", None)],
)
def test_libraries_of_one_package_name_are_told_apart(library: Library, title: str, served: str | None) -> None:
    library.discord(title=title)
    library.distribution("discord.py-self", "2.1.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dropin.install()
        assert seals(client()) == bool(served)
    for name in ("discord.py", "discord.py-self"):
        if name == served:
            assert state(name).state == "replaced"
        else:
            assert (state(name).state, state(name).reason) == ("left alone", f"the package 'discord' is of {title!r}")
    dropin.uninstall()
    assert not seals(client())


def test_threads_may_install_at_once_and_while_others_import(library: Library) -> None:
    slow = "import time\ntime.sleep(0.002)\n"
    for attempt in range(20):
        library.discord(voice_client=slow + VOICE_CLIENT + slow)
        library.nextcord()
        start, errors = threading.Barrier(9), []

        def run(work: Any, start: threading.Barrier = start, errors: list[BaseException] = errors) -> None:
            try:
                start.wait(10)
                work()
            except BaseException as error:
                errors.append(error)

        work = [dropin.install] * 4 + [client, client, lambda: client("nextcord"), dropin.status, dropin.status]
        threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in work]
        if attempt % 2:
            dropin.install()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive(), "deadlock"
        assert errors == []
        assert seals(client())
        assert seals(client("nextcord"))
        dropin.uninstall()
        assert not seals(client())
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]


def test_an_install_waits_for_another_threads_import(library: Library) -> None:
    """Which wants to serve the library at its end, and would wait for the install."""
    library.discord(voice_client="import sys\nsys.importing.set(); sys.go_on.wait(10)\n" + VOICE_CLIENT)
    sys.importing, sys.go_on = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    try:
        for installed_before in (True, False):
            if installed_before:
                dropin.install()
            threads = [threading.Thread(target=client, daemon=True)]
            threads[0].start()
            assert sys.importing.wait(10)  # type: ignore[attr-defined]
            threads += [threading.Thread(target=dropin.install, daemon=True) for _ in range(3)]
            for thread in threads[1:]:
                thread.start()
            assert state().state in ("waiting", "not asked for")
            sys.go_on.set()  # type: ignore[attr-defined]
            for thread in threads:
                thread.join(10)
                assert not thread.is_alive(), "deadlock"
            assert state().state == "replaced"
            assert seals(client())
            dropin.uninstall()
            sys.importing.clear(), sys.go_on.clear()  # type: ignore[attr-defined]
            for name in [name for name in sys.modules if _is_ours(name)]:
                del sys.modules[name]
    finally:
        del sys.importing, sys.go_on  # type: ignore[attr-defined]


def test_a_library_may_install_while_it_is_imported(library: Library) -> None:
    library.discord(voice_client="import dvcrypto.dropin\ndvcrypto.dropin.install()\n" + VOICE_CLIENT)
    dropin.install()
    assert seals(client())


def test_an_import_that_fails_is_served_when_it_succeeds(library: Library) -> None:
    library.discord(voice_client=VOICE_CLIENT + "\nraise ImportError('half-way')\n")
    dropin.install()
    with pytest.raises(ImportError, match="half-way"):
        client()
    assert state().state == "waiting"
    library.discord()
    assert seals(client())
    assert state().state == "replaced"


def test_a_reload_is_served_again(library: Library) -> None:
    library.discord()
    originals = {}
    for installed in (False, True):
        if installed:
            dropin.install()
        old = client().VoiceClient
        new = importlib.reload(client()).VoiceClient
        assert new is not old
        assert seals(client()) == installed
        originals[installed] = vars(new)["supported_modes"]
    importlib.reload(client())
    assert seals(client())
    assert state().state == "replaced"
    dropin.uninstall()
    assert not seals(client())
    assert client().VoiceClient.supported_modes == originals[False]
    assert importlib.import_module("discord.gateway").DiscordVoiceWebSocket.initial_connection.__name__ == (
        "initial_connection"
    )
    importlib.reload(client())
    assert not seals(client())


class OldFinder:
    """As until Python 3.11."""

    def find_module(self, name: str, path: Any = None) -> None: ...


class AskingFinder:
    """Asks all the others, as ours does."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "discord.voice_client":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        return next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)  # type: ignore[attr-defined]


@pytest.mark.parametrize("finder", [OldFinder(), AskingFinder()], ids=["old", "asking"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.filterwarnings("ignore:OldFinder:ImportWarning")  # Python 3.11's
def test_other_peoples_finders_may_be_there(library: Library, finder: Any, before: bool) -> None:
    library.discord()
    if before:
        dropin.install()
    sys.meta_path.insert(0, finder)
    try:
        dropin.install()
        assert seals(client())
    finally:
        sys.meta_path.remove(finder)


def test_a_module_is_as_if_no_one_had_watched(library: Library) -> None:
    library.discord()
    dropin.install()
    spec = importlib.util.find_spec("discord.voice_client")  # imports the package, and not the module
    assert spec
    assert spec.loader
    assert "has_nacl" in spec.loader.get_source("discord.voice_client")  # type: ignore[attr-defined]
    for again in (pickle.loads(pickle.dumps(spec.loader)), copy.copy(spec.loader), copy.deepcopy(spec.loader)):
        assert again.get_filename("discord.voice_client") == spec.origin
    assert not hasattr(spec.loader, "something_else")
    module = client()
    assert type(module.__loader__) is type(module.__spec__.loader) is importlib.machinery.SourceFileLoader
    assert pickle.loads(pickle.dumps(module.__spec__.loader)).path == module.__file__
    assert "class VoiceClient" in inspect.getsource(module)
    assert "supported_modes" in inspect.getsource(module.VoiceClient)
    assert importlib.resources.files("discord").joinpath("notes.txt").read_text() == "a resource"
    assert pkgutil.get_data("discord.voice_client", "notes.txt") == b"a resource"
    assert {"voice_client", "gateway"} <= {
        found.name for found in pkgutil.iter_modules(sys.modules["discord"].__path__)
    }
    assert module.__spec__.name == "discord.voice_client"
    assert module.__spec__.origin == module.__file__
