"""How a long step tells the user that it is still alive."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, TextIO


class Progress(Protocol):
    """Where `up` reports to."""

    def say(self, line: str) -> None:
        """Tell one fact."""

    def step(self, label: str) -> AbstractContextManager[None]:
        """Show that `label` is under way for as long as the context lasts."""


class QuietProgress:
    """Says nothing: for tests and other callers."""

    def say(self, line: str) -> None:
        """Drop the line."""

    def step(self, label: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Show nothing."""
        return nullcontext()


class PlainProgress:
    """One line when a step starts, one when it ends, and one every `every_seconds` between: for logs."""

    def __init__(self, stream: TextIO, every_seconds: float = 30.0) -> None:
        self._stream = stream
        self._every_seconds = every_seconds

    def say(self, line: str) -> None:
        """Print the line."""
        print(line, file=self._stream, flush=True)

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Print `label`, then how long it has taken so far."""
        began = time.monotonic()
        ended = threading.Event()

        def tick() -> None:
            while not ended.wait(self._every_seconds):
                self.say(f"{label}: {time.monotonic() - began:.0f} s so far")

        ticker = threading.Thread(target=tick, daemon=True)
        self.say(f"{label} ...")
        ticker.start()
        try:
            yield
        finally:
            ended.set()
            ticker.join()
        self.say(f"{label}: done in {time.monotonic() - began:.1f} s")


class TerminalProgress:
    """A spinner with the time that a step has taken; a finished step leaves one line."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415  (the terminal alone needs rich)

        self._console = Console(stderr=True, highlight=False)

    def say(self, line: str) -> None:
        """Print the line above the spinner."""
        self._console.print(line, markup=False)

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Spin beside `label`."""
        from rich.progress import Progress as Bars  # noqa: PLC0415
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        began = time.monotonic()
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Bars(*columns, console=self._console, transient=True) as bars:
            bars.add_task(label, total=None)
            yield
        self.say(f"{label}: {time.monotonic() - began:.1f} s")


def progress_for_stderr() -> Progress:
    """Return the display that suits stderr: a spinner on a terminal, plain lines elsewhere."""
    return TerminalProgress() if sys.stderr.isatty() else PlainProgress(sys.stderr)
