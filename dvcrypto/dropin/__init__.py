"""Backends for the libraries people use: one call makes their voice path ours.

>>> import dvcrypto.dropin
>>> dvcrypto.dropin.install()  # whichever of the supported libraries are, or will be, imported
>>> dvcrypto.dropin.uninstall()
"""

from dvcrypto.dropin._install import DropinWarning, LibraryStatus, install, status, uninstall

__all__ = ["DropinWarning", "LibraryStatus", "install", "status", "uninstall"]
