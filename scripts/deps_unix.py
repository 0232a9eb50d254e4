"""How the libraries are built on Linux and macOS, with the compiler that CC names."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# Nothing is looked up on the user's machine when it runs, neither a configuration nor a module, and nothing is left to
# do at exit, when other threads may still be sealing.
OPENSSL_BEHAVIOUR = "no-async no-atexit no-autoload-config no-dso no-engine no-module no-shared"
# The provider that has AES-GCM and ChaCha20-Poly1305 brings all that it knows: without these a wheel has two thirds of
# its size, and less to be attacked.
OPENSSL_UNUSED = (
    "no-argon2 no-aria no-blake2 no-camellia no-cmac no-des no-dh no-dsa no-ec no-legacy no-ml-dsa no-ml-kem no-ocb "
    "no-rmd160 no-scrypt no-siphash no-siv no-slh-dsa no-sm2 no-sm3 no-sm4"
)
OPENSSL_OPTIONS = ["no-apps", "no-docs", "no-tests", *OPENSSL_BEHAVIOUR.split(), *OPENSSL_UNUSED.split()]
OPENSSL_TARGETS = {
    ("linux", "x86_64"): "linux-x86_64",
    ("linux", "aarch64"): "linux-aarch64",
    ("darwin", "x86_64"): "darwin64-x86_64",
    ("darwin", "arm64"): "darwin64-arm64",
}


def libsodium(source: Path, prefix: Path, machine: str) -> None:
    """Configure, make, make install."""
    other_machine = [] if machine == platform.machine() else [f"--host={machine}-linux-gnu"]
    configure = ["./configure", "--disable-shared", "--enable-static", "--with-pic", f"--prefix={prefix}"]
    run(source, *configure, *other_machine)
    run(source, *make(), "install")


def openssl(source: Path, prefix: Path, machine: str) -> None:
    """Make libcrypto alone: OpenSSL's own install wants libssl too."""
    target = OPENSSL_TARGETS.get((sys.platform, machine))
    if not target:
        raise SystemExit(f"there is no recipe for OpenSSL on {sys.platform} and {machine}; see scripts/deps_unix.py")
    run(source, "perl", "Configure", target, *OPENSSL_OPTIONS, "-fPIC")
    run(source, *make(), "build_generated")
    run(source, *make(), "libcrypto.a")
    shutil.copy(source / "libcrypto.a", prefix / "lib")
    shutil.copytree(source / "include" / "openssl", prefix / "include" / "openssl", dirs_exist_ok=True)


def make() -> list[str]:
    """Make, on all cores."""
    return ["make", f"--jobs={os.cpu_count()}"]


def run(folder: Path, *command: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a command quietly; its output is shown where it fails."""
    program = shutil.which(command[0], path=(environment or os.environ).get("PATH")) or command[0]
    done = subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{' '.join(command)} failed in {folder}")


RECIPES = {"libsodium": libsodium, "openssl": openssl}
