"""End to end with each library that dvcrypto drops in, in an environment of its own: `make dropin`.

Several of them share the import name `discord`, so they cannot be installed side by side. Each comes in its newest
release; dvcrypto is built once, as the wheel that people get.
"""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False

WHEELS = Path("build", "dropin")
TESTS_NEED = ("aiohttp", "cryptography", "dpkt", "hypothesis", "pynacl", "pytest>=8", "pytest-timeout", "pytest-xdist")
COVERAGE = "--coverage"  # an argument behind --
PYENV = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
INTERPRETERS = (
    sys.executable,
    *("python3.12", "python3.13", "python3.14"),
    *map(str, sorted(PYENV.glob("versions/3.1?.*/bin/python"))),  # those that pyenv has, but its stubs do not run
)


class Library(NamedTuple):
    """What a session installs."""

    name: str
    requirements: tuple[str, ...]
    python: tuple[int, int] = (3, 11)
    """The oldest Python that it runs on, and dvcrypto."""


LIBRARIES = (
    Library("discord.py", ("discord.py[voice]", "discord-ext-voice-recv", "av")),  # av writes the bot's file
    Library("discord.py-self", ("discord.py-self[voice]",)),
    Library("py-cord", ("py-cord[voice]",)),
    Library("disnake", ("disnake[voice]",)),
    Library("nextcord", ("nextcord[voice]",), python=(3, 12)),
    Library("discord-py-interactions", ("discord-py-interactions[voice]",)),
    Library("hikari-wave", ("hikari-wave",), python=(3, 12)),
)


def run(session: nox.Session, library: Library) -> None:
    """Install a library and dvcrypto, and run tests/dropin."""
    install(session, library)
    command, arguments = ["pytest"], list(session.posargs)
    if COVERAGE in arguments:
        arguments.remove(COVERAGE)
        session.install("--quiet", "coverage>=7.10")
        command = ["coverage", "run", "-m", "pytest"]
    # Not all of the libraries' own warnings are errors here, as they are in dvcrypto's other tests.
    session.run(*command, "-W", "default", "-n", "4", "tests/dropin", *arguments)


def install(session: nox.Session, library: Library) -> None:
    """A library, dvcrypto, and what the tests need."""
    session.install("--quiet", "--upgrade", *library.requirements, *TESTS_NEED)
    session.install("--quiet", "--force-reinstall", "--no-deps", _wheel())
    session.install("--quiet", "cffi>=2.0")


@nox.session(name="dropin-soak", default=False)
def soak(session: nox.Session) -> None:
    """A full voice channel for a long time: `nox -s dropin-soak -- --minutes 10 --voices 20`."""
    install(session, LIBRARIES[0])
    session.run("python", "tests/dropin/soak.py", *session.posargs)


@functools.cache
def _wheel() -> str:
    for old in WHEELS.glob("*.whl"):
        old.unlink()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(WHEELS), "."]
    subprocess.run(command, check=True)
    (wheel,) = WHEELS.glob("*.whl")
    return str(wheel)


@functools.cache
def _interpreter(oldest: tuple[int, int]) -> str | None:
    """One that is there and runs, which a version manager's stub need not do."""
    question = f"import sys; sys.exit(sys.version_info < {oldest})"
    for interpreter in INTERPRETERS:
        path = shutil.which(interpreter)
        if path and subprocess.run([path, "-c", question], check=False, capture_output=True).returncode == 0:
            return path
    return None


def _add(library: Library) -> None:
    interpreter = _interpreter(library.python)

    @nox.session(name=f"dropin-{library.name}", python=interpreter or False)
    def session(session: nox.Session) -> None:
        if interpreter is None:
            session.skip(f"{library.name} needs Python {'.'.join(map(str, library.python))}, and there is none")
        run(session, library)


for _library in LIBRARIES:
    _add(_library)
