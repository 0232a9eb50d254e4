"""The native library, made ready once at import: versions checked, engines chosen or forced, the GIL told of."""

import os
from typing import Any, Final

try:
    from dvcrypto._native import ffi, lib
except ModuleNotFoundError as error:
    if error.name != "dvcrypto._native":
        raise
    message = (
        f"dvcrypto's C layer is not built in {os.path.dirname(__file__)}; in a checkout, "  # noqa: PTH120
        "scripts/install_system_packages.sh and `pip install --editable .` build it"
    )
    raise ImportError(message, name=error.name) from None

# Which _native imports from C, where what freezes programs does not look.
import _cffi_backend  # type: ignore[import-untyped,unused-ignore]  # noqa: F401

from dvcrypto.errors import EngineUnavailable

__all__ = ["ffi", "lib", "owned"]

ENGINE_VARIABLE: Final = "DVCRYPTO_ENGINE"

# Bytes of a burst from which a call gives up the GIL: 20 us of work (AES-256-GCM, long packets) to 150 us (XChaCha20,
# short ones), several times what giving it up and taking it back costs, and well under what another thread would
# notice.
LONG_WORK_LEN: Final = 32768


def text(native: Any) -> str:
    """A C string as str."""
    return bytes(ffi.string(native)).decode()


def owned(kind: str, owner: object) -> Any:
    """The ``dv_sealer`` or other thing of C's that is there as long as its owner."""
    return ffi.cast(f"{kind} *", lib.dv_python_owned(id(owner)))


def engine_descriptions() -> list[tuple[str, int, str | None, list[tuple[int, int | None]]]]:
    """Name, mode's index, reason why it cannot run, and served ranges [from, to) of every engine."""
    info = ffi.new("dv_engine_info *")
    described = []
    for index in range(lib.dv_engine_count()):
        lib.dv_engine_describe(index, info)
        reason = text(info.unavailable) if info.unavailable else None
        no_end = int(ffi.cast("size_t", -1))
        ranges = [
            (int(info.range_from[i]), None if info.range_to[i] == no_end else int(info.range_to[i]))
            for i in range(info.range_count)
        ]
        described.append((text(info.name), int(info.mode), reason, ranges))
    return described


def _start() -> None:
    result = lib.dv_init()
    if result == lib.DV_ERROR_VERSION:
        message = (
            f"dvcrypto is linked with libsodium {text(lib.dv_sodium_version())} and OpenSSL "
            f"{text(lib.dv_openssl_version())}; it needs libsodium 1.0.18 or newer and OpenSSL 3.0.0 or newer"
        )
        raise ImportError(message)
    if result == lib.DV_ERROR_ENGINE:
        reasons = "; ".join(f"{name}: {reason}" for name, _, reason, _ in engine_descriptions() if reason)
        message = f"no engine can run for one of the modes: {reasons}"
        raise EngineUnavailable(message)
    if result != lib.DV_DONE:
        message = "the linked libsodium could not be made ready"
        raise ImportError(message)
    lib.dv_python_host(LONG_WORK_LEN)
    _force_engines([name.strip() for name in os.environ.get(ENGINE_VARIABLE, "").split(",") if name.strip()])


def _force_engines(names: list[str]) -> None:
    descriptions = {name: (mode, reason) for name, mode, reason, _ in engine_descriptions()}
    forced: dict[int, str] = {}
    for name in names:
        if name not in descriptions:
            message = f"{ENGINE_VARIABLE} names {name!r}; the engines are {', '.join(descriptions)}"
            raise EngineUnavailable(message)
        mode, reason = descriptions[name]
        if reason:
            message = f"{ENGINE_VARIABLE} names {name!r}, which cannot run here: {reason}"
            raise EngineUnavailable(message)
        if forced.setdefault(mode, name) != name:
            message = f"{ENGINE_VARIABLE} names both {forced[mode]!r} and {name!r}; it takes one engine for each mode"
            raise EngineUnavailable(message)
        lib.dv_force_engine(name.encode())


_start()
