"""The mode is chosen from what the server offers and the CPU can do, and the engines can be seen and forced."""

import itertools
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from programs import python

from dvcrypto import DvcryptoError, Engine, Mode, NoCommonMode, Sealer, aes_accelerated, choose_mode, engines, versions

GCM, XCHACHA = Mode.AES256_GCM, Mode.XCHACHA20_POLY1305
ENGINE_NAMES = {
    GCM: ("openssl-aes256gcm", "sodium-aes256gcm"),
    XCHACHA: ("sodium-xchacha20poly1305", "openssl-xchacha20poly1305"),
}
OLD = ["xsalsa20_poly1305", "xsalsa20_poly1305_lite", "aead_aes256_gcm"]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DVCRYPTO_MODE", raising=False)


@pytest.fixture
def with_aes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dvcrypto.modes.aes_accelerated", lambda: True)


@pytest.fixture
def without_aes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dvcrypto.modes.aes_accelerated", lambda: False)


def cpu_words() -> set[str]:
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        pytest.skip("this system has no /proc/cpuinfo")
    return set(cpuinfo.read_text().split())


# Choosing


def test_the_modes_are_discord_s_names() -> None:
    assert [mode.value for mode in Mode] == ["aead_aes256_gcm_rtpsize", "aead_xchacha20_poly1305_rtpsize"]
    assert f"{GCM}" == str(GCM) == "aead_aes256_gcm_rtpsize"
    assert GCM == "aead_aes256_gcm_rtpsize"
    assert json.dumps(GCM) == '"aead_aes256_gcm_rtpsize"'


@pytest.mark.usefixtures("with_aes")
def test_aes_is_chosen_where_the_cpu_has_it_whatever_the_server_s_order() -> None:
    for offered in itertools.permutations([*OLD, GCM.value, XCHACHA.value]):
        assert choose_mode(offered) is GCM
    assert choose_mode([XCHACHA.value, *OLD]) is XCHACHA
    assert choose_mode([GCM.value]) is GCM


@pytest.mark.usefixtures("without_aes")
def test_xchacha_is_chosen_where_the_cpu_has_no_aes() -> None:
    for offered in itertools.permutations([*OLD, GCM.value, XCHACHA.value]):
        assert choose_mode(offered) is XCHACHA
    assert choose_mode([GCM.value, *OLD]) is GCM  # slow, but better than none


@pytest.mark.usefixtures("with_aes")
def test_any_iterable_of_names_or_modes_is_an_offer() -> None:
    for offered in (list(Mode), tuple(Mode), set(Mode), iter(Mode), dict.fromkeys(Mode), (mode.value for mode in Mode)):
        assert choose_mode(offered) is GCM


@pytest.mark.parametrize("accelerated", [True, False])
def test_a_preference_wins_where_it_is_offered(monkeypatch: pytest.MonkeyPatch, accelerated: bool) -> None:
    monkeypatch.setattr("dvcrypto.modes.aes_accelerated", lambda: accelerated)
    for preferred, other in ((GCM, XCHACHA), (XCHACHA, GCM)):
        for prefer in (preferred, preferred.value):
            assert choose_mode([GCM, XCHACHA], prefer=prefer) is preferred
            assert choose_mode([other], prefer=prefer) is other
            with pytest.raises(NoCommonMode):
                choose_mode(OLD, prefer=prefer)


@pytest.mark.parametrize("accelerated", [True, False])
def test_the_environment_wins_over_the_cpu_and_prefer_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, accelerated: bool
) -> None:
    monkeypatch.setattr("dvcrypto.modes.aes_accelerated", lambda: accelerated)
    for named, other in ((GCM, XCHACHA), (XCHACHA, GCM)):
        monkeypatch.setenv("DVCRYPTO_MODE", named.value)
        assert choose_mode(list(Mode)) is named
        assert choose_mode([other]) is other
        assert choose_mode(list(Mode), prefer=other) is other
    monkeypatch.setenv("DVCRYPTO_MODE", "nonsense")
    assert choose_mode(list(Mode), prefer=GCM) is GCM
    with pytest.raises(ValueError, match="DVCRYPTO_MODE is 'nonsense'"):
        choose_mode(list(Mode))


def test_no_common_mode_tells_both_lists_and_survives_pickling() -> None:
    with pytest.raises(NoCommonMode) as caught:
        choose_mode(iter(OLD))
    error = caught.value
    assert isinstance(error, DvcryptoError)
    for told in (error, *(pickle.loads(pickle.dumps(error, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1))):
        assert type(told) is NoCommonMode
        assert told.offered == tuple(OLD)
        assert told.supported == tuple(Mode)
        assert str(told) == str(error)
        assert all(name in str(told) for name in (*OLD, *Mode))


# Engines


SHOW = """
import json, dvcrypto
key, header = bytes(range(32)), bytes.fromhex("807800010000000000000d10")
shown = {}
for mode in dvcrypto.Mode:
    sealer, opener = dvcrypto.Sealer(mode, key), dvcrypto.Opener(mode, key)
    burst = sealer.seal_burst([header + bytes(n) for n in (0, 1, 191, 192, 319, 320, 543, 544, 639, 640, 1400, 20000)])
    assert {str(status) for status in opener.open_burst(burst).statuses} == {"empty", "ok"}
    shown[mode] = [sealer.engine, repr(sealer), opener.engine, repr(opener), bytes(burst.buffer).hex(),
                   [[e.name, e.available, e.reason, e.serves] for e in dvcrypto.engines()[mode]]]
print(json.dumps(shown))
"""


def test_every_mode_is_served_at_every_length_by_engines_that_can_run() -> None:
    assert set(engines()) == set(Mode)
    for mode, of_mode in engines().items():
        assert {engine.name for engine in of_mode} == set(ENGINE_NAMES[mode])
        assert all(isinstance(engine, Engine) and engine.mode is mode and engine.reason for engine in of_mode)
        ranges = sorted((served for engine in of_mode for served in engine.serves), key=lambda served: served[0])
        assert ranges[0][0] == 0
        assert ranges[-1][1] is None
        assert [end for _, end in ranges[:-1]] == [start for start, _ in ranges[1:]]
        assert all(engine.available for engine in of_mode if engine.serves)
        serving = [engine.name for engine in of_mode if engine.serves]
        assert all(name in Sealer(mode, bytes(32)).engine for name in serving)


def test_who_serves_follows_the_cpu_and_the_libraries() -> None:
    words = cpu_words()
    wide = {"avx512f", "avx512dq", "avx512bw", "avx512vl", "vaes", "vpclmulqdq"} <= words
    sodium, openssl = (tuple(map(int, versions()[name].split("."))) for name in ("libsodium", "openssl"))
    starts = {engine.name: start for of_mode in engines().values() for engine in of_mode for start, _ in engine.serves}
    expected = {"sodium-aes256gcm": 0, "sodium-xchacha20poly1305": 0, "openssl-xchacha20poly1305": 640}
    if wide and openssl >= (3, 5):
        expected["openssl-aes256gcm"] = 192
    elif sodium < (1, 0, 19):
        expected["openssl-aes256gcm"] = 320 if wide else 544
    if wide and openssl >= (3, 5):
        expected["openssl-xchacha20poly1305"] = 192
    if not all(engine.available for engine in engines()[GCM]):
        pytest.skip("one engine serves AES-256-GCM here")
    assert starts == expected


@pytest.mark.parametrize(("mode", "name"), [(mode, name) for mode, names in ENGINE_NAMES.items() for name in names])
def test_an_engine_that_is_forced_serves_its_mode_alone_with_the_same_bytes(mode: Mode, name: str) -> None:
    (engine,) = (engine for engine in engines()[mode] if engine.name == name)
    if not engine.available:
        pytest.skip(f"{name}: {engine.reason}")
    plain, forced = (json.loads(python(SHOW, **env).stdout) for env in ({}, {"DVCRYPTO_ENGINE": f" {name} ,"}))
    sealer_engine, sealer_repr, opener_engine, opener_repr, sealed, described = forced[mode]
    assert sealer_engine == opener_engine == name
    assert f" {name}" in sealer_repr
    assert f" {name}" in opener_repr
    assert sealed == plain[mode][4]
    for other_name, available, reason, serves in described:
        assert reason
        assert available in (True, False)
        assert serves == ([[0, None]] if other_name == name else [])
    (other,) = set(Mode) - {mode}
    assert forced[other] == plain[other]


def test_one_engine_for_each_mode_may_be_forced() -> None:
    names = "openssl-aes256gcm,openssl-xchacha20poly1305"
    shown = json.loads(python(SHOW, DVCRYPTO_ENGINE=names).stdout)
    assert [shown[mode][0] for mode in Mode] == names.split(",")
    twice = json.loads(python(SHOW, DVCRYPTO_ENGINE=f"{names},openssl-aes256gcm").stdout)
    assert twice == shown


@pytest.mark.parametrize("names", ENGINE_NAMES.values())
def test_two_engines_of_one_mode_are_refused(names: tuple[str, str]) -> None:
    for first, second in (names, names[::-1]):
        run = python("import dvcrypto", DVCRYPTO_ENGINE=f"{first},{second}")
        assert run.returncode != 0
        told = f"DVCRYPTO_ENGINE names both {first!r} and {second!r}; it takes one engine for each mode"
        assert told in run.stderr or "cannot run here" in run.stderr
        assert "EngineUnavailable" in run.stderr


def test_an_engine_that_cannot_run_here_is_told_and_its_mode_served_by_another(tmp_path: Path) -> None:
    """OpenSSL set up to offer FIPS algorithms only, without its FIPS provider, offers none at all."""
    config = tmp_path / "openssl.cnf"
    config.write_text("openssl_conf = a\n[a]\nalg_section = b\n[b]\ndefault_properties = fips=yes\n")
    name = "openssl-xchacha20poly1305"
    show = f"import dvcrypto; print(dvcrypto.engines()[dvcrypto.Mode({XCHACHA.value!r})])"
    run = python(show, OPENSSL_CONF=str(config))
    if run.returncode and "no engine can run for one of the modes" in run.stderr:
        assert "EngineUnavailable" in run.stderr  # a CPU without AES instructions
        return
    assert run.returncode == 0, run.stderr
    if "available=False" not in run.stdout:
        pytest.skip("the linked OpenSSL does not read OPENSSL_CONF")
    assert f"name='{name}'" in run.stdout
    assert "offers no ChaCha20-Poly1305" in run.stdout
    forced = python("import dvcrypto", DVCRYPTO_ENGINE=name, OPENSSL_CONF=str(config))
    assert f"EngineUnavailable: DVCRYPTO_ENGINE names {name!r}, which cannot run here: the linked" in forced.stderr


def test_whether_the_cpu_has_aes_is_what_the_system_says() -> None:
    assert isinstance(aes_accelerated(), bool)
    words = cpu_words()
    assert aes_accelerated() is ({"aes", "pclmulqdq"} <= words or {"aes", "pmull"} <= words)


def test_versions_are_of_the_package_and_its_libraries() -> None:
    told = versions()
    assert list(told) == ["dvcrypto", "libsodium", "openssl"]
    assert all(version[0].isdigit() and version.count(".") == 2 for version in told.values())


def test_an_engine_forced_by_a_second_import_leaves_live_sealers_alone() -> None:
    script = """
import os, sys
import dvcrypto
key, header = bytes(range(32)), bytes.fromhex("8078000100000000000a0d10")
mode = "aead_xchacha20_poly1305_rtpsize"
old, opener = dvcrypto.Sealer(mode, key), dvcrypto.Opener(mode, key)
os.environ["DVCRYPTO_ENGINE"] = "openssl-xchacha20poly1305"
for name in [name for name in sys.modules if name.startswith("dvcrypto")]:
    del sys.modules[name]
import dvcrypto as again
print(again.Sealer(mode, key).engine)
for length in (1, 2000):
    assert opener.open(old.seal(header, bytes(length))).payload == bytes(length)
old.close()
del old, opener
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "openssl-xchacha20poly1305\n"), run.stderr
