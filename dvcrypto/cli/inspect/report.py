"""All that a run of ``dvcrypto inspect`` has to say, and of which packets it says it."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dvcrypto.cli.inspect.findings import Survey
from dvcrypto.cli.inspect.rows import Datagram, Row
from dvcrypto.diagnosis import Diagnosis

_LINES_SHOWN: Final = 40
_ALIKE_SHOWN: Final = 8  # lines of packets that have the same fault
_DIGITS: Final = re.compile(r"\d+")


class Chosen(NamedTuple):
    """The packet that all is said about."""

    datagram: Datagram
    row: Row
    diagnosis: Diagnosis


@dataclass
class Report:
    """What a run has found."""

    survey: Survey = field(default_factory=Survey)
    rows: list[Row] = field(default_factory=list)
    """Of the packets that are shown."""
    faulty: int = 0
    """Of how many there is something to say, shown or not."""
    alike: Counter[str] = field(default_factory=Counter)
    """How many of those for each thing that is said."""
    chosen: Chosen | None = None
    other: int = 0
    """Packets of the capture that are none of the conversation's."""
    damage: str | None = None

    def keep_for_lines(self, row: Row) -> None:
        """Keep all while they are few, then those with faults alone, and no more than people read."""
        seen = self.survey.kinds.total()
        if seen <= _LINES_SHOWN:
            self.faulty += row.is_remarkable
            self.rows.append(row)
            return
        if seen == _LINES_SHOWN + 1:
            before, self.rows, self.faulty = self.rows, [], 0
            for each in before:
                self._keep_if_remarkable(each)
        self._keep_if_remarkable(row)

    def _keep_if_remarkable(self, row: Row) -> None:
        if not row.is_remarkable:
            return
        self.faulty += 1
        said = row.verdict if row.failed else _DIGITS.sub("", row.notes[0])
        self.alike[said] += 1
        if self.alike[said] <= _ALIKE_SHOWN and len(self.rows) < _LINES_SHOWN:
            self.rows.append(row)
