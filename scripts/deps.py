"""What scripts/deps.toml pins."""

import tomllib
from pathlib import Path
from typing import NamedTuple


class Library(NamedTuple):
    """A library that a wheel carries."""

    name: str
    version: str
    repository: str
    tag: str
    url: str
    sha256: str
    license: str
    license_file: str


def pinned() -> list[Library]:
    """The libraries, in the order of the file."""
    table = tomllib.loads(Path(__file__).with_name("deps.toml").read_text(encoding="utf-8"))
    return [Library(name, **entry) for name, entry in table.items()]
