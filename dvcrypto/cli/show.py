"""How the commands print: tables for people, JSON for machines."""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

_NUMBERS: Final = re.compile(r"[\d.,x\n-]+")
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``, which every command has."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def print_json(report: dict[str, Any]) -> None:
    """Print one object."""
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. Columns of numbers are set flush right."""
    written = [[str(cell) for cell in row] for row in rows]
    in_two_lines = any("\n" in row[0] for row in written)  # so that lines between the rows keep them apart
    table = Table(title=title, title_justify="left", title_style="bold", show_lines=in_two_lines)
    for index, column in enumerate(columns):
        numeric = all(_NUMBERS.fullmatch(row[index]) for row in written)
        table.add_column(column, justify="right" if numeric and written else "left", overflow="fold")
    for row in written:
        table.add_row(*row)
    Console().print(table)


def print_columns(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table without lines, as narrow as it can be; cells may be coloured. Numbers are set flush right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    written = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        cells = [row[index].plain for row in written if row[index].plain]
        numeric = bool(cells) and all(map(_NUMBER.fullmatch, cells))
        is_last = index == len(columns) - 1
        table.add_column(
            column,
            justify="right" if numeric else "left",
            header_style="dim",
            overflow="fold",
            no_wrap=not is_last,
        )
    for row in written:
        table.add_row(*row)
    console = Console()
    console.print(table)
    console.print()


def print_line(line: str) -> None:
    """Print one line as it is."""
    Console().print(line, markup=False, highlight=False, soft_wrap=True)


def print_text(text: str, style: str = "") -> None:
    """Print a paragraph, its lines broken between words."""
    Console().print(text, style=style, markup=False, highlight=False)
