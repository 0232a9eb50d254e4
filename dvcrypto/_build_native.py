"""Builds ``dvcrypto._native``, cffi's binding of the C layer.

libsodium and OpenSSL's libcrypto are found through pkg-config and linked dynamically, or, where the environment
variable ``DVCRYPTO_STATIC_PREFIX`` names a folder with ``include/`` and ``lib/``, taken from there, linked statically.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

from cffi import FFI

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent
CSRC = ROOT / "csrc"

# Declared for Python alone, defined in _native_python.h.
PYTHON_DECLARATIONS = """
static void dv_python_host(size_t long_work_len);
static const dv_refusal *dv_python_refusal(void);
static int dv_python_seal(dv_sealer *sealer, uintptr_t header_id, uintptr_t payload_id, uintptr_t list_id);
static int dv_python_seal_burst(dv_sealer *sealer, uintptr_t tuple_id, uintptr_t target_id, uintptr_t list_id);
static int dv_python_seal_frame(dv_sealer *sealer, dv_stream *stream, size_t packetizer, uintptr_t frame_id, int marker,
                                uint32_t advance, uintptr_t list_id);
static int dv_python_open(dv_opener *opener, uintptr_t packet_id, uintptr_t list_id);
static int dv_python_open_burst(dv_opener *opener, uintptr_t tuple_id, uintptr_t list_id);
static int64_t dv_python_send(intptr_t socket, uintptr_t address_id, uintptr_t sealed_id, uintptr_t ends_id,
                              size_t first, size_t sent, int64_t timeout_ns, int method, double rate, int64_t due_ns,
                              int sleeps, uintptr_t list_id);
static int64_t dv_python_send_frame(dv_sealer *sealer, dv_stream *stream, size_t packetizer, uintptr_t frame_id,
                                    uint32_t advance, intptr_t socket, uintptr_t address_id, int64_t timeout_ns,
                                    int method, double rate, int sleeps, uintptr_t list_id);
static int dv_python_receive(dv_receiver *receiver, dv_opener *opener, intptr_t socket, int method, size_t packet_max,
                             uintptr_t list_id);
static void dv_python_wipe_key(uint8_t *key);
static int dv_python_sealer(int mode, const uint8_t *key, uint32_t first_nonce, int big_endian, uintptr_t list_id);
static int dv_python_opener(int mode, const uint8_t *key, uint32_t replay_window, uintptr_t list_id);
static int dv_python_aead(int mode, uintptr_t key_id, uintptr_t list_id);
static int dv_python_receiver(size_t slot_len, size_t slot_count, size_t packet_max_len, uintptr_t list_id);
static void *dv_python_owned(uintptr_t owner_id);
static int dv_python_aead_seal(dv_aead *aead, uintptr_t nonce_id, uintptr_t text_id, uintptr_t aad_id,
                               uintptr_t target_id, uintptr_t list_id);
static int dv_python_aead_open(dv_aead *aead, uintptr_t nonce_id, uintptr_t text_id, uintptr_t aad_id,
                               uintptr_t target_id, uintptr_t list_id);
"""

INSTALL = """\
  Debian, Ubuntu:  sudo apt-get install {apt}
  Fedora, RHEL:    sudo dnf install {dnf}
  Alpine:          sudo apk add {apk}
  macOS:           brew install {brew}"""


class Library(NamedTuple):
    """A library to link, by its pkg-config name, with what installs it under each package manager."""

    pkg_config: str
    oldest: str
    apt: str
    dnf: str
    apk: str
    brew: str


LIBRARIES = (
    Library("libsodium", "1.0.18", "libsodium-dev", "libsodium-devel", "libsodium-dev", "libsodium"),
    Library("libcrypto", "3.0.0", "libssl-dev", "openssl-devel", "openssl-dev", "openssl@3"),
)
PKG_CONFIG = Library("pkg-config", "", "pkg-config", "pkgconf-pkg-config", "pkgconf", "pkgconf")


def declarations(header: str) -> str:
    """The C header as cffi reads it: without comments and preprocessor lines, but with its integer macros."""
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    kept = (line for line in header.splitlines() if not line.startswith("#") or re.match(r"#define \w+ \d+", line))
    return "\n".join(kept)


def missing(what: str, libraries: tuple[Library, ...]) -> SystemExit:
    """The end of a build: what is missing, and the line that installs it, for each package manager."""
    install = INSTALL.format(
        **{
            manager: " ".join(getattr(library, manager) for library in libraries)
            for manager in ("apt", "dnf", "apk", "brew")
        }
    )
    return SystemExit(f"dvcrypto cannot be built: {what}\n{install}\nThen run the same command again.")


def pkg_config_flags() -> dict[str, Any]:
    """Compiler and linker arguments from pkg-config."""
    command = os.environ.get("PKG_CONFIG", "pkg-config")
    if not shutil.which(command):
        raise missing(f"{command} is not installed; it finds libsodium and libcrypto.", (PKG_CONFIG, *LIBRARIES))

    def ask(*arguments: str) -> list[str]:
        return subprocess.run([command, *arguments], check=True, capture_output=True, text=True).stdout.split()

    for library in LIBRARIES:
        name = f"{library.pkg_config} >= {library.oldest}"
        if subprocess.run([command, "--exists", name], check=False).returncode != 0:
            raise missing(f"pkg-config finds no {library.pkg_config} {library.oldest} or newer.", (library,))
    names = [library.pkg_config for library in LIBRARIES]
    return {"extra_compile_args": ask("--cflags", *names), "extra_link_args": ask("--libs", *names)}


def static_flags(prefix: Path) -> dict[str, Any]:
    """Compiler and linker arguments for the static libraries under a prefix; the result is stripped, as wheels are."""
    windows = sys.platform == "win32"
    archives = [prefix / "lib" / (f"{name}.lib" if windows else f"{name}.a") for name in ("libsodium", "libcrypto")]
    for needed in (prefix / "include" / "sodium.h", prefix / "include" / "openssl" / "evp.h", *archives):
        if not needed.is_file():
            raise missing(f"DVCRYPTO_STATIC_PREFIX is {prefix}, and {needed} is not there.", LIBRARIES)
    flags = {"include_dirs": [str(prefix / "include")], "extra_objects": [str(archive) for archive in archives]}
    if windows:
        flags["extra_compile_args"] = ["/DSODIUM_STATIC"]
        flags["libraries"] = ["advapi32", "crypt32", "gdi32", "user32", "ws2_32"]
    elif sys.platform == "darwin":
        flags["extra_link_args"] = ["-Wl,-x"]
    else:
        flags["libraries"] = ["pthread", "dl"]
        flags["extra_link_args"] = ["-Wl,--strip-all"]
    return flags


def platform_flags() -> dict[str, Any]:
    """C11, and one dynamic symbol: a copy of OpenSSL must not clash with another one in the process.

    Optimised at link time: a packet passes through several small files, and calls between them cost as much as framing.
    """
    if sys.platform == "win32":
        return {"extra_compile_args": ["/std:c11"], "libraries": ["ws2_32"]}
    exported = (
        "-Wl,-exported_symbol,_PyInit__native"
        if sys.platform == "darwin"
        else f"-Wl,--version-script={CSRC / 'native.map'}"
    )
    return {
        "extra_compile_args": ["-std=c11", "-fvisibility=hidden", "-flto"],
        "extra_link_args": ["-O2", "-flto", exported],
    }


def stable_abi() -> list[tuple[str, str]]:
    """Python 3.11's stable ABI, the first with the buffer protocol; a free-threaded or debugging Python has none."""
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sysconfig.get_config_var("Py_DEBUG"):
        return []
    return [("Py_LIMITED_API", "0x030B0000")]


def extension_arguments() -> dict[str, Any]:
    """All arguments of the extension."""
    prefix = os.environ.get("DVCRYPTO_STATIC_PREFIX")
    sources = sorted(str(path.relative_to(ROOT)) for path in CSRC.glob("*.c"))
    headers = [str(path.relative_to(ROOT)) for path in (*CSRC.glob("*.h"), PACKAGE / "_native_python.h")]
    arguments = {"sources": sources, "depends": headers, "include_dirs": [str(CSRC)], "define_macros": stable_abi()}
    for flags in (static_flags(Path(prefix)) if prefix else pkg_config_flags(), platform_flags()):
        for name, values in flags.items():
            arguments[name] = arguments.get(name, []) + values
    return arguments


def build_beside(header: Path, sources: list[Path], folder: Path) -> Any:
    """Build and import another module, named after its header, with the package's libraries and flags.

    For tests and benchmarks: what they reach in C is in no build that users get. ``sources`` may include csrc's.
    """
    arguments = extension_arguments()
    arguments["sources"] = [str(source) for source in sources]
    arguments["depends"] = []
    arguments["include_dirs"].append(str(header.parent))
    exported = platform_flags().get("extra_link_args", [""])[-1]
    arguments["extra_link_args"] = [flag for flag in arguments.get("extra_link_args", []) if flag != exported]
    ffi = FFI()
    ffi.cdef(declarations(header.read_text()))
    ffi.set_source(header.stem, f'#include "{header.name}"', **arguments)
    spec = importlib.util.spec_from_file_location(header.stem, ffi.compile(tmpdir=str(folder)))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ffibuilder = FFI()
ffibuilder.cdef(declarations((CSRC / "dvcrypto.h").read_text()) + PYTHON_DECLARATIONS)
ffibuilder.set_source("dvcrypto._native", (PACKAGE / "_native_python.h").read_text(), **extension_arguments())
