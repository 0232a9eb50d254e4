"""One packet with its bytes laid out by field, within 80 columns."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from dvcrypto.cli import show
from dvcrypto.cli.inspect.contents import hidden_fields
from dvcrypto.cli.inspect.overview import verdict_text
from dvcrypto.cli.inspect.rows import Datagram, Row
from dvcrypto.diagnosis import Diagnosis, Field

_WIDTH: Final = 80
_IN_LINE: Final = 4  # bytes of a field that stand beside its name; of more, 16 a line stand below
_IN_ROW: Final = 16
_HEX_AT: Final = 25
_MEANING_AT: Final = 38
_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "bright_blue", "bright_red")
_NAMED: Final = {"ciphertext": "dim", "payload": "white", "tag": "bright_red", "nonce": "bright_yellow"}


def print_packet(datagram: Datagram, row: Row, diagnosis: Diagnosis) -> None:
    """All about one packet."""
    console = Console()
    console.print(_title(row))
    for label, value in _facts(row):
        console.print(Text.assemble((f"  {label:<10}", "dim"), value), soft_wrap=False)
    _print_fields("On the wire", datagram.payload, diagnosis.fields)
    if diagnosis.opened is not None:
        _print_fields("Inside", diagnosis.opened.plain, hidden_fields(diagnosis.opened))
    elif row.failed:
        show.print_line("Nothing of what is inside is shown: it was not authenticated.")


def _title(row: Row) -> Text:
    return Text.assemble((f"Packet {row.number}, {row.kind}, {row.length} bytes: ", "bold"), verdict_text(row))


def _facts(row: Row) -> Iterable[tuple[str, str]]:
    if row.time is not None:
        yield "time", f"{row.time:.6f} s after the capture's start"
    if row.source:
        yield "from", row.source
        yield "to", row.destination
    if row.mode is not None:
        yield "mode", row.mode.value
    if row.reason:
        yield "why", row.reason
    for note in row.notes:
        yield "note", note


def _print_fields(title: str, data: bytes, fields: Sequence[Field]) -> None:
    console = Console()
    console.print()
    console.print(Text(title, "bold"))
    for index, field in enumerate(fields):
        colour = _NAMED.get(field.name, _COLOURS[index % len(_COLOURS)])
        for line in _lines(field, data[field.start : field.end], colour):
            console.print(line, soft_wrap=True)


def _lines(field: Field, data: bytes, colour: str) -> Iterator[Text]:
    """Offset, name, and what the field means, beside its bytes or above them."""
    is_short = len(data) <= _IN_LINE
    beside = f"{data.hex(' '):<{_MEANING_AT - _HEX_AT}}" if is_short else ""
    head = Text.assemble((f"{field.start:5} ", "dim"), (f"{field.name:<{_HEX_AT - 6}}{beside}", colour))
    meaning = textwrap.wrap(
        field.meaning or ("" if is_short else f"{len(data)} bytes"), _WIDTH - len(head), break_on_hyphens=False
    ) or [""]
    for index, words in enumerate(meaning):
        line = (head if index == 0 else Text(" " * len(head))).copy().append(words)
        line.rstrip()
        yield line
    if not is_short:
        for start in range(0, len(data), _IN_ROW):
            yield Text(" " * _HEX_AT).append(data[start : start + _IN_ROW].hex(" "), colour)
