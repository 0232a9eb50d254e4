"""Which libraries are served, from when on, and what was replaced in each."""

import importlib.abc
import importlib.util
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib import _bootstrap, metadata
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple

from dvcrypto.dropin import _sending, discord_py, hikari_wave, interactions, pycord, voice_recv
from dvcrypto.dropin._library import Library
from dvcrypto.dropin._replacing import Replaced, Unexpected, replace
from dvcrypto.modes import MODE_VARIABLE, Mode, as_mode

_FAMILIES: Final = (discord_py, pycord, voice_recv, interactions, hikari_wave)
_LIBRARIES: Final = {library.name: library for family in _FAMILIES for library in family.LIBRARIES}

State = Literal["replaced", "waiting", "left alone", "not installed", "not asked for"]


class DropinWarning(UserWarning):
    """A library was left as it is."""


class LibraryStatus(NamedTuple):
    """What became of one library."""

    name: str
    """As it is called on PyPI."""
    state: State
    """``waiting`` is for the library to be imported."""
    version: str | None
    """Of the library, where its metadata is installed with it."""
    tested: tuple[str, ...]
    """The versions that this package was tested with."""
    replaced: tuple[str, ...]
    """Full names."""
    reason: str
    """Why a library that was asked for is waiting or left alone."""


class _Served(NamedTuple):
    """What was done to a library that was asked for and is imported."""

    replaced: tuple[Replaced, ...]
    names: tuple[str, ...]
    reason: str


_lock = threading.RLock()
_asked: dict[str, _Served | None] = {}  # None while the library waits to be imported


def install(*names: str, prefer: Mode | str | None = None) -> None:
    """Make the voice path of these libraries ours; without names, of all that are or will be imported.

    ``names`` are those of PyPI. ``prefer``, or else the environment variable ``DVCRYPTO_MODE``, is the mode that
    every connection takes where the server offers it; without both it is what ``choose_mode`` says.

    Libraries may be imported before or after. Installing again adds libraries, and changes what is preferred. A
    connection that seals already goes on in its own mode.

    Raises ValueError for a name that is not served or a mode that is none. Warns with DropinWarning of a library
    whose code is not what was expected, and leaves it alone.
    """
    unknown = [name for name in names if name not in list(_LIBRARIES)]  # also a list of names, which has no hash
    if unknown:
        message = f"no backend for {', '.join(map(repr, unknown))}; there are {', '.join(_LIBRARIES)}"
        raise ValueError(message)
    if os.environ.get(MODE_VARIABLE):
        as_mode(MODE_VARIABLE, os.environ[MODE_VARIABLE])
    with _lock:
        _sending.prefer(None if prefer is None else as_mode("prefer", prefer))
        for library in _LIBRARIES.values():
            if library.name in (names or _LIBRARIES) and library.name not in _asked:
                _asked[library.name] = None
        _watch()
    for module in {library.module for library in _LIBRARIES.values()}:
        _wait_for(module)
        with _lock:
            if _is_imported(module):  # or else it is served when its import ends
                _serve(module)


def uninstall() -> None:
    """Undo ``install``. A connection that dvcrypto seals for is sealed for by dvcrypto to its end."""
    with _lock:
        for served in _asked.values():
            _undo(served)
        _asked.clear()
        _sending.prefer(None)
        if _watcher in sys.meta_path:
            sys.meta_path.remove(_watcher)


def status() -> tuple[LibraryStatus, ...]:
    """What was replaced in which library, and where nothing was, why."""
    with _lock:
        return tuple(_status(library) for library in _LIBRARIES.values())


def _status(library: Library) -> LibraryStatus:
    served, version = _asked.get(library.name), _version(library)
    names: tuple[str, ...] = ()
    state: State
    if served and served.replaced:
        state, reason, names = "replaced", "", served.names
    elif version is None and not _is_present(library):
        state, reason = "not installed", ""
    elif library.name not in _asked:
        state, reason = "not asked for", ""
    elif served is None:
        state, reason = "waiting", f"{library.module} is not imported yet"
    else:
        state, reason = "left alone", served.reason
    return LibraryStatus(library.name, state, version, library.tested, names, reason)


def _is_present(library: Library) -> bool:
    """Whether it is this library, and not another one that shares the package's name."""
    return library.module in sys.modules and library.title in (None, _title(library))


def _title(library: Library) -> str | None:
    return getattr(sys.modules.get(library.package), "__title__", None)


def _version(library: Library) -> str | None:
    try:
        return metadata.version(library.name)
    except metadata.PackageNotFoundError:
        return None


def _wait_for(module: str) -> None:
    """Wait while another thread looks for the module or imports it: it may have begun before we watched.

    Without our lock, which that thread wants at the end. The interpreter itself waits by this function; to import the
    module instead would begin again what has failed there.
    """
    wait = getattr(_bootstrap, "_lock_unlock_module", None)
    if wait:
        wait(module)


def _is_imported(module: str) -> bool:
    """Whether it is there, and all of it."""
    found = sys.modules.get(module)
    return found is not None and not getattr(getattr(found, "__spec__", None), "_initializing", False)


def _serve(module: str) -> None:
    """Replace what is to be replaced, now that the module is imported."""
    refused = []
    for name, served in _asked.items():
        library = _LIBRARIES[name]
        if library.module == module and served is None:
            result, refusal = _replace(library)
            _asked[name] = result
            refused.extend(refusal)
    for message in refused:
        warnings.warn(message, DropinWarning, stacklevel=3)


def _replace(library: Library) -> tuple[_Served, list[str]]:
    """What was done, and what to warn of."""
    if library.title not in (None, _title(library)):
        return _Served((), (), f"the package {library.package!r} is of {_title(library)!r}"), []
    replacements = library.replacements()
    try:
        names = tuple(str(replacement) for replacement in replacements if not replacement.stays)
        return _Served(tuple(replace(replacements)), names, ""), []
    except Unexpected as unexpected:
        tested = ", ".join(library.tested)
        version = _version(library) or "of an unknown version"
        message = f"{library.name} {version} is left alone, as {unexpected}; tested versions: {tested}"
        return _Served((), (), str(unexpected)), [message]


def _undo(served: _Served | None) -> None:
    for replaced in reversed(served.replaced if served else ()):
        replaced.undo()


class _Watcher(importlib.abc.MetaPathFinder):
    """Sees the libraries' modules being imported, and being reloaded."""

    def __init__(self) -> None:
        self._here = threading.local()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        looked_for = vars(self._here).setdefault("names", set())
        # Another finder may ask all the others too, and us among them.
        if name in looked_for or not any(_LIBRARIES[asked].module == name for asked in _asked.copy()):
            return None
        looked_for.add(name)
        try:
            spec = self._ask_others(name, path, target)
        finally:
            looked_for.remove(name)
        if spec and spec.loader:
            spec.loader = _Loader(spec.loader)
        return spec

    def _ask_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)  # without one, the interpreter passes it over too
            spec = find_spec(name, path, target) if find_spec and finder is not self else None
            if spec and spec.loader:
                return spec  # type: ignore[no-any-return]
        return None


class _Loader(importlib.abc.Loader):
    """Loads as another loader does, and then serves the library. The module knows the other loader only."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __reduce__(self) -> tuple[type["_Loader"], tuple[importlib.abc.Loader]]:
        return _Loader, (self._loader,)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        for where, attribute in ((module.__spec__, "loader"), (module, "__loader__")):
            setattr(where, attribute, self._loader)
        with _lock:
            for asked in _asked:
                if _LIBRARIES[asked].module == name:  # what a reload finds replaced outside of the module
                    _undo(_asked[asked])
                    _asked[asked] = None
        self._loader.exec_module(module)
        with _lock:
            _serve(name)


_watcher = _Watcher()


def _watch() -> None:
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)
