"""The limit, compiled: see limit.h."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import dvcrypto
from benchmarks.timing import Work
from dvcrypto import _build_native as build
from dvcrypto._library import text

_HERE = Path(__file__).parent


@cache
def library() -> Any:
    """The compiled loops, linked as the package is.

    Raises RuntimeError where they are not: the limit of another library would be none.
    """
    module = build.build_beside(_HERE / "limit.h", [_HERE / "limit.c"], Path(tempfile.mkdtemp(prefix="limit")))
    linked = (text(module.lib.limit_sodium_version()), text(module.lib.limit_openssl_version()))
    ours = (dvcrypto.versions()["libsodium"], dvcrypto.versions()["openssl"])
    if linked != ours:
        message = (
            f"the limit is linked with {linked}, dvcrypto with {ours}; set DVCRYPTO_STATIC_PREFIX as for the build"
        )
        raise RuntimeError(message)
    return module.lib


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
