"""A bar that tells how much of a capture is read."""

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from dvcrypto.cli.captures import Record


def with_progress(records: Iterable[Record], size: int, done: str) -> Iterator[Record]:
    """A bar on standard error while the file is long enough to wait for; nothing where nobody watches."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(done, total=size or None)
        for record in records:
            progress.update(task, completed=record.position)
            yield record
