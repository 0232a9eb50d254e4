"""``dvcrypto info``: what this machine has, which engines serve, and why."""

import argparse
import os
import platform
from typing import Any

import dvcrypto
from dvcrypto.cli import show
from dvcrypto.modes import in_words


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("info", help="CPU features, versions, engines and why each was chosen")
    show.add_json_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what there is to know."""
    report = collect()
    if options.json:
        show.print_json(report)
        return 0
    facts = {
        "machine": f"{report['machine']}, Python {report['python']}",
        "AES instructions": "yes" if report["aes_accelerated"] else "no",
        **report["versions"],
        "mode where both are offered": report["mode"],
        **report["environment"],
    }
    show.print_table("This machine", ("", "what"), facts.items())
    for mode in dvcrypto.Mode:
        rows = [
            (engine["name"], _served(engine["serves"]), engine["reason"])
            for engine in report["engines"]
            if engine["mode"] == mode
        ]
        show.print_table(mode, ("engine", "serves payloads", "why"), rows)
    return 0


def collect() -> dict[str, Any]:
    """The report, ready for JSON."""
    return {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "aes_accelerated": dvcrypto.aes_accelerated(),
        "versions": dvcrypto.versions(),
        "mode": dvcrypto.choose_mode(list(dvcrypto.Mode)),
        "environment": {name: os.environ[name] for name in ("DVCRYPTO_ENGINE", "DVCRYPTO_MODE") if name in os.environ},
        "engines": [engine._asdict() for of_mode in dvcrypto.engines().values() for engine in of_mode],
    }


def _served(ranges: tuple[tuple[int, int | None], ...]) -> str:
    return " and ".join(in_words(served) for served in ranges) or "none"
