"""Everything public is documented, examples run, and the import loads nothing that a sealer does not need."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import runpy
import shutil
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import dvcrypto
from dvcrypto import dropin

PACKAGE = Path(dvcrypto.__file__).parent
MODULES = [
    name
    for name in ("dvcrypto", *(f"dvcrypto.{module.name}" for module in pkgutil.iter_modules(dvcrypto.__path__)))
    if name not in {"dvcrypto.__main__", "dvcrypto._build_native", "dvcrypto._native", "dvcrypto.cli"}
]


def public_members() -> Iterator[tuple[str, object]]:
    """Every public name, and every public method, property and class attribute of the classes among them."""
    for name in dvcrypto.__all__:
        thing = getattr(dvcrypto, name)
        yield name, thing
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if member.startswith("_") or isinstance(value, (types.MemberDescriptorType, thing)):
                    continue
                if isinstance(value, (property, classmethod, staticmethod)) or inspect.isfunction(value):
                    yield f"{name}.{member}", value


@pytest.mark.parametrize(("name", "thing"), list(public_members()), ids=[name for name, _ in public_members()])
def test_every_public_name_is_documented(name: str, thing: object) -> None:
    text = inspect.getdoc(thing) or ""
    if inspect.isclass(thing):
        text = thing.__dict__.get("__doc__") or ""  # its own, not a base's
    assert len(text.split()) >= 2, f"{name} has no docstring"
    assert text.strip()[-1] in ".:|'\"])}" or ">>>" in text, f"the docstring of {name} does not end"
    assert not re.match(r"\w+\(.*\)$", text), f"the docstring of {name} is only its signature"


def attributes_without_a_docstring(source: str) -> list[str]:
    """Annotated public attributes in a class's body that are followed by no string."""
    bare = []
    for cls in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)):
        is_tuple = any(isinstance(base, ast.Name) and base.id == "NamedTuple" for base in cls.bases)
        for node, after in zip(cls.body, [*cls.body[1:], None], strict=True):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or is_tuple:
                continue
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if not node.target.id.startswith("_") and not documented:
                bare.append(f"{cls.name}.{node.target.id}")
    return bare


@pytest.mark.parametrize("name", MODULES)
def test_every_module_and_every_public_attribute_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    assert module.__file__
    assert attributes_without_a_docstring(Path(module.__file__).read_text()) == []


def test_all_lists_what_is_public_and_only_that() -> None:
    assert sorted(dvcrypto.__all__) == list(dict.fromkeys(sorted(dvcrypto.__all__)))
    public = {
        name for name, value in vars(dvcrypto).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(dvcrypto.__all__)
    for error in (value for value in vars(dvcrypto.errors).values() if inspect.isclass(value)):
        assert error.__name__ in dvcrypto.__all__


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DVCRYPTO_MODE", raising=False)
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.FAIL_FAST)
    assert results.failed == 0


def test_what_people_start_with_has_an_example() -> None:
    for thing in (
        dvcrypto.Sealer,
        dvcrypto.Sealer.seal_burst,
        dvcrypto.RtpStream,
        dvcrypto.RtpExtension,
        dvcrypto.Opener,
        dvcrypto.Opener.open_burst,
        dvcrypto.choose_mode,
    ):
        assert ">>>" in (thing.__doc__ or "")


PAGES = [page for page in (PACKAGE.parent / "README.md", *(PACKAGE.parent / "docs").glob("*.md")) if page.exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_on_a_page_runs_from_its_top_to_its_end(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DVCRYPTO_MODE", raising=False)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(block, page.name, "exec"), names)
    for value in names.values():
        if isinstance(value, socket.socket):
            value.close()
    dropin.uninstall()  # what a page may have installed


of_a_checkout = pytest.mark.skipif(not (PACKAGE.parent / "docs").is_dir(), reason="an installed package has no pages")


@of_a_checkout
def test_every_public_name_has_its_place_in_the_reference() -> None:
    reference = (PACKAGE.parent / "docs" / "api.md").read_text()
    listed = re.findall(r"^\.\. auto(?:class|function|exception):: (\w+)$", reference, re.MULTILINE)
    assert sorted(listed) == sorted([*dvcrypto.__all__, *dropin.__all__])


@of_a_checkout
def test_the_diagrams_are_those_that_the_script_draws() -> None:
    script = PACKAGE.parent / "scripts" / "draw_diagrams.py"
    drawings = runpy.run_path(str(script))["DRAWINGS"]
    for name, draw in drawings.items():
        assert (PACKAGE.parent / "docs" / name).read_text() == draw(), f"{name} is old: run {script}"


@of_a_checkout
@pytest.mark.parametrize("page", ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_pages_outside_the_site_lead_somewhere(page: str) -> None:
    """Sphinx looks after the others."""
    links = re.findall(r"\]\(([^)#]+)", (PACKAGE.parent / page).read_text())
    assert [link for link in links if "://" not in link and not (PACKAGE.parent / link).exists()] == []


# Importing

HEAVY = {
    "argparse",
    "asyncio",
    "concurrent",
    "cryptography",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "dpkt",
    "dvcrypto.cli",
    "email",
    "http",
    "importlib.metadata",
    "inspect",
    "json",
    "logging",
    "multiprocessing",
    "numpy",
    "pathlib",
    "pickle",
    "random",
    "rich",
    "shutil",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "typing_extensions",
    "unittest",
    "urllib",
    "zipfile",
}

# Without site, so that what an installation's own hooks import is not counted.
LIST_IMPORTED = """
import sys
sys.path[:0] = sys.argv[1:]
import _cffi_backend
before = set(sys.modules)
import dvcrypto
print(*sorted(set(sys.modules) - before))
"""


def test_importing_the_package_loads_nothing_that_a_sealer_does_not_need() -> None:
    backend = importlib.import_module("_cffi_backend").__file__
    assert backend
    paths = [str(PACKAGE.parent), str(Path(backend).parent)]
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LIST_IMPORTED, *paths], capture_output=True, text=True, check=True
    )
    imported = set(run.stdout.split())
    assert {"dvcrypto.sealing", "dvcrypto._native"} <= imported
    assert {name for name in imported if name in HEAVY or name.split(".")[0] in HEAVY} == set()


# The native module


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF")
def test_the_native_module_has_one_dynamic_symbol() -> None:
    """So that another copy of OpenSSL or libsodium in the process and this one do not meet."""
    native = importlib.import_module("dvcrypto._native").__file__
    assert native
    if shutil.which("nm"):
        listed = subprocess.run(["nm", "-D", "--defined-only", native], capture_output=True, text=True, check=True)
        symbols = [line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()]
    elif shutil.which("readelf"):
        listed = subprocess.run(["readelf", "--dyn-syms", "-W", native], capture_output=True, text=True, check=True)
        rows = [line.split() for line in listed.stdout.splitlines() if re.match(r"\s+\d+: ", line)]
        symbols = [row[7].split("@")[0] for row in rows if len(row) > 7 and row[6] != "UND"]
    else:
        pytest.skip("neither nm nor readelf is installed")
    assert symbols == ["PyInit__native"]
