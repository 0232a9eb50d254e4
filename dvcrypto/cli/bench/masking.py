"""A machine as if its CPU had no AES instructions.

OpenSSL heeds the variable ``OPENSSL_ia32cap`` (OPENSSL_ia32cap(3)) on x86. libsodium does not, so that AES-256-GCM
without AES instructions is OpenSSL's, forced by ``DVCRYPTO_ENGINE``. ``dvcrypto.aes_accelerated()`` does not heed it
either: it tells what the CPU has, and a mask on one of two libraries does not change that.
"""

import os
import platform
from typing import Final

import dvcrypto
from dvcrypto._library import ENGINE_VARIABLE

MASK_VARIABLE: Final = "OPENSSL_ia32cap"
ENGINE: Final = "openssl-aes256gcm"

# Of the vector's first 64 bits, the upper half is ECX of CPUID leaf 1: bit 25 is AES-NI, bit 1 PCLMULQDQ.
_NEEDED: Final = 1 << (32 + 25) | 1 << (32 + 1)
AES_ALONE: Final = f"~{_NEEDED:#x}:~0x0"
"""The mask. Without the second part OpenSSL clears all later words, and AVX2 with them, which ChaCha20 uses."""

_X86: Final = {"x86_64", "amd64", "i386", "i686", "x86"}


def can_mask() -> bool:
    """Whether this platform's OpenSSL can be told to do without the CPU's AES instructions."""
    return platform.machine().lower() in _X86


def masked_environment() -> dict[str, str]:
    """What to set so that a process seals AES-256-GCM without AES instructions, whatever the CPU has."""
    mask = {MASK_VARIABLE: AES_ALONE} if can_mask() else {}
    return {ENGINE_VARIABLE: ENGINE, **mask}


def is_masked() -> bool:
    """Whether the environment of this process hides AES instructions that the CPU has from OpenSSL."""
    return dvcrypto.aes_accelerated() and can_mask() and masks_aes(os.environ.get(MASK_VARIABLE, ""))


def masks_more() -> bool:
    """Whether the environment of this process hides AVX2 too."""
    return is_masked() and ":" not in os.environ[MASK_VARIABLE]


def masks_aes(setting: str) -> bool:
    """Whether a setting of ``OPENSSL_ia32cap`` clears one of the two bits; with ``~`` it names those to clear."""
    first = setting.partition(":")[0]
    try:
        value = int(first.removeprefix("~"), 0)
    except ValueError:  # empty, so that only later words are set; or no number, which OpenSSL passes over
        return False
    return bool((value if first.startswith("~") else ~value) & _NEEDED)
