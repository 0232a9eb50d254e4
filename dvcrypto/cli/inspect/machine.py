"""What ``dvcrypto inspect`` has found, for machines: the names here are the contract of ``--json``."""

from collections.abc import Iterable, Sequence
from typing import Any

from dvcrypto.cli.inspect.contents import hidden_fields
from dvcrypto.cli.inspect.findings import Finding, Sender, Stream, Survey
from dvcrypto.cli.inspect.report import Chosen, Report
from dvcrypto.cli.inspect.rows import Row
from dvcrypto.diagnosis import Field


def as_json(asked: dict[str, Any], report: Report, findings: Sequence[Finding]) -> dict[str, Any]:
    """One object with everything; ``asked`` is what the command was told."""
    survey = report.survey
    return {
        **asked,
        "packets": [_chosen(report.chosen)] if report.chosen else [_row(row) for row in report.rows],
        "findings": [_finding(finding) for finding in findings],
        "by_ssrc": [_stream(stream, survey) for stream in survey.streams.values()],
        "by_sender": [_sender(sender) for sender in survey.senders.values()],
        "opened": survey.opened,
        "failed": survey.failed,
        "other": report.other,
        "damage": report.damage,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "packet": row.number,
        "time": None if row.time is None else round(row.time, 9),
        "source": row.source or None,
        "destination": row.destination or None,
        "length": row.length,
        "kind": row.kind,
        "ssrc": row.ssrc,
        "sequence": row.sequence,
        "packet_type": row.packet_type,
        "nonce": row.nonce or None,
        "mode": row.mode,
        "opens": row.verdict == "opens",
        "verdict": row.verdict,
        "reason": row.reason or None,
        "notes": row.notes,
    }


def _chosen(chosen: Chosen) -> dict[str, Any]:
    opened, wire = chosen.diagnosis.opened, chosen.datagram.payload
    inside = None if opened is None else _fields(hidden_fields(opened), opened.plain)
    return {**_row(chosen.row), "fields": _fields(chosen.diagnosis.fields, wire), "inside": inside}


def _fields(fields: Iterable[Field], data: bytes) -> list[dict[str, Any]]:
    return [{**field._asdict(), "hex": data[field.start : field.end].hex()} for field in fields]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "finding": finding.name,
        "serious": finding.is_serious,
        "subject": finding.subject or None,
        "count": finding.count,
        "packets": finding.packets,
        "repeats": finding.repeats,
        "text": finding.text,
    }


def _stream(stream: Stream, survey: Survey) -> dict[str, Any]:
    sequences = stream.sequences
    return {
        "ssrc": stream.ssrc,
        "source": stream.source or None,
        "packets": stream.rtp + stream.rtcp,
        "rtp": stream.rtp,
        "rtcp": stream.rtcp,
        "opened": stream.opened,
        "first_sequence": sequences.first,
        "last_sequence": sequences.last,
        "gaps": len(sequences.gaps),
        "lost": sequences.lost,
        "late": sequences.late,
        "duplicates": stream.duplicates,
        "padding_only": stream.padding_only,
        "modes": sorted(stream.modes),
        "nonce_byteorder": survey.senders[stream.source].nonces.byteorder,
        "faults": dict(stream.faults),
    }


def _sender(sender: Sender) -> dict[str, Any]:
    nonces = sender.nonces
    return {
        "source": sender.source or None,
        "packets": sender.packets,
        "opened": sender.opened,
        "nonce_byteorder": nonces.byteorder,
        "nonces_random": nonces.are_random,
        "first_nonce": None if nonces.first is None else nonces.first.hex(),
        "last_nonce": None if nonces.last is None else nonces.last.hex(),
    }
