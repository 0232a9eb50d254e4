"""Keys on the command line."""

import argparse
import getpass
import json
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Final

_VARIABLE: Final = "DVCRYPTO_KEY"
_KEY_LEN: Final = 32
_HEXADECIMAL: Final = re.compile(rb"[0-9a-fA-F]+")


class Key(bytes):
    """A key that no message, log or traceback shows."""

    def __repr__(self) -> str:
        """Nothing of it."""
        return "<a key>"

    __str__ = __repr__


def add_key_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--key``."""
    parser.add_argument(
        "--key",
        type=read_key,
        metavar="HEX|@FILE",
        help="64 hexadecimal digits, or @ and a file that holds them, 32 raw bytes, or a JSON list of 32 integers; "
        f"without it, the environment variable {_VARIABLE} in the same forms, or else a prompt. Other users of the "
        "machine can see a command's arguments, so prefer any other way",
    )


def find_key(given: Key | None) -> Key:
    """The key that ``--key`` gave, else that of the environment, else what is typed at a prompt."""
    if given is not None:
        return given
    if text := os.environ.get(_VARIABLE):
        return _parsed(text, f"the key in {_VARIABLE}")
    if not sys.stdin.isatty():
        message = f"a key is needed: give --key, or set {_VARIABLE}"
        raise ValueError(message)
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)  # of a terminal that would show it
        try:
            return _parsed(getpass.getpass("Key (not shown): ").strip(), "the key")
        except (getpass.GetPassWarning, EOFError):
            message = f"no key was typed; give --key, or set {_VARIABLE}"
            raise ValueError(message) from None


def read_key(argument: str) -> Key:
    """The key that ``--key`` names. No error shows any of it."""
    try:
        return _parsed(argument, "the key")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parsed(text: str, source: str) -> Key:
    if not text.startswith("@"):
        return _from_text(text, source)
    path = Path(text[1:])
    try:
        content = path.read_bytes()
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise ValueError(message) from None
    if len(content) == _KEY_LEN and not _HEXADECIMAL.fullmatch(content):  # half a key in text is no whole one
        return Key(content)
    return _from_text(content.decode("utf-8", "replace").strip(), str(path))


def _from_text(text: str, source: str) -> Key:
    try:
        key = Key(json.loads(text)) if text.startswith("[") else Key.fromhex(text)
    except (ValueError, TypeError, RecursionError):
        message = f"{source} is neither hexadecimal nor a JSON list of integers from 0 to 255"
        raise ValueError(message) from None
    if len(key) != _KEY_LEN:
        message = f"{source} is {len(key)} bytes; it must be {_KEY_LEN}"
        raise ValueError(message)
    return key
