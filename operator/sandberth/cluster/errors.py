"""What can go wrong with a test bed."""

from pathlib import Path

from sandberth.core.errors import SandberthError


class ClusterError(SandberthError):
    """A bed could not do what was asked; the text is one line, for the user."""


class ProgramFailedError(ClusterError):
    """A program of the bed ended, or did not become ready in time."""

    def __init__(self, program: str, what: str, log: Path) -> None:
        super().__init__(f"{program} {what}; see {log}")
        self.program = program
        self.log = log


class BedApiError(ClusterError):
    """The bed's API server refused a request."""

    def __init__(self, method: str, path: str, status: int, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status


class BedUnreachableError(ClusterError):
    """The bed's API server did not answer."""
