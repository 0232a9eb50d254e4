"""What pyproject.toml cannot say: the cffi module, its stable ABI, and what a wheel says of the libraries in it."""

import os
import shutil
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

# A free-threaded Python has a stable ABI of its own from 3.15 on, abi3t, for which cffi does not build yet.
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
prefix = os.environ.get("DVCRYPTO_STATIC_PREFIX")


class WheelWithLibraries(bdist_wheel):
    """A wheel that also has the licences of the libraries linked into it, and their bill of materials (PEP 770)."""

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Write the folder of metadata, and add what scripts/build_deps.py left beside the libraries."""
        super().egg2dist(egginfo_path, distinfo_path)
        for folder in ("licenses", "sboms"):
            if prefix and Path(prefix, folder).is_dir():
                shutil.copytree(Path(prefix, folder), Path(distinfo_path, folder), dirs_exist_ok=True)


setup(
    cffi_modules=["dvcrypto/_build_native.py:ffibuilder"],
    cmdclass={"bdist_wheel": WheelWithLibraries},
    options={} if free_threaded else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
