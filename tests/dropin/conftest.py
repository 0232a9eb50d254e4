"""What the end-to-end tests share. Tests that are coroutines run each in a loop of its own."""

import asyncio
import inspect
from collections.abc import Callable, Iterator

import pytest

import dvcrypto.dropin


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine; pytest runs all else."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """`dvcrypto.dropin.install`, undone after the test. No mode is preferred by the environment."""
    monkeypatch.delenv("DVCRYPTO_MODE", raising=False)
    yield dvcrypto.dropin.install
    dvcrypto.dropin.uninstall()
