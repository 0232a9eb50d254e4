"""What pyproject.toml cannot say: the cffi module, the stable ABI where this Python has one, what a wheel says of its libraries."""

import os
import shutil
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
prefix = os.environ.get("DVCRYPTO_STATIC_PREFIX")


class WheelWithLibraries(bdist_wheel):
    """A wheel that also has the licences of the libraries linked into it, and their bill of materials (PEP 770)."""

    def egg2dist(self, egginfo_path, distinfo_path):
        super().egg2dist(egginfo_path, distinfo_path)
        for folder in ("licenses", "sboms"):
            if prefix and Path(prefix, folder).is_dir():
                shutil.copytree(Path(prefix, folder), Path(distinfo_path, folder), dirs_exist_ok=True)


setup(
    cffi_modules=["dvcrypto/_build_native.py:ffibuilder"],
    cmdclass={"bdist_wheel": WheelWithLibraries},
    options={} if free_threaded else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
