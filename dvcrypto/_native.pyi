# The compiled module, as the rest of the package uses it: cffi's ffi and lib.
from typing import Any

ffi: Any
lib: Any
