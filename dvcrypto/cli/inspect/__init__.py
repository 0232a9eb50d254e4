"""``dvcrypto inspect``: what the packets of a capture are, whether they open, and why not."""

import argparse
from collections.abc import Iterator
from typing import Any, Final

import dvcrypto
from dvcrypto.cli import show
from dvcrypto.cli.captures import NANOSECONDS, Capture, CaptureError, Record
from dvcrypto.cli.captures import Datagram as UdpDatagram
from dvcrypto.cli.inspect.inputs import open_input
from dvcrypto.cli.inspect.layout import print_packet
from dvcrypto.cli.inspect.machine import as_json
from dvcrypto.cli.inspect.overview import print_overview
from dvcrypto.cli.inspect.report import Chosen, Report
from dvcrypto.cli.inspect.rows import Datagram
from dvcrypto.cli.keys import add_key_option, find_key
from dvcrypto.cli.media import add_port_option, integer, is_discovery, is_media, is_on_ports
from dvcrypto.cli.progress import with_progress
from dvcrypto.diagnosis import Diagnoser, Diagnosis

_DESCRIPTION: Final = """\
Say of each packet what it is, whether it opens under the key, and why not.
Then what shows across packets: nonces used twice, counters that stand still,
jump back or wrap, a key that changes, gaps. Then a summary by SSRC.

Where there are more than 40 packets, a line is printed for those with faults
only, and for a few of each fault; --all prints one for every packet.

Without --port, two addresses belong to the conversation from their first
packet that looks like media or IP discovery.
"""
_EPILOG: Final = """\
--json prints one object:
  input, mode     as they were given
  packets         packet (its number), time, source, destination, length, kind,
                  ssrc, sequence, packet_type, nonce, mode, opens, verdict,
                  reason, notes; with --packet that one alone, with its fields
                  and, where it opens, those inside: name, start, end, meaning,
                  hex
  findings        finding, serious, subject, count, packets (the first 1000),
                  repeats, text
  by_ssrc         packets, opened, sequence numbers, losses, modes, faults
  by_sender       packets, opened, and how nonces are counted
  opened, failed  how many packets
  other           packets of the capture that are none of the conversation's
  damage          why the rest of the capture could not be read, or null

Exit status: 0 where all is right, 1 when a packet failed or a finding is
serious, 2 when the command could not run.
"""


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "inspect",
        help="say what is wrong with the packets of a capture, or with one packet",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "input",
        nargs="+",
        metavar="INPUT",
        help="a pcap or pcapng file; or a packet in hexadecimal digits (spaces, colons and 0x may stand between); or - "
        "for either of them from standard input",
    )
    add_key_option(parser)
    parser.add_argument(
        "--mode", choices=[mode.value for mode in dvcrypto.Mode], help="the session's (without it, either is right)"
    )
    add_port_option(parser, "only datagrams from or to this UDP port are looked at")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--packet", type=integer, metavar="N", help="all about packet N of the capture, by field")
    shown.add_argument("--all", action="store_true", help="a line for each packet, however many there are")
    show.add_json_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Inspect the input; 1 when anything is wrong."""
    argument = " ".join(options.input)
    diagnoser = Diagnoser(find_key(options.key), mode=options.mode)
    report = Report()
    with open_input(argument) as source:
        if isinstance(source, bytes):
            options.packet = 1
        for datagram in _datagrams(source, frozenset(options.port), report):
            _take(report, datagram, diagnoser.diagnose(datagram.payload), options)
    if options.packet is not None and report.chosen is None:
        message = f"packet {options.packet} of {argument} is no whole UDP datagram of the conversation"
        raise ValueError(message)
    findings = report.survey.findings()
    if options.json:
        show.print_json(as_json({"input": argument, "mode": options.mode}, report, findings))
    elif report.chosen is not None:
        print_packet(*report.chosen)
    else:
        print_overview(argument, report, findings)
    if report.chosen is not None:
        return 1 if report.chosen[1].failed else 0
    return 1 if report.survey.failed or any(finding.is_serious for finding in findings) else 0


def _datagrams(source: Capture | bytes, ports: frozenset[int], report: Report) -> Iterator[Datagram]:
    """Those of the conversation; the rest is counted."""
    if isinstance(source, bytes):
        yield Datagram(1, None, "", "", source)
        return
    start: int | None = None
    conversations: set[frozenset[str]] = set()
    for record in with_progress(_until_damage(source, report), source.size, "inspecting"):
        if record.number is None:
            continue
        start = record.time if start is None else start
        if record.cut:
            text = "cut by the snap length of the capture: what is not there cannot be opened"
            report.survey.note("cut", text, record.number)
        elif record.udp is None or not _is_looked_at(record.udp, ports, conversations):
            report.other += 1
        else:
            time = None if record.time is None or start is None else (record.time - start) / NANOSECONDS
            yield Datagram(record.number, time, *_ends(record.udp), record.udp.payload)
    if not report.survey.kinds:
        text = f"none of the {report.other} packets of the capture is a whole UDP datagram that looks like media"
        report.survey.note("no_datagrams", text)


def _until_damage(capture: Capture, report: Report) -> Iterator[Record]:
    try:
        yield from capture
    except CaptureError as error:
        report.damage = str(error)
        report.survey.note("damage", f"the rest of the capture cannot be read: {error}")


def _is_looked_at(datagram: UdpDatagram, ports: frozenset[int], conversations: set[frozenset[str]]) -> bool:
    if not is_on_ports(datagram, ports):
        return False
    ends = frozenset(_ends(datagram))
    if is_media(datagram, ports) or is_discovery(datagram.payload):
        conversations.add(ends)
    return bool(ports) or ends in conversations


def _ends(datagram: UdpDatagram) -> tuple[str, str]:
    """Where it is from, and where to."""
    ends = ((datagram.source, datagram.source_port), (datagram.destination, datagram.destination_port))
    source, destination = (f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for address, port in ends)
    return source, destination


def _take(report: Report, datagram: Datagram, diagnosis: Diagnosis, options: argparse.Namespace) -> None:
    row = report.survey.add(datagram, diagnosis)
    if options.packet is not None:
        if options.packet == row.number:
            report.chosen = Chosen(datagram, row, diagnosis)
    elif options.all or options.json:
        report.rows.append(row)
    else:
        report.keep_for_lines(row)
