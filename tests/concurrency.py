"""Threads that run at once, and forked children."""

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def switching_threads_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def run_threads(*targets: Callable[[], None]) -> None:
    """Run all at once to their end; the first error of any of them is raised here."""
    barrier, errors = threading.Barrier(len(targets)), list[BaseException]()

    def run(target: Callable[[], None]) -> None:
        barrier.wait()
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(target,)) for target in targets]
    with switching_threads_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def in_child(function: Callable[[], object]) -> Any:
    """What a function returns in a forked child, by way of JSON. A child that hangs is killed by its alarm."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads about: that is the point here
        child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a handler would wait for a call that hangs
            signal.alarm(30)
            try:
                told = function()
            except BaseException as error:
                told = repr(error)
            os.write(write_end, json.dumps(told).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        told = pipe.read()
    _, wait_status = os.waitpid(child, 0)
    assert wait_status == 0, f"the child ended with status {wait_status}"
    return json.loads(told)
