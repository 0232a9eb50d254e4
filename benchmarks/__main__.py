"""``python -m benchmarks``: run the benchmarks, print tables or JSON."""

import argparse
import json
import os
import platform
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

import dvcrypto
from benchmarks import dropin, growth, instructions, paths, speed, threads, wire

_SECTIONS = {
    "paths": paths,
    "speed": speed,
    "threads": threads,
    "growth": growth,
    "dropin": dropin,
    "instructions": instructions,
    "wire": wire,
}


def main() -> int:
    """Run the chosen sections."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"{', '.join(_SECTIONS)}; all where none is named"
    )
    parser.add_argument("--full", action="store_true", help="every size and burst, more rounds; some 20 minutes")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    options = parser.parse_args()
    unknown = set(options.sections) - set(_SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(_SECTIONS)}")
    report: dict[str, Any] = {"machine": _machine()}
    console = Console(stderr=True)
    for name in options.sections or _SECTIONS:
        with console.status(f"{name} ..."):
            report[name] = _SECTIONS[name].measure(full=options.full)
        if not options.json:
            for title, rows in _SECTIONS[name].tables(report[name]):
                _print(title, rows)
    if options.json:
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


def _machine() -> dict[str, Any]:
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "aes_accelerated": dvcrypto.aes_accelerated(),
        **dvcrypto.versions(),
    }


def _print(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column, justify="left" if isinstance(rows[0][column], str) else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in row.values()))
    Console(width=140).print(table)


sys.exit(main())
