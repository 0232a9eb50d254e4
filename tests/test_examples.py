"""The examples, each run as its first lines say, on loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from ports import free_ports

import dvcrypto

av = pytest.importorskip("av", reason="the examples read and write media with PyAV")

import encoded  # noqa: E402  # needs PyAV

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("an installed package has no examples", allow_module_level=True)
MODES = list(dvcrypto.Mode)
KEY = bytes(range(32))


@contextmanager
def started(name: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """An example in a process of its own, which must not outlive the test."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    heed = None if sys.platform == "win32" else heed_interrupts
    with subprocess.Popen(command, text=True, start_new_session=True, preexec_fn=heed, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def heed_interrupts() -> None:
    """A shell's background job ignores them, and what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def said_to_its_end(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return out


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    assert process.stderr
    return process.stdout.readline() or pytest.fail(process.stderr.read())


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key.hex"
    path.write_text(KEY.hex())
    return path


def write(path: Path, codec: str, frames: list[bytes], seconds: Fraction) -> Path:
    """A file of frames that are encoded already."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=48000 if codec == "libopus" else 30)
        if codec == "libx264":
            stream.width, stream.height, stream.pix_fmt = encoded.WIDTH, encoded.HEIGHT, "yuv420p"
        for number, frame in enumerate(frames):
            packet = av.Packet(frame)
            packet.stream, packet.time_base = stream, seconds
            packet.pts = packet.dts = number
            packet.duration = 1
            container.mux(packet)
    return path


def packets_in(path: Path) -> list[Any]:
    with av.open(str(path)) as container:
        return [packet for packet in container.demux() if packet.size]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_streamed_is_what_is_recorded(mode: dvcrypto.Mode, tmp_path: Path, key_file: Path) -> None:
    frames = list(encoded.opus())
    speech = write(tmp_path / "speech.ogg", "libopus", frames, Fraction(960, 48000))
    options = ("--key", key_file, "--mode", mode)
    with started("record", "127.0.0.1:0", tmp_path / "recordings", "--idle", 5, *options) as recorder:
        address = next_line(recorder).split()[-1]
        with started("stream", speech, address, *options) as streamer:
            assert f"sent {len(frames)} frames in {len(frames)} packets, {mode}" in said_to_its_end(streamer)
        said = said_to_its_end(recorder)
    assert f"1.ogg\n{len(frames)} packets opened, 0 did not" in said
    recorded = packets_in(tmp_path / "recordings" / "1.ogg")
    assert [bytes(packet) for packet in recorded] == frames
    assert [packet.pts for packet in recorded] == [960 * number for number in range(len(frames))]


def test_a_recording_has_silence_for_gaps_and_nothing_late_forged_or_no_media(tmp_path: Path, key_file: Path) -> None:
    frames = encoded.opus()[:6]
    sealer = dvcrypto.Sealer(MODES[0], KEY)
    stream = dvcrypto.RtpStream(sealer, ssrc=7, payload_type=120, timestamp=2**32 - 960)
    sealed = [stream.seal(frame, advance=960) for frame in frames]
    forged = sealed[1][:-30] + bytes(30)
    sender_report = sealer.seal(bytes.fromhex("80c8000600000007"), bytes(20))
    arriving = [sealed[0], forged, sealed[2], sealed[1], sealed[2], bytes(8), sender_report, sealed[5]]
    with started("record", "127.0.0.1:0", tmp_path, "--key", key_file, "--mode", MODES[0], "--idle", 2) as recorder:
        host, port = next_line(recorder).split()[-1].split(":")
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            for packet in arriving:
                sock.sendto(packet, (host, int(port)))
        said_to_its_end(recorder)
    recorded = [bytes(packet) for packet in packets_in(tmp_path / "7.ogg")]
    silence = b"\xf8\xff\xfe"
    assert recorded == [frames[0], silence, frames[2], silence, silence, frames[5]]


@pytest.mark.skipif(sys.platform == "win32", reason="its Ctrl-C is of another kind")
def test_an_interrupted_recording_is_whole(tmp_path: Path, key_file: Path) -> None:
    frames = encoded.opus()[:3]
    stream = dvcrypto.RtpStream(dvcrypto.Sealer(MODES[0], KEY), ssrc=7, payload_type=120)
    with started("record", "127.0.0.1:0", tmp_path, "--key", key_file, "--mode", MODES[0]) as recorder:
        host, port = next_line(recorder).split()[-1].split(":")
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            for frame in frames:
                sock.sendto(stream.seal(frame, advance=960), (host, int(port)))
        while not (tmp_path / "7.ogg").exists():
            time.sleep(0.01)
        time.sleep(0.5)  # on a slow machine it has fewer packets by then, and those whole
        recorder.send_signal(signal.SIGINT)
        assert "packets opened, 0 did not" in said_to_its_end(recorder)
    recorded = tuple(bytes(packet) for packet in packets_in(tmp_path / "7.ogg"))
    assert recorded == frames[: len(recorded)]


def test_h264_is_streamed_in_real_time(tmp_path: Path, key_file: Path) -> None:
    frames = [frame.data for frame in encoded.video("h264")]
    film = write(tmp_path / "film.mkv", "libx264", frames, Fraction(1, 30))
    opened: list[dvcrypto.OpenedPacket | None] = []
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        to, options = f"127.0.0.1:{sock.getsockname()[1]}", ("--key", key_file, "--mode", MODES[0])
        begun = last_came = time.monotonic()
        with (
            started("stream", film, to, *options) as streamer,
            dvcrypto.Receiver(sock, dvcrypto.Opener(MODES[0], KEY)) as receiver,
        ):
            while (burst := receiver.receive(timeout=5)) or streamer.poll() is None:
                opened += burst
                last_came = time.monotonic() if burst else last_came
            assert f"sent {len(frames)} frames in {len(opened)} packets" in said_to_its_end(streamer)
    headers = [packet.header for packet in opened if packet]
    assert len(headers) == len(opened)
    shown = [header.timestamp for header in headers if header.marker]  # Matroska counts in milliseconds
    assert shown == [90 * round(1000 * number / 30) for number in range(len(frames))]
    assert last_came - begun >= shown[-1] / 90_000  # no frame leaves before it is due, however slow the machine


def test_the_relay_hands_every_stream_on_under_its_own_key(tmp_path: Path) -> None:
    count, packets = 8, 50
    mode = MODES[0]
    keys = [bytes([number]) * 32 for number in range(2 * count)]
    listening = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(count)]
    for sock in listening:
        sock.bind(("127.0.0.1", 0))
    ports = free_ports(count)
    routes = [
        {"listen": port, "key": keys[i].hex(), "to": listening[i].getsockname()[1], "to_key": keys[count + i].hex()}
        for i, port in enumerate(ports)
    ]
    (tmp_path / "routes.json").write_text(json.dumps(routes))
    options = (tmp_path / "routes.json", "--processes", 3, "--mode", mode, "--idle", 5)
    with started("relay", *options) as relay, socket.socket(type=socket.SOCK_DGRAM) as sender:
        assert sorted(next_line(relay) for _ in range(3)) == [f"relaying {n} streams\n" for n in (2, 3, 3)]
        for i, port in enumerate(ports):
            stream = dvcrypto.RtpStream(dvcrypto.Sealer(mode, keys[i]), ssrc=i, payload_type=120)
            for number in range(packets):
                sender.sendto(stream.seal(b"frame %d" % number, advance=960), ("127.0.0.1", port))
        for i, sock in enumerate(listening):
            sock.settimeout(10)
            opener = dvcrypto.Opener(mode, keys[count + i])
            opened = [opener.open(sock.recv(2048)) for _ in range(packets)]
            assert [packet.payload for packet in opened] == [b"frame %d" % number for number in range(packets)]
            assert {packet.ssrc for packet in opened} == {i}
            assert len({packet.nonce for packet in opened}) == packets
            sock.close()
        said = said_to_its_end(relay).split()
    assert sum(int(word) for word in said if word.isdigit()) == count * packets


@pytest.mark.skipif(sys.platform == "win32", reason="its Ctrl-C is of another kind")
def test_an_interrupted_relay_says_what_it_did_and_no_more(tmp_path: Path) -> None:
    routes = [
        {"listen": port, "key": KEY.hex(), "to": 9, "to_key": bytes([number] * 32).hex()}
        for number, port in enumerate(free_ports(2))
    ]
    (tmp_path / "routes.json").write_text(json.dumps(routes))
    with started("relay", tmp_path / "routes.json") as relay:
        assert [next_line(relay) for _ in range(2)] == ["relaying 1 streams\n"] * 2
        os.killpg(relay.pid, signal.SIGINT)  # as a terminal does
        out, errors = relay.communicate(timeout=60)
    assert (relay.returncode, out, errors) == (0, "relayed 0 packets\n" * 2, "")


def test_the_relay_refuses_two_sealers_with_one_key(tmp_path: Path) -> None:
    route = {"listen": 1, "key": KEY.hex(), "to": 2, "to_key": KEY.hex()}
    (tmp_path / "routes.json").write_text(json.dumps([route, route]))
    with started("relay", tmp_path / "routes.json") as relay:
        _, errors = relay.communicate(timeout=60)
    assert relay.returncode == 2
    assert "nonces would repeat" in errors


def test_every_example_is_short_and_tells_how_to_run_it() -> None:
    for example in EXAMPLES.glob("*.py"):
        source = example.read_text()
        assert f"python examples/{example.name}" in source.split('"""')[1]
        assert len(source.splitlines()) <= 85
