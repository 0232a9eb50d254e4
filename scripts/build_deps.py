"""Build the libraries that a wheel carries into a prefix: what DVCRYPTO_STATIC_PREFIX names.

    python scripts/build_deps.py build/deps --tarballs folder

What is built is in deps.toml. The tarballs are taken from a folder where one is named, as NAME-VERSION.tar.gz, else
from the release pages; their checksums are always compared. A library that is there already, made in the same way,
stays. CC, AR and RANLIB name another compiler, and --machine what it compiles for. Beside ``include`` and ``lib`` the
prefix gets ``licenses`` and ``sboms``, which setup.py puts into the wheel. docs/packaging.md tells more.
"""

import argparse
import hashlib
import inspect
import json
import os
import platform
import shutil
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

import deps_sbom
from deps import Library, pinned

if sys.platform == "win32":
    import deps_windows as recipes
else:
    import deps_unix as recipes

ATTEMPTS = 3


def main() -> None:
    """Build what is missing from the prefix."""
    parser = argparse.ArgumentParser(description="Build libsodium and OpenSSL's libcrypto, static, into a prefix.")
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--tarballs", type=Path, default=os.environ.get("DVCRYPTO_TARBALLS") or None)
    parser.add_argument("--machine", default=platform.machine(), help="as platform.machine() has it there")
    arguments = parser.parse_args()
    prefix = arguments.prefix.resolve()
    for library in pinned():
        stamp = prefix / f".{library.name}"
        made_like = how_made(library, arguments.machine)
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == made_like:
            print(f"{library.name} {library.version} is in {prefix}")
            continue
        stamp.unlink(missing_ok=True)
        install(library, prefix, arguments.tarballs, arguments.machine)
        stamp.write_text(made_like, encoding="utf-8")
        print(f"{library.name} {library.version} was built into {prefix}")
    deps_sbom.write(prefix / "sboms" / "dvcrypto-libraries.cdx.json")


def how_made(library: Library, machine: str) -> str:
    """Text that differs where the library would."""
    compiler = {name: os.environ.get(name) for name in ("CC", "AR", "RANLIB", "CFLAGS", "MACOSX_DEPLOYMENT_TARGET")}
    made_by = hashlib.sha256(inspect.getsource(recipes).encode()).hexdigest()
    return json.dumps([library, machine, compiler, made_by])


def install(library: Library, prefix: Path, tarballs: Path | None, machine: str) -> None:
    """Unpack, build, and copy what is needed into the prefix."""
    with tempfile.TemporaryDirectory(prefix=f"{library.name}-") as folder:
        tarball = fetched(library, tarballs, Path(folder))
        with tarfile.open(tarball) as archive:
            archive.extractall(folder, filter="data")
        (source,) = (path for path in Path(folder).iterdir() if path.is_dir())
        for name in ("include", "lib", "licenses", "sboms"):
            (prefix / name).mkdir(parents=True, exist_ok=True)
        recipes.RECIPES[library.name](source, prefix, machine)
        shutil.copy(source / library.license_file, prefix / "licenses" / f"LICENSE.{library.name}")


def fetched(library: Library, tarballs: Path | None, folder: Path) -> Path:
    """The library's tarball, with the checksum that is pinned."""
    if tarballs:
        tarball = tarballs / f"{library.name}-{library.version}.tar.gz"
        if not tarball.is_file():
            raise SystemExit(f"{tarball} is not there; it is the file at {library.url}")
    else:
        tarball = download(library, folder / "tarball")
    with tarball.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != library.sha256:
        raise SystemExit(f"{tarball} has the sha256 {found}; scripts/deps.toml pins {library.sha256}")
    return tarball


def download(library: Library, tarball: Path) -> Path:
    """The file at the library's address; a few attempts, since a release page is at times out of reach."""
    print(f"Downloading {library.url}")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(library.url, timeout=120) as page, tarball.open("wb") as file:  # noqa: S310
                shutil.copyfileobj(page, file)
        except OSError as error:
            if attempt == ATTEMPTS:
                raise SystemExit(
                    f"{library.url} cannot be reached: {error}\n"
                    f"With the file in a folder, as {library.name}-{library.version}.tar.gz, name that folder with "
                    "--tarballs or DVCRYPTO_TARBALLS."
                ) from error
        else:
            break
    return tarball


if __name__ == "__main__":
    main()
