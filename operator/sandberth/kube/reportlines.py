"""The lines of a report: how one entry of `status.report.sandboxes` is written and read.

Standard library only: a reporter writes them, and the process on every node stays small.
"""

from typing import Final, NamedTuple

MAX_REPORTED_SANDBOXES: Final = 2000


class ReportedSandbox(NamedTuple):
    """One entry of a report: an attempt and the nominal size it holds."""

    attempt_id: str
    cpu_millicores: int
    memory_bytes: int


def parse_line(line: str) -> ReportedSandbox:
    """Return what `<attempt id> <cpu in m> <memory in bytes>` says.

    Raises ValueError with the line in its text: a list with one bad entry is not a complete list.
    """
    parts = line.split(" ")
    if len(parts) != 3 or not parts[0] or not all(part.isascii() and part.isdigit() for part in parts[1:]):
        raise ValueError(f"not `<attempt id> <cpu in m> <memory in bytes>`: {line!r}")
    return ReportedSandbox(parts[0], int(parts[1]), int(parts[2]))


def format_line(attempt_id: str, cpu_millicores: int, memory_bytes: int) -> str:
    """Return the line that `parse_line` reads back."""
    return f"{attempt_id} {cpu_millicores} {memory_bytes}"
