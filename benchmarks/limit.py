"""The limit, compiled: see limit.h."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import dvcrypto
from benchmarks.timing import Work
from dvcrypto import _build_native as build

_HERE = Path(__file__).parent


@cache
def library() -> Any:
    """The compiled loops, linked as the package is."""
    return build.build_beside(_HERE / "limit.h", [_HERE / "limit.c"], Path(tempfile.mkdtemp(prefix="limit"))).lib


def engine_for(mode: dvcrypto.Mode, plaintext_len: int) -> str:
    """The engine that serves plaintexts of this length."""
    for engine in dvcrypto.engines()[mode]:
        if any(first <= plaintext_len and (end is None or plaintext_len < end) for first, end in engine.serves):
            return engine.name
    raise AssertionError(mode)


def loops(mode: dvcrypto.Mode, plaintext_len: int, count: int) -> tuple[Work, Work]:
    """Seal and open ``count`` packets with the engine that dvcrypto would take."""
    native = library()
    prepared = native.limit_prepare(engine_for(mode, plaintext_len).encode(), plaintext_len, count)
    assert prepared

    def seal(times: int) -> None:
        assert native.limit_seal(times)

    def open_(times: int) -> None:
        assert native.limit_open(times)

    return seal, open_
