"""The types are right: mypy --strict passes on a program that uses every public name, and refuses misuse."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dvcrypto

pytest.importorskip("mypy", reason="mypy checks the types")

PACKAGE_ROOT = Path(dvcrypto.__file__).parent.parent
PROGRAM = Path(__file__).with_name("typed_program.py")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy has read of the package and the standard library, for the tests after the first."""
    return tmp_path_factory.mktemp("mypy")


def mypy(program: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    # Without a configuration file: only what --strict means to everyone.
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", "--no-error-summary"]
    environment = {**os.environ, "MYPYPATH": str(PACKAGE_ROOT)}
    return subprocess.run(
        [*command, str(program)], cwd=PACKAGE_ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_mypy_strict_passes_on_a_program_that_uses_the_whole_api(cache: Path) -> None:
    run = mypy(PROGRAM, cache)
    assert (run.returncode, run.stdout) == (0, ""), run.stdout + run.stderr


def test_that_program_runs_and_uses_every_public_name() -> None:
    path = os.pathsep.join(filter(None, (str(PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))
    run = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith("[]\n")


WRONG = {
    'sealer.seal("str", b"")': "arg-type",
    'sealer.seal(b"", 1)': "arg-type",
    'sealer.seal(b"")': "call-arg",
    'sealer.seal_burst(["str"])': "list-item",
    "sealer.seal_burst_into([b''], 'str')": "arg-type",
    'Sealer("aead_aes256_gcm_rtpsize", "str")': "arg-type",
    "Sealer(5, bytes(32))": "arg-type",
    'Sealer(mode, bytes(32), byteorder="native")': "arg-type",
    "Sealer(mode, bytes(32), 7)": "call-arg",
    "sealer.packets_left = 5": "misc",
    "sealer.nonce": "attr-defined",
    'opener.open("str")': "arg-type",
    "opener.open_burst([b''])[0].payload": "union-attr",
    "opener.open(b'').extension.data": "union-attr",
    'RtpStream(sealer, "1", 120)': "arg-type",
    "RtpStream(opener, 1, 120)": "arg-type",
    "RtpStream(sealer, 1, 120, extension=b'')": "arg-type",
    "RtpExtension.of({'1': b''})": "dict-item",
    "sealer.seal_burst([]).send(5)": "arg-type",
    "sealer.seal_burst([]).send(sock, '127.0.0.1:5')": "arg-type",
    "sealer.seal_burst([]).send(sock, None, 5)": "call-arg",
    "sealer.seal_burst([]).send(sock, rate='1')": "arg-type",
    "Receiver(sock, sealer)": "arg-type",
    "Receiver(sock, opener).receive(5)": "call-arg",
    "Receiver(sock, opener).receive()[0].payload": "union-attr",
    "RtpStream(sealer, 1, 120).send_frame(b'', sock)": "arg-type",
    "choose_mode([1])": "list-item",
    "choose_mode(5)": "arg-type",
    "engines()['x']": "index",
}


def test_mypy_refuses_misuse(cache: Path, tmp_path: Path) -> None:
    """One program with all the mistakes, since mypy's start is what takes time."""
    start = [
        "import socket",
        "from dvcrypto import Mode, Opener, Receiver, RtpExtension, RtpStream, Sealer, choose_mode, engines",
        "sock = socket.socket()",
        "mode = Mode.AES256_GCM",
        "sealer, opener = Sealer(mode, bytes(32)), Opener(mode, bytes(32))",
    ]
    program = tmp_path / "wrong.py"
    program.write_text("\n".join([*start, *WRONG]) + "\n")
    found = dict[int, str]()
    for line in mypy(program, cache).stdout.splitlines():
        if ": error: " in line:
            found.setdefault(int(line.removeprefix(str(program)).split(":")[1]), line.rsplit("[", 1)[-1].rstrip("]"))
    expected = dict(enumerate(WRONG.values(), len(start) + 1))
    assert found == expected


def test_the_package_says_that_it_is_typed() -> None:
    assert Path(dvcrypto.__file__).with_name("py.typed").exists()
