"""How the libraries are built on Windows, with Visual Studio; OpenSSL wants Perl and, for x86-64, NASM too."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from deps_unix import OPENSSL_OPTIONS, run

VSWHERE = Path("C:/Program Files (x86)/Microsoft Visual Studio/Installer/vswhere.exe")


class Machine(NamedTuple):
    """What a machine is called by each tool."""

    vcvarsall: str
    msbuild: str
    openssl: str


# OpenSSL has its assembly for ARM64 in a form that clang alone reads.
MACHINES = {
    "AMD64": Machine("amd64", "x64", "VC-WIN64A"),
    "ARM64": Machine("arm64", "ARM64", "VC-WIN64-CLANGASM-ARM"),
}


def libsodium(source: Path, prefix: Path, machine: str) -> None:
    """Build the static library of its solution, with the C runtime that Python's extension modules use."""
    solution = source / "builds" / "msvc" / "vs2022" / "libsodium.sln"
    names = known(machine)
    options = ("/m", "/nologo", "/p:Configuration=StaticRelease", f"/p:Platform={names.msbuild}")
    run(source, "msbuild", str(solution), *options, environment=visual_studio(names) | {"_CL_": "/MD"})
    (library,) = source.glob("bin/**/libsodium.lib")
    shutil.copy(library, prefix / "lib")
    shutil.copytree(source / "src" / "libsodium" / "include", prefix / "include", dirs_exist_ok=True)


def openssl(source: Path, prefix: Path, machine: str) -> None:
    """Make libcrypto alone: OpenSSL's own install wants libssl too."""
    names = known(machine)
    environment = visual_studio(names)
    run(source, "perl", "Configure", names.openssl, *OPENSSL_OPTIONS, environment=environment)
    run(source, "nmake", "/nologo", "build_generated", environment=environment)
    run(source, "nmake", "/nologo", "libcrypto.lib", environment=environment)
    shutil.copy(source / "libcrypto.lib", prefix / "lib")
    shutil.copytree(source / "include" / "openssl", prefix / "include" / "openssl", dirs_exist_ok=True)


def known(machine: str) -> Machine:
    """The names of a machine."""
    if machine not in MACHINES:
        raise SystemExit(f"there is no recipe for Windows on {machine}; there is for {', '.join(MACHINES)}")
    return MACHINES[machine]


def visual_studio(names: Machine) -> dict[str, str]:
    """The environment of Visual Studio's command prompt."""
    found = subprocess.run(
        [VSWHERE, "-latest", "-products", "*", "-property", "installationPath"],
        capture_output=True,
        text=True,
        check=True,
    )
    vcvarsall = Path(found.stdout.strip(), "VC", "Auxiliary", "Build", "vcvarsall.bat")
    command = f'cmd /s /c ""{vcvarsall}" {names.vcvarsall} >nul && set"'
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return os.environ | dict(line.split("=", 1) for line in told.stdout.splitlines() if "=" in line)


RECIPES = {"libsodium": libsodium, "openssl": openssl}
