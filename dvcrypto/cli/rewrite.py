"""A whole capture rewritten, its media sealed or opened, all else as it was: what both commands share."""

import argparse
import errno
import itertools
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import dvcrypto
from dvcrypto.cli import show
from dvcrypto.cli.captures import Capture, CaptureError, CaptureWriter, Record, open_capture
from dvcrypto.cli.keys import add_key_option
from dvcrypto.cli.media import add_port_option, is_media
from dvcrypto.cli.progress import with_progress
from dvcrypto.cli.reference import is_rtcp

_BATCH: Final = 512  # records that are read before their media is sealed or opened as one burst
_REASONS_SHOWN: Final = 10
_NUMBERS_SHOWN: Final = 8

Outcome = tuple[bytes | None, str]
"""What became of a packet: its new payload and "", or None and the reason why there is none."""

Transform = Callable[[list[bytes]], list[Outcome]]


@dataclass
class Tally:
    """What happened to a capture. ``failed`` has packet numbers with reasons."""

    packets: int = 0
    rtp: int = 0
    rtcp: int = 0
    passed: int = 0
    failed: list[tuple[int, str]] = field(default_factory=list)
    damage: str | None = None


def add_options(parser: argparse.ArgumentParser, done: str) -> None:
    """Add what both commands take; ``done`` is "sealed" or "opened"."""
    parser.add_argument("input", type=Path, metavar="IN", help="a pcap or pcapng file")
    parser.add_argument("output", type=Path, metavar="OUT", help=f"the same capture with its media {done}")
    add_key_option(parser)
    parser.add_argument("--mode", required=True, choices=[mode.value for mode in dvcrypto.Mode], help="transport mode")
    add_port_option(parser, "only datagrams from or to this UDP port are media")
    parser.add_argument("--force", action="store_true", help="overwrite OUT")
    show.add_json_option(parser)


def rewrite(options: argparse.Namespace, done: str, transform: Transform) -> int:
    """Rewrite the capture, say what happened, and return the exit status: 1 when a packet failed."""
    if options.output.exists() and options.input.exists() and os.path.samefile(options.input, options.output):
        message = f"{options.output} is the input itself; name another output"
        raise ValueError(message)
    tally = Tally()
    with open_capture(options.input) as capture, _created(options.output, force=options.force) as output:
        for records in _batches(with_progress(_until_damage(capture, tally), capture.size, done)):
            _rewrite(records, CaptureWriter(output), transform, frozenset(options.port), tally)
    _report(options, done, tally)
    return 1 if tally.failed or tally.damage else 0


@contextmanager
def _created(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """A new file beside the path, which takes its name when it is finished, and is removed where it cannot be."""
    path = path.resolve()  # of a link, what it points at
    if path.exists() and not path.is_file():
        message = f"{path} is no regular file"
        raise ValueError(message)
    if path.exists() and not force:
        message = f"{path} exists; --force overwrites it"
        raise ValueError(message)
    if not os.access(path.parent, os.W_OK):
        message = f"cannot write into the folder {path.parent}"
        raise ValueError(message)
    unfinished = path.with_name(f".dvcrypto-{secrets.token_hex(8)}")
    try:  # around its creation too: the command may be told to end at any time
        with unfinished.open("xb") as file:
            if path.exists():
                unfinished.chmod(path.stat().st_mode & 0o777)  # before anything is in it
            yield file
        _rename(unfinished, path, force=force)
    finally:
        unfinished.unlink(missing_ok=True)


def _rename(unfinished: Path, path: Path, *, force: bool) -> None:
    if force:
        unfinished.replace(path)
        return
    try:
        path.hardlink_to(unfinished)  # unlike a renaming, it does not overwrite what has come there meanwhile
    except OSError as error:
        if path.exists():
            message = f"{path} exists; --force overwrites it"
            raise ValueError(message) from None
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        unfinished.replace(path)  # a file system without hard links


def _until_damage(capture: Capture, tally: Tally) -> Iterator[Record]:
    try:
        yield from capture
    except CaptureError as error:  # what was read until then is kept
        tally.damage = str(error)


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    while batch := list(itertools.islice(records, _BATCH)):
        yield batch


def _rewrite(
    records: list[Record], writer: CaptureWriter, transform: Transform, ports: frozenset[int], tally: Tally
) -> None:
    media = [record.udp.payload for record in records if record.udp and is_media(record.udp, ports)]
    outcomes = iter(transform(media))
    for record in records:
        if record.udp and is_media(record.udp, ports):
            _write(record, next(outcomes), writer, tally)
            continue
        writer.write(record)
        if record.number is not None:
            tally.packets += 1
            if record.cut:
                tally.failed.append((record.number, record.cut.removeprefix(f"packet {record.number} ")))
            else:
                tally.passed += 1


def _write(record: Record, outcome: Outcome, writer: CaptureWriter, tally: Tally) -> None:
    assert record.udp is not None
    assert record.number is not None
    payload, reason = outcome
    tally.packets += 1
    if payload is not None:
        try:
            writer.write(record, payload)
        except ValueError as error:  # no room for it in the IP header or the block
            reason = str(error).removeprefix(f"packet {record.number}: ")
        else:
            kind = "rtcp" if is_rtcp(record.udp.payload) else "rtp"
            setattr(tally, kind, getattr(tally, kind) + 1)
            return
    writer.write(record)
    tally.failed.append((record.number, reason))


def _report(options: argparse.Namespace, done: str, tally: Tally) -> None:
    if options.json:
        show.print_json(
            {
                "input": str(options.input),
                "output": str(options.output),
                "mode": options.mode,
                "packets": tally.packets,
                done: {"rtp": tally.rtp, "rtcp": tally.rtcp},
                "passed_through": tally.passed,
                "failed": [{"packet": number, "reason": reason} for number, reason in tally.failed],
                "damage": tally.damage,
            }
        )
        return
    show.print_line(
        f"{options.output}: {tally.packets} packets; {done} {tally.rtp} RTP and {tally.rtcp} RTCP, "
        f"passed through {tally.passed}, failed {len(tally.failed)}"
    )
    for line in _reasons(done, tally):
        sys.stderr.write(line + "\n")


def _reasons(done: str, tally: Tally) -> Iterator[str]:
    numbers: dict[str, list[int]] = {}
    for number, reason in tally.failed:
        numbers.setdefault(reason, []).append(number)
    for reason, failed in list(numbers.items())[:_REASONS_SHOWN]:
        which = ", ".join(map(str, failed[:_NUMBERS_SHOWN])) + (", ..." if len(failed) > _NUMBERS_SHOWN else "")
        yield f"not {done} and left as it was: packet {which} {reason} ({len(failed)} in all)"
    if len(numbers) > _REASONS_SHOWN:
        yield f"and for {len(numbers) - _REASONS_SHOWN} more reasons; --json lists them all"
    if tally.damage:
        yield f"the rest of the capture cannot be read: {tally.damage}"
