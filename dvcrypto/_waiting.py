"""Sending and waiting on a running asyncio loop, with whatever loop has add_reader and add_writer."""

import asyncio
import errno
import weakref
from typing import Final

from dvcrypto._library import lib
from dvcrypto._sending import Sending, raise_for

_NO_BUFFERS: Final = {errno.ENOBUFS, getattr(errno, "WSAENOBUFS", errno.ENOBUFS)}
_NO_BUFFERS_SLEEP: Final = 0.001  # seconds: nobody tells when a device's queue has room again
_NO_BUFFERS_TRIES: Final = 1000

# Several may wait for one socket, for which a loop keeps one callback.
_Waiters = dict[tuple[int, bool], list["asyncio.Future[None]"]]
_loops: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiters]" = weakref.WeakKeyDictionary()


async def ready(number: int, *, to_send: bool) -> None:
    """Until a socket, by its number, can be written to, or has something to read."""
    loop = asyncio.get_running_loop()
    waiters, key = _waiters_of(loop), (number, to_send)
    here = waiters.setdefault(key, [])
    if here:  # of a socket that may have been closed since, and its number be another's: asked for anew
        _ignore(loop, key)
    add = loop.add_writer if to_send else loop.add_reader
    add(number, _wake, loop, waiters, key)
    future = loop.create_future()
    here.append(future)
    try:
        await future
    finally:
        if waiters.get(key) is here:  # not woken, but cancelled
            here.remove(future)
            if not here:
                _forget(loop, waiters, key)


def _waiters_of(loop: asyncio.AbstractEventLoop) -> _Waiters:
    """Who waits on this loop. Loops that were closed while somebody waited are let go of."""
    if loop not in _loops:
        for known in _loops.keyrefs():
            other = known()
            if other is not None and other.is_closed():
                _loops.pop(other, None)
        _loops[loop] = {}
    return _loops[loop]


def _ignore(loop: asyncio.AbstractEventLoop, key: tuple[int, bool]) -> None:
    number, to_send = key
    remove = loop.remove_writer if to_send else loop.remove_reader
    remove(number)


def _forget(loop: asyncio.AbstractEventLoop, waiters: _Waiters, key: tuple[int, bool]) -> "list[asyncio.Future[None]]":
    _ignore(loop, key)
    return waiters.pop(key)


def _wake(loop: asyncio.AbstractEventLoop, waiters: _Waiters, key: tuple[int, bool]) -> None:
    for future in _forget(loop, waiters, key):
        if not future.done():
            future.set_result(None)


async def send(sending: Sending, start: int) -> int:
    """Send all from ``start`` on: how many packets left. Raises OSError where not one did."""
    sent, due_ns, tries = 0, 0, 0
    while True:
        progress = sending.step(start + sent, 0, due_ns, sleeps=False)
        sent, due_ns = sent + progress.sent, progress.due_ns
        tries = 0 if progress.sent else tries + 1
        if progress.stop == lib.DV_STOP_FULL:
            await ready(sending.number, to_send=True)
        elif progress.stop == lib.DV_STOP_PACED:
            await asyncio.sleep(progress.wait_ns / 1e9)
        elif progress.error in _NO_BUFFERS and tries < _NO_BUFFERS_TRIES:
            await asyncio.sleep(_NO_BUFFERS_SLEEP)
        elif progress.stop != lib.DV_STOP_INTERRUPTED:
            break
    if not sent:
        raise_for(progress)
    return sent
