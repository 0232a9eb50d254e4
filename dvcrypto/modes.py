"""The transport modes, which one to choose, and the engines that serve them on this machine."""

import enum
import os
from collections.abc import Iterable
from typing import Final, NamedTuple

from dvcrypto._library import engine_descriptions, lib, text
from dvcrypto.errors import NoCommonMode

MODE_VARIABLE: Final = "DVCRYPTO_MODE"
_LONGEST_SHOWN: Final = 40  # longer than any mode's name, shorter than a key written in any way


class Mode(enum.StrEnum):
    """A transport mode, by the name that Discord's voice gateway gives it."""

    AES256_GCM = "aead_aes256_gcm_rtpsize"
    XCHACHA20_POLY1305 = "aead_xchacha20_poly1305_rtpsize"

    @property
    def native(self) -> int:
        """The C layer's number of it."""
        return _NATIVE[self]


_NATIVE: Final[dict[Mode, int]] = {
    Mode.AES256_GCM: lib.DV_MODE_AES256_GCM,
    Mode.XCHACHA20_POLY1305: lib.DV_MODE_XCHACHA20_POLY1305,
}


class Engine(NamedTuple):
    """An engine, and what it serves on this machine."""

    name: str
    mode: Mode
    available: bool
    reason: str
    """Why it cannot run here, or why it serves what it serves."""
    serves: tuple[tuple[int, int | None], ...]
    """Ranges of plaintext length in bytes, from the first up to but without the second; None is no end."""


def as_mode(name: str, value: Mode | str) -> Mode:
    """A mode argument. Raises ValueError that names the modes, TypeError for what is no name (and may be a key)."""
    if not isinstance(value, str):
        message = f"{name} must be a Mode or its name, not {type(value).__name__}"
        raise TypeError(message)
    try:
        return Mode(value)
    except ValueError:
        shown = repr(value) if len(value) <= _LONGEST_SHOWN else f"a str of {len(value)} characters"
        message = f"{name} is {shown}; the modes are {', '.join(Mode)}"
        raise ValueError(message) from None


def choose_mode(offered: Iterable[str], *, prefer: Mode | str | None = None) -> Mode:
    """Choose a mode among those that a server offers.

    That is AES-256-GCM where it is offered and this CPU has instructions for it, else XChaCha20-Poly1305, else
    whatever mode both sides have. ``prefer``, or else the environment variable ``DVCRYPTO_MODE``, goes before that
    where offered.

    Raises NoCommonMode, with both lists, when the server offers no mode of ours; ValueError when ``prefer`` or the
    variable names no mode.

    >>> choose_mode(["aead_xchacha20_poly1305_rtpsize", "xsalsa20_poly1305"])
    <Mode.XCHACHA20_POLY1305: 'aead_xchacha20_poly1305_rtpsize'>
    """
    if isinstance(offered, (str, bytes)) or not hasattr(offered, "__iter__"):
        message = f"offered must be a sequence of mode names, not {type(offered).__name__}"
        raise TypeError(message)
    names = tuple(offered)
    ranking = [Mode.AES256_GCM, Mode.XCHACHA20_POLY1305]
    if not aes_accelerated():
        ranking.reverse()
    if prefer is not None:
        ranking.insert(0, as_mode("prefer", prefer))
    elif os.environ.get(MODE_VARIABLE):
        ranking.insert(0, as_mode(MODE_VARIABLE, os.environ[MODE_VARIABLE]))
    for mode in ranking:
        if mode in names:
            return mode
    raise NoCommonMode(names, tuple(Mode))


def aes_accelerated() -> bool:
    """Whether this CPU has instructions for AES and for carry-less multiplication, the two halves of AES-256-GCM."""
    return bool(lib.dv_aes_accelerated())


def versions() -> dict[str, str]:
    """The versions of this package and of the libraries linked into this process."""
    from importlib import metadata  # costs more than all the rest of the package, and a sealer needs none of it

    return {
        "dvcrypto": metadata.version("dvcrypto"),
        "libsodium": text(lib.dv_sodium_version()),
        "openssl": text(lib.dv_openssl_version()),
    }


def engines() -> dict[Mode, tuple[Engine, ...]]:
    """Every engine of each mode: whether it can run here, why or why not, and the plaintext lengths that it serves.

    The environment variable ``DVCRYPTO_ENGINE``, read when the package is imported, forces one engine for a mode, or
    one for each, separated by a comma.
    """
    described: dict[Mode, list[Engine]] = {mode: [] for mode in Mode}
    modes = {native: mode for mode, native in _NATIVE.items()}
    for name, native, reason, ranges in engine_descriptions():
        engine = Engine(name, modes[native], reason is None, reason or _serves_because(ranges), tuple(ranges))
        described[engine.mode].append(engine)
    return {mode: tuple(of_mode) for mode, of_mode in described.items()}


def _serves_because(ranges: list[tuple[int, int | None]]) -> str:
    if not ranges:
        return "another engine is faster here, or is forced"
    if ranges == [(0, None)]:
        return "the fastest here at every length, or forced"
    return f"the fastest here {' and '.join(in_words(served) for served in ranges)}"


def in_words(served: tuple[int, int | None]) -> str:
    """A range of lengths, as people read it."""
    first, end = served
    if end is None:
        return f"from {first} bytes up" if first else "at every length"
    return f"from {first} to {end - 1} bytes" if first else f"below {end} bytes"


def serving(mode: Mode) -> str:
    """The engine or engines that serve a mode, with their ranges where there is more than one."""
    active = [engine for engine in engines()[mode] if engine.serves]
    if len(active) == 1:
        return active[0].name
    active.sort(key=lambda engine: engine.serves[0][0])
    return ", ".join(f"{engine.name} {' and '.join(map(in_words, engine.serves))}" for engine in active)
