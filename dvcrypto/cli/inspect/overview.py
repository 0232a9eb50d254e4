"""What ``dvcrypto inspect`` prints of a whole capture, within 80 columns."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from dvcrypto.cli import show
from dvcrypto.cli.inspect.findings import Finding, Sender, Stream, Survey
from dvcrypto.cli.inspect.report import Report
from dvcrypto.cli.inspect.rows import Row
from dvcrypto.modes import Mode

_FINDINGS_SHOWN: Final = 20
_STREAMS_SHOWN: Final = 20
_SENDERS_SHOWN: Final = 20
_NUMBERS_SHOWN: Final = 6
_MODES: Final = {Mode.AES256_GCM: "GCM", Mode.XCHACHA20_POLY1305: "XChaCha"}
_ABBREVIATIONS: Final = {"aad": "AAD", "csrcs": "CSRCs", "rtp": "RTP", "rtcp": "RTCP", "xsalsa20": "XSalsa20"}
_KINDS: Final = ("rtp", "rtcp", "keep-alive", "discovery", "unknown")


def print_overview(argument: str, report: Report, findings: Sequence[Finding]) -> None:
    """Lines, findings, and the summary."""
    survey = report.survey
    names = {source: _letter(index) for index, source in enumerate(survey.senders)}
    _print_rows(report, names)
    _print_findings(findings, names)
    _print_streams(survey, names)
    _print_senders(survey, names)
    show.print_line(f"{argument}: {_kinds_in_words(survey)}")
    show.print_line(f"{survey.opened:,} open, {survey.failed:,} fail{_serious_in_words(findings)}")
    if report.other:
        show.print_line(f"{report.other:,} more packets of the capture are none of the conversation's")


def _print_rows(report: Report, names: dict[str, str]) -> None:
    """A line for each packet, or for each with faults."""
    total = report.survey.kinds.total()
    if report.rows:
        columns = ("#", "seconds", "from", "kind", "SSRC", "seq", "nonce", "verdict")
        title = "Packets" if len(report.rows) == total else "Packets with findings"
        show.print_columns(title, columns, (_cells(row, names) for row in report.rows))
    if len(report.rows) < total:
        what = f"{report.faulty - len(report.rows):,} more like these, and " if report.faulty > len(report.rows) else ""
        show.print_line(f"({what}{total - report.faulty:,} that are right; --all has a line for each)\n")


def _print_findings(findings: Sequence[Finding], names: dict[str, str]) -> None:
    """What was found, and in which packets."""
    if findings:
        rows = ((_name(each), each.count, _told(each, names)) for each in findings[:_FINDINGS_SHOWN])
        show.print_columns("Findings", ("", "times", ""), rows)
    _print_rest(len(findings) - _FINDINGS_SHOWN, "findings")


def _print_streams(survey: Survey, names: dict[str, str]) -> None:
    streams = sorted(survey.streams.values(), key=lambda each: -(each.rtp + each.rtcp))
    columns = ("SSRC", "from", "packets", "open", "sequence", "lost", "late", "twice", "mode", "nonces", "faults")
    if streams:
        show.print_columns(
            "By SSRC",
            columns,
            (_summary(each, survey.senders[each.source], names) for each in streams[:_STREAMS_SHOWN]),
        )
    _print_rest(len(streams) - _STREAMS_SHOWN, "SSRCs")


def _print_senders(survey: Survey, names: dict[str, str]) -> None:
    senders = list(survey.senders.values())
    columns = ("", "packets", "open", "nonces", "first", "last", "address")
    if senders:
        show.print_columns("By sender", columns, (_sender(each, names) for each in senders[:_SENDERS_SHOWN]))
    _print_rest(len(senders) - _SENDERS_SHOWN, "senders")


def _print_rest(count: int, things: str) -> None:
    if count > 0:
        show.print_line(f"and {count:,} more {things}; --json lists them all")


def in_words(name: str) -> str:
    """A name as people read it."""
    return " ".join(_ABBREVIATIONS.get(word, word) for word in name.split("_"))


def verdict_text(row: Row) -> Text:
    """The verdict, in the colour of good or bad."""
    if row.verdict == "not_media":
        return Text("not media", "dim")
    return Text(in_words(row.verdict), "bold red" if row.failed else "green")


def _letter(index: int) -> str:
    name = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def _kinds_in_words(survey: Survey) -> str:
    kinds = [f"{survey.kinds[kind]:,} {kind}" for kind in _KINDS if survey.kinds[kind]]
    return ", ".join(kinds) or "no datagrams"


def _serious_in_words(findings: Sequence[Finding]) -> str:
    count = sum(finding.is_serious for finding in findings)
    return f"; {count:,} serious finding{'' if count == 1 else 's'}" if count else "; nothing serious was found"


def _cells(row: Row, names: dict[str, str]) -> tuple[object, ...]:
    said = Text.assemble(verdict_text(row), *((f", {note}", "yellow") for note in row.notes))
    return (
        row.number,
        "" if row.time is None else f"{row.time:.3f}",
        names.get(row.source, ""),
        row.kind,
        "" if row.ssrc is None else row.ssrc,
        "" if row.sequence is None else row.sequence,
        row.nonce,
        said,
    )


def _name(finding: Finding) -> Text:
    return Text(in_words(finding.name), "bold red" if finding.is_serious else "yellow")


def _told(finding: Finding, names: dict[str, str]) -> Text:
    """The sentence of a finding, whom it is about, and the numbers of its packets."""
    about = f"{names.get(finding.subject, finding.subject)}: " if finding.subject else ""
    return Text.assemble(about + finding.text, (_numbers(finding), "dim"))


def _numbers(finding: Finding) -> str:
    shown = finding.packets[:_NUMBERS_SHOWN]
    if not shown:
        return ""
    more = ", ..." if len(finding.packets) > len(shown) else ""
    if finding.repeats:
        pairs = zip(shown, finding.repeats, strict=False)
        return f"\npacket {', '.join(f'{number} repeats {before}' for number, before in pairs)}{more}"
    return f"\npacket{'s' if len(shown) > 1 else ''} {', '.join(map(str, shown))}{more}"


def _sender(sender: Sender, names: dict[str, str]) -> tuple[object, ...]:
    nonces = sender.nonces
    ends = ((nonces.first or b"").hex(), (nonces.last or b"").hex())
    order = _order(sender) if sender.opened else ""
    return (names[sender.source], sender.packets, sender.opened, order, *ends, sender.source)


def _order(sender: Sender) -> str:
    """That in which its nonces are counted."""
    return "random" if sender.nonces.are_random else sender.nonces.byteorder or "unknown"


def _summary(stream: Stream, sender: Sender, names: dict[str, str]) -> tuple[object, ...]:
    sequences = stream.sequences
    faults = sum(stream.faults.values())
    return (
        stream.ssrc,
        names.get(stream.source, ""),
        stream.rtp + stream.rtcp,
        stream.opened,
        "" if sequences.first is None else f"{sequences.first}-{sequences.last}",
        sequences.lost,
        sequences.late,
        stream.duplicates,
        "+".join(_MODES[mode] for mode in Mode if mode in stream.modes),
        _order(sender) if stream.modes else "",
        Text(str(faults), "bold red") if faults else 0,
    )
