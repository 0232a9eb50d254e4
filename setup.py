"""What pyproject.toml cannot say: the cffi module, and the stable ABI where this Python has one."""

import sysconfig

from setuptools import setup

free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

setup(
    cffi_modules=["dvcrypto/_build_native.py:ffibuilder"],
    options={} if free_threaded else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
