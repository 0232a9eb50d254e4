"""What a wheel carries is what scripts/deps.toml pins, and a wheel that is not as it should be is refused."""

import importlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT

import dvcrypto

SCRIPTS = ROOT / "scripts"
NATIVE = next(Path(dvcrypto.__file__).parent.glob("_native.*so"), None)

if not SCRIPTS.is_dir():
    pytest.skip("an installed package has no scripts", allow_module_level=True)

from dvcrypto import _build_native as build  # noqa: E402 - an installed package has none


def script(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module(name)


def test_a_checkout_that_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "dvcrypto", tmp_path / "dvcrypto", ignore=shutil.ignore_patterns("_native.*", "__pycache__"))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import dvcrypto"
    done = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"ImportError: dvcrypto's C layer is not built in {tmp_path / 'dvcrypto'}; ")
    assert said.endswith("scripts/install_system_packages.sh and `pip install --editable .` build it")


# The build


def test_a_build_without_its_libraries_says_which_line_installs_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PKG_CONFIG", "no-such-program")
    with pytest.raises(SystemExit, match="no-such-program is not installed") as caught:
        build.pkg_config_flags()
    install = str(caught.value).splitlines()
    assert install[1] == "  Debian, Ubuntu:  sudo apt-get install pkg-config libsodium-dev libssl-dev"
    assert install[-1] == "Then run the same command again."
    monkeypatch.setenv("PKG_CONFIG", "false")
    with pytest.raises(SystemExit, match=r"pkg-config finds no libsodium 1\.0\.18 or newer") as caught:
        build.pkg_config_flags()
    assert "  Debian, Ubuntu:  sudo apt-get install libsodium-dev\n" in str(caught.value)
    with pytest.raises(SystemExit, match=re.escape(f"DVCRYPTO_STATIC_PREFIX is {tmp_path}, and ")) as caught:
        build.static_flags(tmp_path)
    assert f"{tmp_path / 'include' / 'sodium.h'} is not there" in str(caught.value)


def test_a_static_build_takes_its_libraries_from_the_prefix_alone(tmp_path: Path) -> None:
    suffix = ".lib" if sys.platform == "win32" else ".a"
    archives = [tmp_path / "lib" / f"{name}{suffix}" for name in ("libsodium", "libcrypto")]
    for file in (tmp_path / "include" / "sodium.h", tmp_path / "include" / "openssl" / "evp.h", *archives):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    flags = build.static_flags(tmp_path)
    assert flags["include_dirs"] == [str(tmp_path / "include")]
    assert flags["extra_objects"] == list(map(str, archives))
    assert not {"sodium", "crypto", "ssl"} & set(flags.get("libraries", []))


# The libraries


def build_deps(prefix: Path, tarballs: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "build_deps.py"), str(prefix), "--tarballs", str(tarballs)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_address_and_tag_name_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = script(monkeypatch, "deps").pinned()
    assert [library.name for library in libraries] == ["libsodium", "openssl"]
    for library in libraries:
        assert library.version in library.tag
        assert library.tag in library.url


def test_a_tarball_with_other_bytes_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = script(monkeypatch, "deps").pinned()[0]
    with tarfile.open(tmp_path / f"{library.name}-{library.version}.tar.gz", "w:gz") as archive:
        archive.add(SCRIPTS / "deps.toml", "source/configure")
    done = build_deps(tmp_path / "prefix", tmp_path)
    assert done.returncode == 1
    assert f"scripts/deps.toml pins {library.sha256}" in done.stderr
    assert not (tmp_path / "prefix").exists()


def test_a_missing_tarball_is_named_with_where_it_is_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = script(monkeypatch, "deps").pinned()[0]
    done = build_deps(tmp_path / "prefix", tmp_path)
    assert done.returncode == 1
    assert f"{library.name}-{library.version}.tar.gz is not there; it is the file at {library.url}" in done.stderr


def test_a_newer_release_is_found_in_the_series_of_the_pinned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = script(monkeypatch, "newer_libraries")
    openssl = script(monkeypatch, "deps").pinned()[1]._replace(version="3.5.9", tag="openssl-3.5.9")
    tags = [
        "openssl-4.0.1",
        "openssl-3.6.5",
        "openssl-3.5.10",
        "openssl-3.5.11-beta1",
        "openssl-3.5.9",
        "OpenSSL_1_1_1w",
    ]
    assert newer.newer_than(openssl, tags) == "3.5.10"
    assert newer.newer_than(openssl, ["openssl-4.0.1", "openssl-3.5.8"]) is None
    with pytest.raises(SystemExit, match="no release of openssl/openssl has a tag like"):
        newer.newer_than(openssl, ["v3.5.10"])


# The check of wheels


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF")
def test_a_wheel_that_is_not_as_it_should_be_is_refused_for_every_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made of this checkout's module, which is linked with the system's libraries or has no statements of them."""
    check = script(monkeypatch, "check_wheel")
    monkeypatch.setattr(check, "SIZE_MAX", 1000)
    assert NATIVE
    wheel = tmp_path / "dvcrypto-1-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(NATIVE, "dvcrypto/_native.abi3.so")
        archive.writestr("dvcrypto-1.dist-info/METADATA", "")
        archive.writestr("dvcrypto/_native_python.h", "")
    faults = "\n".join(check.faults_of(wheel))
    for fault in (
        "at most 1000 are allowed",
        "has dvcrypto/_native_python.h, which no one needs",
        "its bill of materials names nothing",
        "has no licence of libsodium",
        "has no licence of openssl",
        "is for one version of Python alone",
    ):
        assert fault in faults


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF")
def test_a_module_with_more_symbols_or_libraries_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check = script(monkeypatch, "check_wheel")
    monkeypatch.setattr(check, "SYMBOL", "PyInit_other")
    monkeypatch.setitem(check.SYSTEM, "linux", ())
    faults = list(check.faults_of_native(NATIVE))
    assert faults[0].endswith("defines PyInit__native (1); only PyInit_other should be")
    assert any("needs libc.so.6, which not every machine has" in fault for fault in faults)
