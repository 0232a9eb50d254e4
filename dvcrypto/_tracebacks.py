"""Tracebacks that show local variables, as error reporters and test runners write them: none of ours shows a key."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def keyless(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """What takes a key: where it raises, its frames and all further in have no variables any more."""

    @functools.wraps(call)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            from traceback import clear_frames  # which imports much, and is seldom needed

            del args, kwargs
            if error.__suppress_context__:
                error.__context__ = None  # nobody is shown it, and its frames have variables too
            clear_frames(error.__traceback__)
            raise

    return called
