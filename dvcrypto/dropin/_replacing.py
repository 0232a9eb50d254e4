"""Replacing attributes of another library: only where they look as expected, all of them or none, and undone again."""

import importlib
import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, Final, NamedTuple

ABSENT: Final = object()
"""Stands for an attribute that is not there."""


class Unexpected(Exception):
    """The library's code is not what the replacements were written for."""


class Replacement(NamedTuple):
    """One attribute of a module or class of another library, and what takes its place."""

    owner: str
    """The module, and after a colon the class: ``discord.voice_client:VoiceClient``."""
    name: str
    make: Callable[[Any], Any]
    """Makes the new value from the old one, which is ABSENT where there is none."""
    expected: Callable[[Any], bool]
    """Whether the old value looks as expected."""

    @property
    def stays(self) -> bool:
        """Whether the attribute is only looked at."""
        return self.make is _keep

    def __str__(self) -> str:
        """The attribute's full name."""
        return f"{self.owner.replace(':', '.')}.{self.name}"


def method(owner: str, name: str, arguments: str, uses: str, make: Callable[[Any], Any]) -> Replacement:
    """A function with these arguments whose code names all of these attributes or strings (each list is one string)."""

    def expected(old: Any) -> bool:
        code = getattr(getattr(old, "__func__", old), "__code__", None)
        return (
            isinstance(code, CodeType) and _arguments(code) == arguments.split() and set(uses.split()) <= _names(code)
        )

    return Replacement(owner, name, make, expected)


def relied_on(owner: str, name: str, arguments: str, uses: str) -> Replacement:
    """A function that stays, and that the replacements only fit when it looks like this."""
    return method(owner, name, arguments, uses, _keep)


def value(owner: str, name: str, new: Any, expected: Callable[[Any], bool]) -> Replacement:
    """A value, whatever it was, as long as it looks as expected."""
    return Replacement(owner, name, lambda _: new, expected)


def addition(owner: str, name: str, new: Any) -> Replacement:
    """An attribute that the library does not have."""
    return Replacement(owner, name, lambda _: new, lambda old: old is ABSENT)


def _keep(old: Any) -> Any:
    return old


def _arguments(code: CodeType) -> list[str]:
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _names(code: CodeType) -> set[str]:
    names = {*code.co_names, *code.co_freevars, *(const for const in code.co_consts if isinstance(const, str))}
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= _names(const)
    return names


class Replaced(NamedTuple):
    """An attribute that was replaced."""

    owner: Any
    name: str
    old: Any
    new: Any

    def undo(self) -> None:
        """Put the old value back, unless someone has put another one in its place since."""
        if vars(self.owner).get(self.name, ABSENT) is not self.new:
            return
        if self.old is ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.old)


def replace(replacements: Iterable[Replacement]) -> list[Replaced]:
    """Replace all, in modules that are imported already; nothing, and raise Unexpected, where one does not fit."""
    planned = []
    for replacement in replacements:
        owner = _find(replacement)
        old = vars(owner).get(replacement.name, ABSENT)
        if not replacement.expected(old):
            message = f"{replacement} is {'missing' if old is ABSENT else 'not as expected'}"
            raise Unexpected(message)
        if not replacement.stays:
            planned.append(Replaced(owner, replacement.name, old, replacement.make(old)))
    for replaced in planned:
        setattr(replaced.owner, replaced.name, replaced.new)
    return planned


def _find(replacement: Replacement) -> Any:
    module, _, path = replacement.owner.partition(":")
    try:
        # What is there is not asked for by import, which would wait for a thread that imports it and waits for us.
        owner = sys.modules.get(module) or importlib.import_module(module)
        return getattr(owner, path) if path else owner
    except (ImportError, AttributeError):
        message = f"{replacement.owner.replace(':', '.')} is missing"
        raise Unexpected(message) from None
