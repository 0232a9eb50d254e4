"""Keys on the command line."""

import argparse
import json
import re
from pathlib import Path
from typing import Final

_KEY_LEN: Final = 32
_HEXADECIMAL: Final = re.compile(rb"[0-9a-fA-F]+")


def add_key_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--key``."""
    parser.add_argument(
        "--key",
        required=True,
        type=read_key,
        metavar="HEX|@FILE",
        help="64 hexadecimal digits, or @ and a file that holds them, 32 raw bytes, or a JSON list of 32 integers; "
        "other users of the machine can see a command's arguments, so prefer a file",
    )


def read_key(argument: str) -> bytes:
    """The key that ``--key`` names. No error shows any of it."""
    if not argument.startswith("@"):
        return _from_text(argument, "the key")
    path = Path(argument[1:])
    try:
        content = path.read_bytes()
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise argparse.ArgumentTypeError(message) from None
    if len(content) == _KEY_LEN and not _HEXADECIMAL.fullmatch(content):  # half a key in text is no whole one
        return content
    return _from_text(content.decode("utf-8", "replace").strip(), str(path))


def _from_text(text: str, source: str) -> bytes:
    try:
        key = bytes(json.loads(text)) if text.startswith("[") else bytes.fromhex(text)
    except (ValueError, TypeError, RecursionError):
        message = f"{source} is neither hexadecimal nor a JSON list of integers from 0 to 255"
        raise argparse.ArgumentTypeError(message) from None
    if len(key) != _KEY_LEN:
        message = f"{source} is {len(key)} bytes; it must be {_KEY_LEN}"
        raise argparse.ArgumentTypeError(message)
    return key
