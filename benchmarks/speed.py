"""``seal_burst`` from Python beside ``openssl speed`` of the same libcrypto: MiB/s at the sizes that people compare."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import dvcrypto
from benchmarks import peers
from benchmarks.timing import interleave, repeated

_HEADER = bytes.fromhex("8078000100000000000a0d10")
_SIZES = (2, 31, 136, 1024, 8192, 16384)
_CIPHERS = {
    dvcrypto.Mode.AES256_GCM: "aes-256-gcm",
    dvcrypto.Mode.XCHACHA20_POLY1305: "chacha20-poly1305",
}
_BURST = 64


def measure(*, full: bool) -> list[dict[str, Any]]:
    """A row for each mode and size; nothing where there is no openssl command of the linked version."""
    if not _same_libcrypto():
        return []
    return [_row(mode, size, rounds=9 if full else 3) for mode in dvcrypto.Mode for size in _SIZES]


def _same_libcrypto() -> bool:
    if not shutil.which("openssl"):
        return False
    told = subprocess.run(["openssl", "version"], check=True, capture_output=True, text=True).stdout
    return dvcrypto.versions()["openssl"] in told.split()


def _row(mode: dvcrypto.Mode, size: int, rounds: int) -> dict[str, Any]:
    sealer, packets = dvcrypto.Sealer(mode, peers.KEY), [_HEADER + bytes(size)] * _BURST
    ours, theirs = [], []
    for _ in range(rounds):  # by turns, as everything here
        ours.append(interleave({"ours": repeated(lambda: sealer.seal_burst(packets))}, 5, 0.02)["ours"] / _BURST)
        theirs.append(_openssl_speed(_CIPHERS[mode], size))
    best_ours, best_theirs = min(ours), min(theirs)
    return {
        "mode": mode.value,
        "bytes": size,
        "seal_burst, MiB/s": 1e9 * size / best_ours / 2**20,
        "openssl speed, MiB/s": 1e9 * size / best_theirs / 2**20,
        "x openssl speed": best_theirs / best_ours,
    }


def _openssl_speed(cipher: str, size: int) -> float:
    """Ns for one operation."""
    command = ["openssl", "speed", "-elapsed", "-mr", "-seconds", "1", "-aead", "-bytes", str(size), "-evp", cipher]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    counts = re.findall(r"^\+R:(\d+):[^:]*:([\d.]+)", told.stdout + told.stderr, re.MULTILINE)
    operations, seconds = counts[-1]
    return 1e9 * float(seconds) / int(operations)


def tables(rows: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """One table."""
    if rows:
        yield "seal_burst of 64 beside openssl speed -aead (best of the rounds)", rows
