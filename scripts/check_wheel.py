"""Check wheels before anyone installs them: ``python scripts/check_wheel.py dist/*.whl``.

A wheel that is for the stable ABI keeps to it; its native module defines one symbol and needs nothing but the system's
own libraries; it says what is linked into it, and under which licences; it has nothing that only a build needs, and it
is small.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pefile
from deps import pinned
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

SIZE_MAX = 2_500_000
SYMBOL = "PyInit__native"
SUFFIXES = {".py", ".pyi", ".typed", ".pcap"}
"""Of the package's files, beside the native module."""

# What every machine of the wheel's platform has.
SYSTEM = {
    "linux": ("libc.so", "libc.musl-", "libpthread.so", "libdl.so", "ld-linux-"),
    "macos": ("/usr/lib/libSystem.",),
    "windows": (
        "kernel32",
        "advapi32",
        "crypt32",
        "gdi32",
        "user32",
        "ws2_32",
        "bcrypt",
        "python3",
        "vcruntime",
        "api-ms-",
    ),
}


def main() -> None:
    """Check all wheels that are named."""
    wheels = [Path(name) for name in sys.argv[1:]]
    if not wheels:
        raise SystemExit("name the wheels to check")
    faults = [f"{wheel.name}: {fault}" for wheel in wheels for fault in faults_of(wheel)]
    if faults:
        raise SystemExit("\n".join(faults))
    for wheel in wheels:
        print(f"{wheel.name}: {wheel.stat().st_size} bytes, as it should be")


def faults_of(wheel: Path) -> Iterator[str]:
    """What is wrong with a wheel."""
    if wheel.stat().st_size > SIZE_MAX:
        yield f"has {wheel.stat().st_size} bytes; at most {SIZE_MAX} are allowed"
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        archive.extractall(folder)
        names = [name for name in archive.namelist() if not name.endswith("/")]
        natives = [name for name in names if name.startswith("dvcrypto/_native.") and not name.endswith(".pyi")]
        yield from faults_of_contents(names, natives)
        yield from faults_of_statements(Path(folder))
        for native in natives:
            yield from faults_of_native(Path(folder, native))
    if "-abi3-" in wheel.name:
        audit = subprocess.run(["abi3audit", "--strict", wheel], capture_output=True, text=True, check=False)
        if audit.returncode:
            yield f"abi3audit says: {audit.stdout}{audit.stderr}"
    elif "t-" not in wheel.name:
        yield "is for one version of Python alone, and not free-threaded"


def faults_of_contents(names: list[str], natives: list[str]) -> Iterator[str]:
    """One native module, what the package needs, and nothing else."""
    if len(natives) != 1:
        yield f"has {len(natives)} native modules; it should have one"
    for name in names:
        in_package = name.startswith("dvcrypto/") and (Path(name).suffix in SUFFIXES or name in natives)
        if not in_package and not name.split("/")[0].endswith(".dist-info"):
            yield f"has {name}, which no one needs who installs it"


def faults_of_statements(folder: Path) -> Iterator[str]:
    """What the wheel says of the libraries in it is what deps.toml pins."""
    (information,) = folder.glob("*.dist-info")
    said = set()
    for bill in information.glob("sboms/dvcrypto-*.cdx.json"):
        said |= {(each["name"], each["version"]) for each in json.loads(bill.read_text())["components"]}
    if said != {(library.name, library.version) for library in pinned()}:
        yield f"its bill of materials names {sorted(said) or 'nothing'}; see scripts/deps.toml"
    for library in pinned():
        if not (information / "licenses" / f"LICENSE.{library.name}").is_file():
            yield f"has no licence of {library.name}"


def faults_of_native(native: Path) -> Iterator[str]:
    """One defined symbol; the system's own libraries."""
    system, defined, needed = described(native)
    if defined != [SYMBOL]:
        yield f"{native.name} defines {', '.join(defined[:5]) or 'nothing'} ({len(defined)}); only {SYMBOL} should be"
    for library in needed:
        if not library.startswith(SYSTEM[system]):
            yield f"{native.name} needs {library}, which not every machine has"


def described(native: Path) -> tuple[str, list[str], list[str]]:
    """Which system a module is for, which symbols it gives others, which libraries it needs."""
    magic = native.read_bytes()[:4]
    if magic == b"\x7fELF":
        return "linux", *of_elf(native)
    if magic[:2] == b"MZ":
        return "windows", *of_pe(native)
    return "macos", *of_mach_o(native)


def of_elf(native: Path) -> tuple[list[str], list[str]]:
    """Of a module for Linux."""
    with native.open("rb") as file:
        sections = list(ELFFile(file).iter_sections())
        symbols = [
            symbol.name
            for section in sections
            if isinstance(section, SymbolTableSection) and section.name == ".dynsym"
            for symbol in section.iter_symbols()
            if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"
        ]
        tags = [tag for section in sections if isinstance(section, DynamicSection) for tag in section.iter_tags()]
        return symbols, [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"]


def of_pe(native: Path) -> tuple[list[str], list[str]]:
    """Of a module for Windows."""
    image = pefile.PE(str(native))
    symbols = [symbol.name.decode() for symbol in image.DIRECTORY_ENTRY_EXPORT.symbols]
    return symbols, [entry.dll.decode().lower() for entry in image.DIRECTORY_ENTRY_IMPORT]


def of_mach_o(native: Path) -> tuple[list[str], list[str]]:
    """Of a module for macOS, where its tools are."""
    defined = subprocess.run(["nm", "-gUj", native], capture_output=True, text=True, check=True).stdout.split()
    loads = subprocess.run(["otool", "-L", native], capture_output=True, text=True, check=True).stdout.splitlines()
    return [name.removeprefix("_") for name in defined], [line.split()[0] for line in loads[1:]]


if __name__ == "__main__":
    main()
