"""Programs that are frozen, by PyInstaller say, have what an import statement names, and nothing else."""

import modulefinder
from pathlib import Path

import dvcrypto


def test_import_statements_name_all_that_the_native_module_needs() -> None:
    package = Path(dvcrypto.__file__).parent
    finder = modulefinder.ModuleFinder(path=[str(package.parent)])  # others are named, and not looked into
    finder.load_file(str(package / "_library.py"))
    assert {"_cffi_backend", "dvcrypto._native"} <= finder.modules.keys() | finder.badmodules.keys()
