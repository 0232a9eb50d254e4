"""The inputs that are kept for the fuzz targets in Python still break no promise; `make test-c` gives C its own."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

FUZZ = ROOT / "tests" / "fuzz"
TARGETS = sorted((FUZZ / "targets").glob("*.py"))
INPUTS = [path for target in TARGETS for path in sorted((FUZZ / "corpus" / target.stem).iterdir())]


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    added = [str(FUZZ), str(FUZZ / "targets")]
    sys.path[:0] = added
    yield
    for path in added:
        sys.path.remove(path)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_input_of_the_corpus_breaks_no_promise(path: Path) -> None:
    target = importlib.import_module(path.parent.name)
    target.run(path.read_bytes())
