"""Sandboxes per node as text."""

from collections.abc import Sequence

_WIDTH = 60


def histogram(nodes: Sequence[str], counts: Sequence[int], most: int) -> str:
    """Return one line a node: its name, a bar, its count. A full bar stands for `most`, so that runs compare."""
    name_width = max(map(len, nodes), default=0)
    count_width = len(str(max([most, *counts])))
    lines = []
    for node, count in zip(nodes, counts, strict=True):
        bar = "#" * bar_length(count, most)
        lines.append(f"{node:<{name_width}} | {bar:<{_WIDTH}} {count:>{count_width}}")
    return "\n".join(lines)


def bar_length(count: int, most: int, width: int = _WIDTH) -> int:
    """Return the length of a bar: whatever is not nothing shows."""
    if count <= 0 or most <= 0:
        return 0
    return min(width, max(1, round(width * count / most)))
