"""Fail where a library of deps.toml has a newer release in its series: ``python scripts/newer_libraries.py``."""

import json
import re
import urllib.request
from collections.abc import Iterable

from deps import Library, pinned


def main() -> None:
    """Ask each project's release page."""
    newer = [f"{library.name} {found}" for library in pinned() if (found := newer_than(library, released(library)))]
    if newer:
        raise SystemExit(
            f"Released since scripts/deps.toml was written: {', '.join(newer)}; docs/packaging.md tells what to do"
        )
    print("Nothing newer than", *(f"{library.name} {library.version}" for library in pinned()))


def released(library: Library) -> list[str]:
    """The tags of the newest releases."""
    address = f"https://api.github.com/repos/{library.repository}/releases?per_page=100"
    with urllib.request.urlopen(address, timeout=60) as page:
        return [release["tag_name"] for release in json.load(page) if not release["prerelease"]]


def newer_than(library: Library, tags: Iterable[str]) -> str | None:
    """The newest version among a project's tags that is newer, and has the same first two numbers."""
    of_release = re.compile(re.escape(library.tag).replace(re.escape(library.version), r"(\d+\.\d+\.\d+)"))
    versions = [match[1] for tag in tags if (match := of_release.fullmatch(tag))]
    if not versions:
        raise SystemExit(f"no release of {library.repository} has a tag like {library.tag}")
    pinned_numbers = numbers(library.version)
    series = [version for version in versions if numbers(version)[:2] == pinned_numbers[:2]]
    newest = max(series, key=numbers, default=library.version)
    return newest if numbers(newest) > pinned_numbers else None


def numbers(version: str) -> list[int]:
    """A version, in an order."""
    return [int(part) for part in version.split(".")]


if __name__ == "__main__":
    main()
