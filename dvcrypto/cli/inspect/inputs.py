"""What ``dvcrypto inspect`` reads: a capture, or one packet in hexadecimal, from a file, the command line or a pipe."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final, cast

from dvcrypto.cli.captures import PCAP_ORDERS, SECTION, Capture, open_capture

_STANDARD_INPUT: Final = "-"
_MAGICS: Final = {*PCAP_ORDERS, SECTION.to_bytes(4, "big")}
_PACKET_MAX_LEN: Final = 65535
_TEXT_MAX_LEN: Final = 8 * _PACKET_MAX_LEN
_BETWEEN: Final = re.compile(r"0x|[\s:,]", re.IGNORECASE)
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]*")


@contextmanager
def open_input(argument: str) -> Iterator[Capture | bytes]:
    """An open capture, or a packet.

    OSError where a file cannot be read, ValueError where the input is neither.
    """
    if argument == _STANDARD_INPUT:
        yield _from_pipe(cast("BufferedReader", sys.stdin.buffer))
    elif argument and _exists(argument):
        with open_capture(argument) as capture:
            yield capture
    elif _HEXADECIMAL.fullmatch(_BETWEEN.sub("", argument)):
        yield _from_text(argument)
    else:
        message = f"{argument} is no file, nor a packet in hexadecimal digits"
        raise ValueError(message)


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long for a path, or with a zero byte
        return False


def _from_pipe(file: BufferedReader) -> Capture | bytes:
    if file.peek(4)[:4] in _MAGICS:
        return Capture(file, "standard input")
    text = file.read(_TEXT_MAX_LEN + 1)
    try:
        return _from_text(text.decode("ascii"))
    except UnicodeDecodeError:
        message = f"standard input is neither a capture nor hexadecimal digits: it starts with {text[:4].hex()!r}"
        raise ValueError(message) from None


def _from_text(text: str) -> bytes:
    digits = _BETWEEN.sub("", text)
    if not digits:
        message = "the packet has no bytes"
        raise ValueError(message)
    if not _HEXADECIMAL.fullmatch(digits):
        message = "the packet has characters that are no hexadecimal digits"
        raise ValueError(message)
    if len(digits) % 2:
        message = f"the packet has {len(digits)} hexadecimal digits; a byte takes two"
        raise ValueError(message)
    if len(digits) > 2 * _PACKET_MAX_LEN:
        message = f"the packet is {len(digits) // 2} bytes or more; it may have at most {_PACKET_MAX_LEN}"
        raise ValueError(message)
    return bytes.fromhex(digits)
