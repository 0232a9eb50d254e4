"""Plants each fault of faults.toml alone in a copy of the project, and looks which test catches it.

The C layer's tests are asked first, then the tests that the fault names, then all others. The process ends with 1 where
a fault is not caught, or no longer fits the code. ``--table`` writes what caught which to a page of the documentation.
"""

import argparse
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import track

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults.toml")
NATIVE = ("csrc/", "dvcrypto/_native_python.h")
HANGS_AFTER = 600  # seconds
C_TESTS = ("make", "--silent", "build/test_csrc", "WARNINGS=-std=c11", "CFLAGS=-O1 -g")
PYTHON_TESTS = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "auto")

INTRODUCTION = """\
# Planted faults

Each of these faults was planted alone, and the tests were run until one failed. `make mutation` does it again and
writes this page; the faults themselves are in `tests/mutation/faults.toml`.

"""


class Fault(NamedTuple):
    """A change that breaks a promise."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """What the tests said of a fault."""

    fault: Fault
    caught_by: str | None
    seconds: float


def read_faults(names: list[str]) -> list[Fault]:
    """The faults, or those whose names have one of the words."""
    rows = tomllib.loads(FAULTS.read_text())["fault"]
    faults = [Fault(**{**row, "tests": tuple(row.get("tests", ()))}) for row in rows]
    return [fault for fault in faults if not names or any(name in fault.name for name in names)]


def copy_project(folder: Path) -> None:
    """What git knows and the work tree has, without what was built."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


@contextmanager
def planted(fault: Fault, folder: Path) -> Iterator[None]:
    """The fault, as long as this lasts."""
    path = folder / fault.file
    sound = path.read_text()
    if sound.count(fault.old) != 1:
        message = f"{fault.name!r}: its old text stands {sound.count(fault.old)} times in {fault.file}, not once"
        raise SystemExit(message)
    path.write_text(sound.replace(fault.old, fault.new))
    try:
        yield
    finally:
        path.write_text(sound)


@functools.cache
def environment(folder: Path) -> dict[str, str]:
    """The copy comes before the installed package; vectors are where they were."""
    vectors = os.environ.get("DVCRYPTO_VECTORS", str(ROOT.parent / "shared" / "vectors"))
    return {**os.environ, "PYTHONPATH": str(folder), "DVCRYPTO_VECTORS": vectors, "PYTHONDONTWRITEBYTECODE": "1"}


def run(folder: Path, *command: str) -> tuple[int, str]:
    """Exit status and output; 124 for what hangs."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=HANGS_AFTER)
    except BaseException as error:  # also an interrupt, which does not reach a session of its own
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return 124, output
    return process.returncode, output


def must(folder: Path, *command: str) -> None:
    """A step that must go well, else the fault says nothing."""
    status, output = run(folder, *command)
    if status:
        raise SystemExit(f"{' '.join(command)} failed:\n{output[-3000:]}")


def ask_c(folder: Path) -> str | None:
    """The group of the C layer's tests that fails, if one does."""
    must(folder, *C_TESTS)
    status, output = run(folder, "build/test_csrc")
    if status == 0:
        return None
    groups = re.findall(r"^(\S.*?) +\d+ cases", output, re.MULTILINE)
    failed = re.search(r"^(csrc/tests/\S+?):\d+", output, re.MULTILINE)
    if failed:
        return f"`{failed[1]}`: {groups_around(output, failed.start())}"
    how = "hung" if status == 124 else "crashed"
    return f"the C tests {how} after {groups[-1] if groups else 'their start'}"


def groups_around(output: str, at: int) -> str:
    """The name of the group whose check failed: its line is printed when it ends."""
    ended = re.search(r"^(\S.*?) +\d+ cases", output[at:], re.MULTILINE)
    return ended[1] if ended else "not ended"


def ask_python(folder: Path, tests: tuple[str, ...]) -> str | None:
    """The first of the tests that fails, if one does. All of them where none is named."""
    status, output = run(folder, *PYTHON_TESTS, *tests)
    if status == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", output, re.MULTILINE)
    if failed:
        return f"`{failed[1]}`"
    return "the tests hung" if status == 124 else f"the tests ended with status {status}"


def judge(fault: Fault, folder: Path) -> Verdict:
    """Plant a fault, and ask the tests."""
    began = time.monotonic()
    with planted(fault, folder):
        caught = ask_c(folder) if fault.file.startswith("csrc/") else None
        if caught:
            return Verdict(fault, caught, time.monotonic() - began)
        if fault.file.startswith(NATIVE):
            build_extension(folder)
        caught = (fault.tests and ask_python(folder, fault.tests)) or ask_python(folder, ())
    if fault.file.startswith(NATIVE):
        build_extension(folder)
    return Verdict(fault, caught, time.monotonic() - began)


def build_extension(folder: Path) -> None:
    """Beside the package's modules, from scratch."""
    for built in (*folder.glob("dvcrypto/_native*.so"), *folder.glob("build/temp.*"), *folder.glob("build/lib.*")):
        shutil.rmtree(built) if built.is_dir() else built.unlink()
    must(folder, sys.executable, "setup.py", "-q", "build_ext", "--inplace")


def table(verdicts: list[Verdict]) -> str:
    """The page of the documentation."""
    rows = "".join(
        f"| {verdict.fault.name} | `{verdict.fault.file}` | {verdict.caught_by or '**nothing**'} |\n"
        for verdict in verdicts
    )
    return f"{INTRODUCTION}| fault | in | caught by |\n|---|---|---|\n{rows}"


def main() -> int:
    """Plant the faults."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="words of the faults to plant; all without")
    parser.add_argument("--table", type=Path, help="write the page of all faults here")
    parser.add_argument("--json", action="store_true", help="print the results for machines")
    chosen = parser.parse_args()
    faults = read_faults(chosen.names)
    console = Console(stderr=True)
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="dvcrypto-mutation-") as name:
        folder = Path(name)
        copy_project(folder)
        build_extension(folder)
        must(folder, *C_TESTS)
        must(folder, "build/test_csrc")
        must(folder, *PYTHON_TESTS)
        for fault in track(faults, "Planting faults", console=console):
            verdicts.append(judge(fault, folder))
            console.print(f"{verdicts[-1].seconds:5.0f} s  {fault.name}: {verdicts[-1].caught_by or 'NOT CAUGHT'}")
    if chosen.table:
        chosen.table.write_text(table(verdicts))
    if chosen.json:
        print(json.dumps([{"fault": v.fault.name, "file": v.fault.file, "caught_by": v.caught_by} for v in verdicts]))
    return any(verdict.caught_by is None for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main())
