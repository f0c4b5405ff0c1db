"""How a run tells that it is alive: the bed's own progress display, and bars that count."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

from sandberth.cluster.progress import PlainProgress, Progress, QuietProgress, TerminalProgress

Advance = Callable[[int], None]  # takes how many are done by now


class Display(Progress, Protocol):
    """Where the demo reports to."""

    def count(self, label: str, total: int) -> AbstractContextManager[Advance]:
        """Show how many of `total` are done, as the given function is told."""


class QuietDisplay(QuietProgress):
    """Says nothing: for tests."""

    @contextmanager
    def count(self, label: str, total: int) -> Iterator[Advance]:  # noqa: ARG002
        """Show nothing."""
        yield lambda _done: None


class PlainDisplay(PlainProgress):
    """Lines, for logs."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)

    @contextmanager
    def count(self, label: str, total: int) -> Iterator[Advance]:  # noqa: ARG002
        """Print `label`, then how long it took."""
        with self.step(label):
            yield lambda _done: None


class TerminalDisplay(TerminalProgress):
    """A spinner for steps, a bar for counts."""

    @contextmanager
    def count(self, label: str, total: int) -> Iterator[Advance]:
        """Draw a bar; a finished one leaves one line, as a step does."""
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
        from rich.progress import Progress as Bars  # noqa: PLC0415

        text = TextColumn("{task.description}", markup=False)
        columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Bars(*columns, console=self._console, transient=True) as bars:
            task = bars.add_task(label, total=total)
            yield lambda done: bars.update(task, completed=done)
            elapsed = bars.tasks[0].elapsed or 0.0
        self.say(f"{label}: {elapsed:.1f} s")


def display_for_stderr() -> Display:
    """Return the display that suits stderr."""
    return TerminalDisplay() if sys.stderr.isatty() else PlainDisplay(sys.stderr)
