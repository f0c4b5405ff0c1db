"""What a simulation came to, as text: a table of the measures, and the article's histogram of each view."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sandberth.sim.histogram import histogram

if TYPE_CHECKING:
    from rich.table import Table

MAX_BARS = 40
WIDTH = 100  # of the table, so that no column is cut
LEGEND = (
    "CV COUNT: spread of the sandboxes per node, the article's measure. CV ALLOC.: spread of the share of each node\n"
    "that is taken, by whomever: the honest one, because an exact balancer also levels what else runs there.\n"
    "CV is standard deviation / mean. UNDER: events after which the view counted less on a node than it held or might\n"
    "still get. OVER: the most CPU that it ever counted too much on a node. REFUSED: sandboxes without room at first."
)


def table(results: dict[str, Any], runs: int) -> "Table":
    """Return one row a view; mean and 95th percentile are over the runs."""
    from rich.table import Table  # noqa: PLC0415

    made = Table(box=None, header_style="bold", pad_edge=False)
    made.add_column("VIEW", no_wrap=True)
    several = runs > 1
    p95 = ["P95"] if several else []
    for heading in ("CV COUNT", *p95, "CV ALLOC.", *p95, "MAX/MEAN", "MAX", "MIN", "UNDER", "OVER", "REFUSED"):
        made.add_column(heading, justify="right", no_wrap=True)
    for view, values in results.items():
        made.add_row(
            view,
            *_spread(values["cv_count"], several),
            *_spread(values["cv_allocated"], several),
            f"{values['max_over_mean']['mean']:.3f}",
            *(str(values[key]) for key in ("max", "min", "undercount")),
            f"{values['overcount_max_cpu']:g}",
            str(values["refused"]),
        )
    return made


def _spread(values: dict[str, float], several: bool) -> list[str]:
    return [f"{values[key]:.4f}" for key in (("mean", "p95") if several else ("mean",))]


def histograms(results: dict[str, Any]) -> str:
    """Return the first run of every view, a bar a node; of a large fleet, the fullest nodes and the emptiest."""
    most = max(values["max"] for values in results.values())
    return "\n\n".join(f"{view}\n{_bars(values['counts'], most)}" for view, values in results.items())


def _bars(counts: Sequence[int], most: int) -> str:
    names = [f"node {index:02d}" for index in range(len(counts))]
    if len(counts) <= MAX_BARS:
        return histogram(names, counts, most)
    order = sorted(range(len(counts)), key=lambda index: (-counts[index], index))
    half = MAX_BARS // 4
    ends = [(order[:half], "fullest"), (order[-half:], "emptiest")]
    return "\n".join(
        f"the {half} {word} of {len(counts)} nodes:\n"
        + histogram([names[index] for index in chosen], [counts[index] for index in chosen], most)
        for chosen, word in ends
    )
