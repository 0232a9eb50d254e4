"""The command line on real captures: what it writes, what it says, and how it ends."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import dpkt
import pytest

import dvcrypto

KEY = "4405dfc5d83d86c231d3313a59cef41d6b780641acf007c9af841dc616b278a2"
OWN_CAPTURE = Path(dvcrypto.__file__).parent / "cli" / "demo.pcap"
MODES = [mode.value for mode in dvcrypto.Mode]


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "dvcrypto", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )


def succeed(*arguments: str | Path) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def report(*arguments: str | Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return loaded


def seal(source: Path, target: Path, mode: str = MODES[0], *more: str) -> None:
    succeed("seal", source, target, "--key", KEY, "--mode", mode, *more)


def flip_bit(capture: Path, packet_number: int) -> None:
    """Flip one bit in the middle of a packet's UDP payload; the records are found by dpkt."""
    content = bytearray(capture.read_bytes())
    start = 24
    with capture.open("rb") as file:
        for number, (_, frame) in enumerate(dpkt.pcap.Reader(file), start=1):
            if number == packet_number:
                content[start + 16 + len(frame) - 30] ^= 0x10
                break
            start += 16 + len(frame)
    capture.write_bytes(content)


@pytest.mark.parametrize("mode", MODES)
def test_seal_then_open_gives_the_same_file_byte_for_byte(mode: str, vectors: Path, tmp_path: Path) -> None:
    for source in (vectors / "rtp/str0m/h264.pcap", vectors / "rtp/str0m/vp8.pcap", OWN_CAPTURE):
        sealed, opened = tmp_path / f"{source.name}.sealed", tmp_path / f"{source.name}.opened"
        seal(source, sealed, mode)
        assert sealed.read_bytes() != source.read_bytes()
        succeed("open", sealed, opened, "--key", KEY, "--mode", mode)
        assert opened.read_bytes() == source.read_bytes()


def test_every_media_packet_is_sealed_and_everything_else_counted(tmp_path: Path) -> None:
    told = report("seal", OWN_CAPTURE, tmp_path / "sealed", "--key", KEY, "--mode", MODES[0])
    assert told["packets"] == 320
    assert told["sealed"] == {"rtp": 305, "rtcp": 7}
    assert told["passed_through"] == 8  # ARP, TCP SYN, IP discovery both ways, four keep-alives
    assert told["failed"] == []


def test_a_flipped_bit_is_reported_by_packet_number_and_nothing_else_is_lost(tmp_path: Path) -> None:
    sealed, opened = tmp_path / "sealed.pcap", tmp_path / "opened.pcap"
    seal(OWN_CAPTURE, sealed)
    flip_bit(sealed, 160)
    done = run("open", sealed, opened, "--key", KEY, "--mode", MODES[0])
    assert done.returncode == 1
    assert "packet 160 has a wrong tag" in done.stderr
    assert "opened 304 RTP and 7 RTCP, passed through 8, failed 1" in done.stdout
    with opened.open("rb") as ours, OWN_CAPTURE.open("rb") as theirs, sealed.open("rb") as before:
        packets = list(zip(dpkt.pcap.Reader(ours), dpkt.pcap.Reader(theirs), dpkt.pcap.Reader(before), strict=True))
    for number, (got, original, was) in enumerate(packets, start=1):
        assert got == (was if number == 160 else original), number


def test_a_wrong_key_opens_nothing_and_the_exit_status_says_so(tmp_path: Path) -> None:
    sealed = tmp_path / "sealed.pcap"
    seal(OWN_CAPTURE, sealed)
    done = run("open", sealed, tmp_path / "opened.pcap", "--key", "00" * 32, "--mode", MODES[0])
    assert done.returncode == 1
    assert "(312 in all)" in done.stderr
    assert (tmp_path / "opened.pcap").read_bytes() == sealed.read_bytes()


def test_an_output_is_never_overwritten_without_force(tmp_path: Path) -> None:
    target = tmp_path / "kept.pcap"
    target.write_bytes(b"precious")
    done = run("seal", OWN_CAPTURE, target, "--key", KEY, "--mode", MODES[0])
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert target.read_bytes() == b"precious"
    seal(OWN_CAPTURE, target, MODES[0], "--force")
    assert target.read_bytes() != b"precious"


def test_a_run_that_fails_leaves_the_old_output_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "kept.pcap"
    target.write_bytes(b"precious")
    command = ("seal", OWN_CAPTURE, target, "--key", KEY, "--mode", MODES[0], "--force")
    assert run(*command, "--first-nonce", "0xfffffff0").returncode == 2
    assert target.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions and links")
def test_an_output_keeps_its_permissions_and_a_link_what_it_points_at(tmp_path: Path) -> None:
    secret, link = tmp_path / "secret.pcap", tmp_path / "link.pcap"
    secret.touch(mode=0o600)
    link.symlink_to(secret)
    seal(OWN_CAPTURE, link, MODES[0], "--force")
    assert link.is_symlink()
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.stat().st_size > OWN_CAPTURE.stat().st_size


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_run_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    long = tmp_path / "long.pcap"
    long.write_bytes(OWN_CAPTURE.read_bytes() + OWN_CAPTURE.read_bytes()[24:] * 400)
    command = [sys.executable, "-m", "dvcrypto", "seal", long, tmp_path / "out.pcap", "--key", KEY, "--mode", MODES[0]]
    process = subprocess.Popen(list(map(str, command)))
    while not list(tmp_path.glob(".dvcrypto-*")):
        assert process.poll() is None
    process.terminate()
    assert process.wait(30) == 128 + 15
    assert list(tmp_path.iterdir()) == [long]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_an_output_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run("seal", OWN_CAPTURE, tmp_path / "pipe", "--key", KEY, "--mode", MODES[0], "--force")
    assert done.returncode == 2
    assert "no regular file" in done.stderr
    assert (tmp_path / "pipe").is_fifo()


def test_the_input_is_never_its_own_output(tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcap"
    shutil.copy(OWN_CAPTURE, capture)
    (tmp_path / "link.pcap").symlink_to(capture)
    done = run("seal", capture, tmp_path / "link.pcap", "--key", KEY, "--mode", MODES[0], "--force")
    assert done.returncode == 2
    assert "input itself" in done.stderr
    assert capture.read_bytes() == OWN_CAPTURE.read_bytes()


def test_packets_that_cannot_be_sealed_are_named_and_the_rest_is_sealed(tmp_path: Path) -> None:
    content = bytearray(OWN_CAPTURE.read_bytes())
    start = 24
    with OWN_CAPTURE.open("rb") as file:
        for number, (_, frame) in enumerate(dpkt.pcap.Reader(file), start=1):
            payload_start = start + 16 + 42
            if number == 100:
                assert content[payload_start] >> 6 == 2
                content[payload_start] = 0x9F  # extension and 15 CSRCs
                content[payload_start + 12 + 62 : payload_start + 12 + 64] = b"\xff\xff"
            start += 16 + len(frame)
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(content)
    told = report("seal", bad, tmp_path / "sealed.pcap", "--key", KEY, "--mode", MODES[0])
    assert [failure["packet"] for failure in told["failed"]] == [100]
    assert "262140" in told["failed"][0]["reason"]
    assert told["sealed"]["rtp"] + told["sealed"]["rtcp"] == 311


def test_a_capture_cut_short_is_kept_as_far_as_it_goes(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(OWN_CAPTURE.read_bytes()[:-10])
    done = run("seal", cut, tmp_path / "sealed.pcap", "--key", KEY, "--mode", MODES[0])
    assert done.returncode == 1
    assert "cannot be read" in done.stderr
    with (tmp_path / "sealed.pcap").open("rb") as file:
        assert len(list(dpkt.pcap.Reader(file))) == 319


def test_ports_choose_what_is_media(tmp_path: Path) -> None:
    told = report("seal", OWN_CAPTURE, tmp_path / "a", "--key", KEY, "--mode", MODES[0], "--port", "9")
    assert told["sealed"] == {"rtp": 0, "rtcp": 0}
    assert (tmp_path / "a").read_bytes() == OWN_CAPTURE.read_bytes()
    told = report(
        "seal", OWN_CAPTURE, tmp_path / "b", "--key", KEY, "--mode", MODES[0], "--port", "9", "--port", "50004"
    )
    assert told["sealed"] == {"rtp": 305, "rtcp": 7}


@pytest.mark.parametrize("form", ["hex", "raw", "json", "hex with newline"])
def test_keys_come_from_files_in_every_form(form: str, tmp_path: Path) -> None:
    raw = bytes.fromhex(KEY)
    content = {
        "hex": KEY.encode(),
        "raw": raw,
        "json": json.dumps(list(raw)).encode(),
        "hex with newline": KEY.upper().encode() + b"\n",
    }[form]
    (tmp_path / "key").write_bytes(content)
    seal(OWN_CAPTURE, tmp_path / "expected.pcap")
    succeed("seal", OWN_CAPTURE, tmp_path / "got.pcap", "--key", f"@{tmp_path / 'key'}", "--mode", MODES[0])
    assert (tmp_path / "got.pcap").read_bytes() == (tmp_path / "expected.pcap").read_bytes()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("zz" * 32, "neither hexadecimal nor"),
        (KEY[:-2], "31 bytes; it must be 32"),
        (KEY + "00", "33 bytes; it must be 32"),
        ("[1, 2, 300]", "neither hexadecimal nor"),
        ("@/nowhere/at/all", "cannot read"),
    ],
)
def test_a_bad_key_is_refused_and_never_shown(key: str, said: str, tmp_path: Path) -> None:
    done = run("seal", OWN_CAPTURE, tmp_path / "sealed.pcap", "--key", key, "--mode", MODES[0])
    assert done.returncode == 2
    assert said in done.stderr
    assert key[:16] not in done.stderr or key.startswith("@")
    assert not (tmp_path / "sealed.pcap").exists()


@pytest.mark.parametrize("content", [b"", b"not a capture at all", b"\xd4\xc3\xb2\xa1" + bytes(8)])
def test_what_is_no_capture_is_refused_in_a_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(content)
    done = run("open", tmp_path / "junk", tmp_path / "out", "--key", KEY, "--mode", MODES[0])
    assert done.returncode in {1, 2}
    assert "Traceback" not in done.stderr
    assert "junk" in done.stderr


def test_nonces_start_where_they_are_told_to(tmp_path: Path) -> None:
    seal(OWN_CAPTURE, tmp_path / "sealed.pcap", MODES[0], "--first-nonce", "0xfffffe00", "--byteorder", "big")
    with (tmp_path / "sealed.pcap").open("rb") as file:
        suffixes = [frame[-4:] for _, frame in dpkt.pcap.Reader(file) if len(frame) > 42 + 74]
    assert suffixes[0] == bytes.fromhex("fffffe00")


def test_a_counter_that_ends_within_the_capture_ends_the_command(tmp_path: Path) -> None:
    done = run("seal", OWN_CAPTURE, tmp_path / "out", "--key", KEY, "--mode", MODES[0], "--first-nonce", "0xfffffff0")
    assert done.returncode == 2
    assert "nonce counter" in done.stderr
    assert not (tmp_path / "out").exists()


def test_replays_in_a_capture_are_refused_where_asked(tmp_path: Path) -> None:
    seal(OWN_CAPTURE, tmp_path / "once.pcap")
    once = (tmp_path / "once.pcap").read_bytes()
    (tmp_path / "twice.pcap").write_bytes(once + once[24:])
    arguments = ("open", tmp_path / "twice.pcap", tmp_path / "out.pcap", "--key", KEY, "--mode", MODES[0])
    told = report(*arguments, "--replay-window", "1024")
    assert told["opened"] == {"rtp": 305, "rtcp": 14}  # RTCP has no sequence number
    assert len(told["failed"]) == 305


def test_the_demo_opens_in_a_second_process_all_that_it_sealed() -> None:
    told = report("demo")
    assert [row["mode"] for row in told["modes"]] == MODES
    for row in told["modes"]:
        assert row["packets"] == 312
        assert row["differences"] == []
        assert row["seal_us_per_packet"] > 0
    shown = run("demo")
    assert shown.returncode == 0
    assert shown.stdout.count("all equal") == 2


def test_the_demo_takes_another_capture_and_refuses_one_without_media(vectors: Path, tmp_path: Path) -> None:
    told = report("demo", "--capture", vectors / "rtp/str0m/h264.pcap")
    assert [row["packets"] for row in told["modes"]] == [298, 298]
    with (tmp_path / "empty.pcap").open("wb") as file:
        dpkt.pcap.Writer(file).close()
    done = run("demo", "--capture", tmp_path / "empty.pcap")
    assert done.returncode == 2
    assert "no plain RTP" in done.stderr


@pytest.mark.parametrize("mode", dvcrypto.Mode)
def test_the_demo_tells_every_difference(mode: dvcrypto.Mode) -> None:
    from dvcrypto.cli import demo

    key, plain = bytes(32), [bytes.fromhex("8078000100000000000a0d10") + bytes([n]) for n in range(4)]
    sealed = dvcrypto.Sealer(mode, key).seal_burst(plain).tolist()
    assert demo._differences(mode, key, plain, sealed, [*plain]) == []
    assert demo._differences(mode, key, plain, sealed[:3], [*plain]) == ["media packet 4 did not arrive"]
    assert demo._differences(mode, key, plain, sealed, plain[:3]) == ["media packet 4 did not arrive"]
    other = bytes([*sealed[1][:12], sealed[1][12] ^ 1, *sealed[1][13:]])
    told = demo._differences(mode, key, plain, [sealed[0], other, *sealed[2:]], [*plain[:2], None, plain[0]])
    assert told == [
        "media packet 2 was sealed to other bytes than cryptography's",
        "media packet 3 was opened to other bytes than it had",
        "media packet 4 was opened to other bytes than it had",
    ]
    again = dvcrypto.Sealer(mode, key).seal(plain[1][:12], plain[1][12:])
    told = demo._differences(mode, key, plain[:2], [sealed[0], again], [*plain[:2]])
    assert told == ["1 nonces were used twice"]


def test_the_demo_notices_a_difference(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from dvcrypto.cli import main, reference

    honest = reference.seal

    def dishonest(mode: str, key: bytes, packet: bytes, suffix: bytes) -> bytes:
        sealed = honest(mode, key, packet, suffix)
        return sealed[:-1] + bytes([sealed[-1] ^ 1]) if packet[2:4] == b"\x00\x00" else sealed

    monkeypatch.setattr(reference, "seal", dishonest)
    assert main(["demo"]) == 1
    assert "sealed to other bytes" in capsys.readouterr().out


def test_info_tells_cpu_versions_engines_and_reasons() -> None:
    told = report("info")
    assert told["versions"] == dvcrypto.versions()
    assert told["aes_accelerated"] == dvcrypto.aes_accelerated()
    assert {engine["name"] for engine in told["engines"]} == {
        engine.name for engines in dvcrypto.engines().values() for engine in engines
    }
    assert all(engine["reason"] for engine in told["engines"])
    shown = succeed("info")
    assert all(engine["name"] in shown for engine in told["engines"])


def test_info_shows_a_forced_engine() -> None:
    done = run("info", "--json", DVCRYPTO_ENGINE="openssl-aes256gcm")
    engines = {engine["name"]: engine for engine in json.loads(done.stdout)["engines"]}
    assert engines["openssl-aes256gcm"]["serves"] == [[0, None]]
    assert engines["sodium-aes256gcm"]["serves"] == []


@pytest.mark.parametrize("command", [[], ["demo"], ["seal"], ["open"], ["info"], ["inspect"], ["bench"]])
def test_every_command_explains_itself(command: list[str]) -> None:
    shown = succeed(*command, "--help")
    assert "usage: dvcrypto" in shown


def test_a_missing_extra_is_named_with_the_command_that_installs_it() -> None:
    script = (
        "import sys, importlib.util as u; find = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == 'rich' else find(name, *a);"
        "from dvcrypto.cli import main; sys.exit(main(['info']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "pip install 'dvcrypto[cli]'" in done.stderr
    assert "rich" in done.stderr
