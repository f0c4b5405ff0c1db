"""How commands that start something end: on an error, on Ctrl-C, on SIGTERM."""

import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer


def command_folder() -> Path:
    """Return the folder of this Python's commands, `sandberth` among them."""
    return Path(sys.executable).parent


def this_command() -> str:
    """Return how to call `sandberth` from this shell, as a word to paste."""
    own = command_folder() / "sandberth"
    found = shutil.which("sandberth")
    if not own.exists() or (found is not None and Path(found).resolve() == own.resolve()):
        return "sandberth"
    return shlex.quote(str(own.relative_to(Path.cwd()) if own.is_relative_to(Path.cwd()) else own))


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what Sandberth says went wrong into one line on stderr and exit code 1."""
    from sandberth.core.errors import SandberthError  # noqa: PLC0415

    try:
        yield
    except SandberthError as error:
        print(f"sandberth: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        print("sandberth: interrupted; what was started has been stopped", file=sys.stderr)
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
