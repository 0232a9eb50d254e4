"""What the tests share: other people's vectors, and the engines with any nonce."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
VECTORS = Path(os.environ.get("DVCRYPTO_VECTORS", ROOT.parent / "shared" / "vectors"))
ENGINES = {
    "aead_aes256_gcm_rtpsize": ("openssl-aes256gcm", "sodium-aes256gcm"),
    "aead_xchacha20_poly1305_rtpsize": ("sodium-xchacha20poly1305", "openssl-xchacha20poly1305"),
}


# Many more examples than `make test` has time for: pytest --hypothesis-profile=long.
settings.register_profile("long", max_examples=5000, stateful_step_count=80, deadline=None)


@pytest.fixture(scope="session")
def vectors() -> Path:
    """The folder of third-party vectors; a visible skip where it is absent."""
    if not VECTORS.is_dir():
        pytest.skip(f"no third-party vectors in {VECTORS}; set DVCRYPTO_VECTORS to their folder")
    return VECTORS


class RawEngines:
    """One engine at a time, with any nonce and any associated data: csrc/tests/raw_engine.c, built for tests alone."""

    def __init__(self, ffi: Any, lib: Any) -> None:
        self._ffi = ffi
        self._lib = lib

    def available(self, engine: str) -> bool:
        return bool(self._lib.raw_available(engine.encode()))

    def seal(self, engine: str, key: bytes, nonce: bytes, aad: bytes, plain: bytes) -> bytes:
        """Ciphertext and tag."""
        out = self._ffi.new("uint8_t[]", b"\x55" * (len(plain) + 16))
        assert self._lib.raw_seal(engine.encode(), key, nonce, aad, len(aad), plain, len(plain), out)
        return bytes(self._ffi.buffer(out)[: len(plain) + 16])

    def open(self, engine: str, key: bytes, nonce: bytes, aad: bytes, sealed: bytes) -> bytes | None:
        """The plaintext, or None where the tag is wrong."""
        plain_len = len(sealed) - 16
        out = self._ffi.new("uint8_t[]", b"\x55" * (plain_len + 1))
        opened = self._lib.raw_open(engine.encode(), key, nonce, aad, len(aad), sealed, plain_len, out)
        return bytes(self._ffi.buffer(out)[:plain_len]) if opened else None


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The engines by themselves, compiled from the package's sources with its flags; or those of an installed one."""
    if not (ROOT / "csrc").is_dir():
        from installed_engines import InstalledEngines

        return InstalledEngines()
    from dvcrypto import _build_native as build

    tests = ROOT / "csrc" / "tests"
    sources = [*(ROOT / "csrc").glob("*.c"), tests / "raw_engine.c"]
    module = build.build_beside(tests / "raw_engine.h", sources, tmp_path_factory.mktemp("raw"))
    return RawEngines(module.ffi, module.lib)
