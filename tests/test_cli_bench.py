"""``dvcrypto bench``: what it measures, what it recommends from that, and how it ends."""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import dvcrypto
from dvcrypto.cli import bench, main
from dvcrypto.cli.bench import masking, others, recommend, report, stream, throughput, workers

GCM, XCHACHA = dvcrypto.Mode.AES256_GCM, dvcrypto.Mode.XCHACHA20_POLY1305
SHORT = ("--seconds", "0.2")
VARIABLES = ("DVCRYPTO_MODE", "DVCRYPTO_ENGINE", masking.MASK_VARIABLE)
LOAD = stream.Load(10_000_000, 1, 10)

needs_a_mask = pytest.mark.skipif(
    not (dvcrypto.aes_accelerated() and masking.can_mask()), reason="AES instructions cannot be masked here"
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "dvcrypto", "bench", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**{name: value for name, value in os.environ.items() if name not in VARIABLES}, **environment},
    )


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What a plain run reports."""
    return reported()


def reported(*arguments: str, **environment: str) -> dict[str, Any]:
    done = run(*SHORT, "--json", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def faster_by_its_own_figures(told: dict[str, Any]) -> str:
    """What the recommendation should be, from the figures in the same report: the last row of each mode counts."""
    rows = {row["name"]: row for row in told["throughput"]}
    gcm = rows.get(GCM, rows.get(report.WITHOUT_AES))
    assert gcm

    def cost(row: dict[str, Any]) -> float:
        voice = statistics.mean(row["us_per_packet_alone"][size] for size in ("136", "200"))
        return float(voice * row["us_per_packet_in_bursts"]["1200"])

    return GCM if cost(gcm) < cost(rows[XCHACHA]) else XCHACHA


# What it measures


def test_the_report_has_every_row_with_throughput_factor_and_cpu_share(told: dict[str, Any]) -> None:
    names = [row["name"] for row in told["throughput"]]
    ours = [name for name in names if name not in others.installed()]
    if dvcrypto.aes_accelerated():
        assert ours == ([report.WITHOUT_AES] if masking.can_mask() else []) + [XCHACHA, GCM]
    else:
        assert ours == [report.WITHOUT_AES, XCHACHA]
    assert names[len(ours) :] == list(others.installed())
    assert "cryptography AES-256-GCM" in names
    first = told["throughput"][0]
    for row in told["throughput"]:
        assert list(row["mib_per_second"]) == list(row["factor"]) == ["2", "31", "136", "1024", "8192", "16384"]
        for size, factor in row["factor"].items():
            expected = row["mib_per_second"][size] / first["mib_per_second"][size]
            assert factor == pytest.approx(expected, rel=0.05, abs=0.02)
        for size in ("136", "200", "1200"):
            assert row["us_per_burst"][size] == pytest.approx(64 * row["us_per_packet_in_bursts"][size], rel=0.05)
            assert row["us_per_packet_alone"][size] > 0

    assert [row["name"] for row in told["stream"]["rows"]] == [report.NO_SEALING, *ours]
    assert told["stream"]["bitrate"] == 10_000_000
    for row in told["stream"]["rows"]:
        windows, cpu = row["windows_percent"], row["cpu_percent"]
        assert len(windows) == 2 or row["late_ms"] > 1000  # then its turn was given up
        assert min(windows) - 0.01 <= cpu["mean"] <= max(windows) + 0.01
        assert cpu["worst"] == max(windows) > 0
    assert told["machine"]["aes_accelerated"] == dvcrypto.aes_accelerated()
    assert told["recommendation"]["mode"] in list(dvcrypto.Mode)


def test_the_row_without_aes_is_openssl_s_and_the_others_are_what_serves_here(told: dict[str, Any]) -> None:
    engines = {row["name"]: row["engine"] for row in told["throughput"]}
    assert engines.get(report.WITHOUT_AES, masking.ENGINE) == masking.ENGINE
    assert engines[XCHACHA] == dvcrypto.Sealer(XCHACHA, bytes(32)).engine
    assert engines.get(GCM, "") in {"", dvcrypto.Sealer(GCM, bytes(32)).engine}


@needs_a_mask
def test_with_aes_masked_all_is_as_on_a_machine_without_it() -> None:
    told = reported(OPENSSL_ia32cap="~0x200000200000000")
    ours = [row["name"] for row in told["throughput"] if row["name"] not in others.installed()]
    assert ours == [report.WITHOUT_AES, XCHACHA]
    assert [row["name"] for row in told["stream"]["rows"]] == [report.NO_SEALING, *ours]
    assert told["throughput"][0]["engine"] == masking.ENGINE
    assert "masks this CPU's AES" in told["notes"][0]
    assert told["recommendation"]["mode"] == faster_by_its_own_figures(told)


def test_the_recommendation_is_that_of_its_own_figures(told: dict[str, Any]) -> None:
    if told["recommendation"]["factor"] > 1.1:  # below that, both are alike
        assert told["recommendation"]["mode"] == faster_by_its_own_figures(told)


@pytest.mark.parametrize(
    ("has_aes", "can_mask", "names", "said"),
    [
        (True, True, [report.WITHOUT_AES, XCHACHA, GCM], ""),
        (True, False, [XCHACHA, GCM], "cannot be masked"),
        (False, True, [report.WITHOUT_AES, XCHACHA], "no AES instructions"),
        (False, False, [report.WITHOUT_AES, XCHACHA], "no AES instructions"),
    ],
)
def test_every_machine_gets_the_rows_it_can_have_and_is_told_which_it_cannot(
    monkeypatch: pytest.MonkeyPatch, has_aes: bool, can_mask: bool, names: list[str], said: str
) -> None:
    monkeypatch.setattr(dvcrypto, "aes_accelerated", lambda: has_aes)
    monkeypatch.setattr(masking, "can_mask", lambda: can_mask)
    assert [row.name for row in bench.rows()] == names
    assert said in " ".join(bench.conditions())


@needs_a_mask
def test_a_mask_that_hides_more_than_aes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting, said in (("~0x200000200000000", True), (masking.AES_ALONE, False)):
        monkeypatch.setenv(masking.MASK_VARIABLE, setting)
        assert ("hides AVX2 too" in " ".join(bench.conditions())) is said


def test_a_forced_engine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVCRYPTO_ENGINE", "openssl-aes256gcm")
    assert "DVCRYPTO_ENGINE=openssl-aes256gcm" in " ".join(bench.conditions())


@pytest.mark.parametrize(
    ("setting", "masks"),
    [
        ("~0x200000200000000", True),
        ("~0x200000000000000", True),  # AES-NI alone
        ("~0x200000000", True),  # PCLMULQDQ alone
        ("~0x200000200000000:~0x20", True),
        ("0x0", True),  # without ~ it is what there is
        ("0xffffffffffffffff", False),
        ("~0x0", False),
        (":~0x20", False),  # AVX2 alone
        ("", False),
        ("nonsense", False),
    ],
)
def test_a_mask_is_read_as_openssl_reads_it(setting: str, masks: bool) -> None:
    assert masking.masks_aes(setting) is masks


@pytest.mark.parametrize(("name", "maker"), list(others.installed().items()))
def test_the_others_do_the_whole_job(name: str, maker: Any) -> None:
    mode = GCM if "GCM" in name else XCHACHA
    header = bytes.fromhex("8078000100000000000a0d10")
    opened = dvcrypto.Opener(mode, bytes(range(32))).open(maker(bytes(range(32)))(header, b"payload"))
    assert opened.payload == b"payload"


# The live stream


def test_a_stream_is_audio_and_video_up_to_its_bitrate() -> None:
    for bitrate in (100_000, 500_000, 10_000_000, 1_000_000_000):
        load = stream.Load(bitrate, 1, 10)
        audio = 8 * 160 * stream.AUDIO_RATE
        assert audio + 8 * load.frame_len() * stream.VIDEO_RATE == pytest.approx(bitrate, rel=0.005)
    assert LOAD.packets_per_second() == 50 + 60 * 18


@pytest.mark.parametrize("mode", [None, *dvcrypto.Mode])
def test_a_window_sends_5_audio_packets_and_6_frames_of_each_stream(
    monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    monkeypatch.setattr(stream, "_HOPELESS", math.inf)  # however late a busy machine is
    with stream.socket.socket(stream.socket.AF_INET, stream.socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        told = stream.answer(mode, 1_000_000, 2, 1, receiver.getsockname()[1])
        lengths = [len(receiver.recv(2048)) for _ in range(2 * (5 + 6 * 2))]
    assert lengths.count(160 + 32) == 2 * 5
    assert lengths.count(1200 + 32) == 2 * 6
    assert told["windows"] == 1
    assert len(told["shares"]) == len(told["seconds"]) == 1


def test_usage_tells_mean_95th_percentile_worst_and_pace() -> None:
    usage = stream.Usage([0.01] * 19 + [0.5], [0.1] * 20, windows=20)
    assert usage.mean() == pytest.approx(0.0345)
    assert usage.percentile_95() == 0.01
    assert usage.worst() == 0.5
    assert usage.pace() == pytest.approx(1)
    assert stream.Usage([1.0], [0.4], windows=2).pace() == pytest.approx(0.5)


def test_many_streams_share_one_process() -> None:
    told = reported("--stream", "500k", "--streams", "3")
    assert told["stream"]["streams"] == 3
    assert told["stream"]["packets_per_second"] == 3 * (50 + 60)


@pytest.mark.parametrize(
    ("text", "value"), [("500k", 500_000), ("10M", 10_000_000), ("2.5M", 2_500_000), ("1G", 10**9)]
)
def test_a_bitrate_is_read(text: str, value: int) -> None:
    assert stream.bitrate(text) == value


@pytest.mark.parametrize("text", ["", "fast", "10", "-1M", "10m", "1e6", "2G", "99k", "1.M", "10 M", "nan"])
def test_a_bitrate_out_of_bounds_is_refused_with_the_value_and_the_limits(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"from 100k to 1G") as refused:
        stream.bitrate(text)
    assert repr(text) in str(refused.value)


def test_a_bitrate_is_written_as_people_read_it() -> None:
    assert stream.in_words(10_000_000) == "10 Mbit/s"
    assert stream.in_words(2_500_000) == "2.5 Mbit/s"
    assert stream.in_words(500_000) == "500 kbit/s"


# What it recommends


def timing(single: float, burst: float) -> throughput.Timing:
    sizes = (*throughput.SIZES, *throughput.VOICE, throughput.VIDEO)
    return throughput.Timing("engine", dict.fromkeys(sizes, burst), dict.fromkeys(sizes, single))


def usage(share: float) -> stream.Usage:
    """Of 10 windows that differ a little."""
    return stream.Usage([share + 0.0001 * (index % 2) for index in range(10)], [0.1] * 10, windows=10)


def test_with_aes_the_faster_mode_is_recommended_with_what_it_saves() -> None:
    timings = {GCM: timing(400, 500), XCHACHA: timing(1000, 2000)}
    told = recommend.recommend(timings, {GCM: usage(0.03), XCHACHA: usage(0.034)}, LOAD, GCM)
    assert told.mode == GCM
    assert told.reason == (
        "3.2x faster here (voice 2.5x, video 4.0x), saves 0.4 % of a core per 10 Mbit/s stream"  # sqrt(2.5 * 4)
    )
    assert "by itself" in told.choosing


def test_without_aes_the_recommendation_flips() -> None:
    timings = {GCM: timing(2000, 6000), XCHACHA: timing(1000, 1500)}
    told = recommend.recommend(timings, {GCM: usage(0.04), XCHACHA: usage(0.03)}, LOAD, XCHACHA)
    assert told.mode == XCHACHA
    assert told.reason.startswith("2.8x faster here (voice 2.0x, video 4.0x), saves 1 % of a core")


def test_where_choose_mode_differs_it_is_told_what_to_set() -> None:
    timings = {GCM: timing(2000, 6000), XCHACHA: timing(1000, 1500)}
    told = recommend.recommend(timings, None, LOAD, GCM)
    assert told.mode == XCHACHA
    assert f"choose_mode takes {GCM} here" in told.choosing
    assert f"DVCRYPTO_MODE={XCHACHA}" in told.choosing


@pytest.mark.parametrize("chosen", list(dvcrypto.Mode))
def test_modes_that_are_alike_leave_the_choice_to_choose_mode(chosen: dvcrypto.Mode) -> None:
    timings = {GCM: timing(1000, 1000), XCHACHA: timing(1020, 980)}
    told = recommend.recommend(timings, None, LOAD, chosen)
    assert told.mode == chosen
    assert "alike" in told.reason


def test_a_saving_is_of_one_stream_and_told_only_where_it_is_no_chance() -> None:
    timings = {GCM: timing(400, 500), XCHACHA: timing(1000, 2000)}
    ten = stream.Load(10_000_000, 10, 10)
    told = recommend.recommend(timings, {GCM: usage(0.3), XCHACHA: usage(0.34)}, ten, GCM)
    assert told.saved_share == pytest.approx(0.004)
    noisy = stream.Usage([0.1, 0.0] * 5, [0.1] * 10, windows=10)
    assert recommend.recommend(timings, {GCM: usage(0.049), XCHACHA: noisy}, LOAD, GCM).saved_share is None
    late = stream.Usage([1.0] * 10, [0.2] * 10, windows=10)
    assert recommend.recommend(timings, {GCM: usage(0.1), XCHACHA: late}, LOAD, GCM).saved_share is None


# The chart


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_chart_is_drawn(kind: str, tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image", reason="matplotlib draws the chart")
    chart = tmp_path / f"bench.{kind}"
    done = run(*SHORT, "--plot", chart)
    assert done.returncode == 0, done.stderr
    if kind == "svg":
        assert ET.parse(chart).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    else:
        height, width, _ = image.imread(chart).shape
        assert (width, height) > (1000, 500)
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "Use aead_" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--plot", "chart.pdf"], "'chart.pdf'; it must end in .svg or .png"),
        (["--plot", "/nowhere/at/all.svg"], "no folder"),
        (["--stream", "fast"], "'fast'"),
        (["--seconds", "0"], "'0'; it must be 0.1 to 3600 seconds"),
        (["--seconds", "nan"], "'nan'; it must be"),
        (["--streams", "0"], "'0'; it must be 1 to 1000"),
        (["--streams", "1000", "--stream", "1G"], "1000 streams of 1 Gbit/s are 1000 Gbit/s in all"),
    ],
)
def test_a_bad_argument_is_refused_before_anything_is_measured(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_matplotlib_is_named_with_the_command_that_installs_it() -> None:
    script = (
        "import sys, importlib.util as u; find = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == 'matplotlib' else find(name, *a);"
        "from dvcrypto.cli import main; sys.exit(main(['bench', '--plot', 'chart.svg']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "pip install 'dvcrypto[plot]'" in done.stderr


# How it ends


def test_without_loopback_the_rest_is_told_and_the_status_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(stream, "measure", refuse)
    assert main(["bench", *SHORT]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "No stream could be sent over loopback: [Errno 101] Network is unreachable." in shown
    assert "Use aead_" in shown
    assert "Live over loopback" not in shown


@pytest.mark.parametrize(
    ("answer", "environment", "question", "said"),
    [
        (
            stream.answer,
            {},
            {"mode": "none", "bitrate": 10**6, "streams": 1, "windows": 1, "port": 9},
            "mode is 'none'",
        ),
        (stream.answer, {}, {"nothing": True}, "ended: TypeError"),
        (
            throughput.answer,
            {"DVCRYPTO_ENGINE": "none"},
            {},
            "ended: .*EngineUnavailable: .* names 'none'",
        ),
    ],
)
def test_a_worker_that_cannot_answer_says_why(
    answer: workers.Answer, environment: dict[str, str], question: dict[str, Any], said: str
) -> None:
    with workers.Worker(answer, environment) as worker, pytest.raises(OSError, match=said):
        worker.ask(**question)


def test_a_worker_that_ended_before_it_was_asked_says_why() -> None:
    with workers.Worker(throughput.answer, {"DVCRYPTO_ENGINE": "none"}) as worker:
        worker._process.wait()
        with pytest.raises(OSError, match=r"ended: .*EngineUnavailable"):
            worker.ask()


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_at_once_and_leaves_no_process(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "dvcrypto", "bench", "--seconds", "600"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # which a shell's background job ignores
    ) as running:
        try:
            children = wait_for_children(running.pid)
            running.send_signal(number)
            out, err = running.communicate(timeout=20)
        finally:
            running.kill()
    assert running.returncode == (130 if number == signal.SIGINT else 128 + number)
    assert out == ""
    assert err in {"dvcrypto: interrupted\n", ""}
    for _ in range(200):  # one that was just being started ends when its pipe does
        if not any(Path(f"/proc/{child}").exists() for child in children):
            return
        time.sleep(0.05)
    raise AssertionError(children)


def wait_for_children(pid: int) -> list[str]:
    """Until it has some; an empty list where the platform does not tell."""
    listing = Path(f"/proc/{pid}/task/{pid}/children")
    for _ in range(1200):
        if listing.exists() and (children := listing.read_text().split()):
            return children
        time.sleep(0.05)
    return []


@pytest.mark.parametrize("how", [*dvcrypto.Mode, *others.installed()])
def test_a_worker_times_every_contender_in_bursts_and_one_by_one(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "_SAMPLE", 1e-5)
    for count in (1, throughput.BURST):
        assert throughput.answer(how, 200, count)["ns"] > 0
    engine = throughput.answer(how, 0, 0)["engine"]
    assert engine == (dvcrypto.Sealer(how, bytes(32)).engine if how in list(dvcrypto.Mode) else how)
