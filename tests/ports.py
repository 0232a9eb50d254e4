"""UDP ports that a test chooses before somebody else opens them."""

import os
import socket

import pytest

# Below those that systems give out by themselves, and for each process its own: tests run side by side.
FIRST, LAST, STEP = 20_000, 32_000, 16


def free_ports(count: int) -> list[int]:
    """So many in a row, the first one even."""
    own = FIRST + os.getpid() * STEP % (LAST - FIRST)
    for first in (*range(own, LAST, STEP), *range(FIRST, own, STEP)):
        ports = list(range(first, first + count))
        if all(map(is_free, ports)):
            return ports
    pytest.skip(f"no {count} UDP ports in a row are free")


def is_free(port: int) -> bool:
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
