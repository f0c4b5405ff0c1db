"""How commands that start something end: on an error, on Ctrl-C, on SIGTERM."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import typer


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what Sandberth says went wrong into one line on stderr and exit code 1."""
    from sandberth.core.errors import SandberthError  # noqa: PLC0415

    try:
        yield
    except SandberthError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        print("error: interrupted; what was started has been stopped", file=sys.stderr)
        raise typer.Exit(130) from error


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that a half-started bed is stopped in both cases."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
