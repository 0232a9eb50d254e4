"""Files of any bytes as captures, and as what ``dvcrypto inspect`` reads: records, or an error that is documented."""

import atexit
import shutil
import tempfile
from pathlib import Path

from carving import Input

from dvcrypto.cli.captures import Capture, CaptureError, Record, open_capture
from dvcrypto.cli.inspect import inputs

IN_MEMORY = "/dev/shm"  # where there is such a folder, a file costs a tenth
FOLDER = Path(tempfile.mkdtemp(dir=IN_MEMORY if Path(IN_MEMORY).is_dir() else None))
FILE = FOLDER / "capture"
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def read(data: bytes) -> tuple[list[Record], bool]:
    """The records of a capture up to its first damage, and whether there was any."""
    FILE.write_bytes(data)
    records: list[Record] = []
    try:
        with open_capture(FILE) as capture:
            records.extend(capture)
    except CaptureError:
        return records, True
    return records, False


def check(data: bytes, records: list[Record], *, damaged: bool) -> None:
    """The records are the file, and the packets among them are numbered."""
    raw = b"".join(record.raw for record in records)
    assert data.startswith(raw)
    assert damaged or raw == data
    assert [record.position for record in records] == [
        sum(len(record.raw) for record in records[: index + 1]) for index in range(len(records))
    ]
    numbers = [record.number for record in records if record.number is not None]
    assert numbers == list(range(1, len(numbers) + 1))


def replaced(record: Record, payload: bytes) -> bytes | None:
    """None where the payload has no room."""
    try:
        return record.with_payload(payload)
    except ValueError:
        return None


def check_replacing(records: list[Record], given: Input) -> None:
    """With other payloads it is still a capture, and with its own again the same one."""
    raws, payloads = [], []
    for record in records:
        if record.udp is None:
            raws.append(record.raw)
            payloads.append(None)
            continue
        assert record.with_payload(record.udp.payload) == record.raw
        payload = given.take(given.length())
        other = replaced(record, payload)
        raws.append(record.raw if other is None else other)
        payloads.append(record.udp.payload if other is None else payload)
    again, damaged = read(b"".join(raws))
    assert not damaged
    assert [record.udp and record.udp.payload for record in again] == payloads
    for record, first in zip(again, records, strict=True):
        if record.udp and first.udp:
            back, end = record.with_payload(first.udp.payload), first._frame.start + first._frame.captured
            assert (back[:end], len(back)) == (first.raw[:end], len(first.raw))  # behind it is padding, of any bytes


def check_inputs(data: bytes) -> None:
    """What comes through a pipe is a capture, a packet, or no input."""
    FILE.write_bytes(data)
    with FILE.open("rb") as file:
        try:
            found = inputs._from_pipe(file)
        except ValueError:
            return
        assert isinstance(found, Capture) or 0 < len(found) <= 65535


def run(data: bytes) -> None:
    """A length, the file of this length, then payloads to put into it."""
    given = Input(data)
    file = given.take(given.length())
    check_inputs(file)
    records, damaged = read(file)
    check(file, records, damaged=damaged)
    if records:
        check_replacing(records, given)
