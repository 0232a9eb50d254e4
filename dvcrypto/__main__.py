"""``python -m dvcrypto``, the same as ``dvcrypto``."""

import sys

from dvcrypto.cli import main

sys.exit(main())
