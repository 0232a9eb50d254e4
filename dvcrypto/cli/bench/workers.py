"""Processes of their own that answer questions, for what must be measured undisturbed or under another environment."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import dvcrypto

Answer = Callable[..., dict[str, Any]]
"""Answers one question: a module's function, its arguments and result fit for JSON."""

_PROGRAM: Final = """
import sys
sys.path[:] = {path!r}
from {module} import {function}
from dvcrypto.cli.bench.workers import serve
serve({function})
"""


class Worker:
    """A process that runs ``answer`` once for each question. The end of a ``with`` block ends it, as does the asker's.

    ``environment`` is added to this process's own. A Ctrl-C in the terminal does not reach it.
    """

    def __init__(self, answer: Answer, environment: Mapping[str, str] | None = None) -> None:
        """Start it."""
        program = _PROGRAM.format(path=sys.path, module=answer.__module__, function=answer.__name__)
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same, on Windows
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        """One answer. Raises OSError with what the process said when it had none."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise OSError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise OSError(answer["error"])
        return answer

    def _last_words(self) -> str:
        assert self._process.stderr
        self._process.kill()
        said = self._process.stderr.read().strip().splitlines()
        return f"a measuring process ended: {said[-1] if said else f'status {self._process.wait()}'}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(BrokenPipeError), self._process:  # closes its pipes and waits; a question may still be in one
            self._process.kill()


def serve(answer: Answer) -> None:
    """Answer the questions on standard input, one JSON object a line, until it ends."""
    gc.disable()  # or it would run within what is measured, at random
    for line in sys.stdin:
        try:
            answered = answer(**json.loads(line))
        except (OSError, ValueError, dvcrypto.DvcryptoError) as error:
            answered = {"error": str(error)}
        sys.stdout.write(json.dumps(answered) + "\n")
        sys.stdout.flush()
