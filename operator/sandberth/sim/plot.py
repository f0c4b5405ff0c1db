"""The picture of a simulation: a histogram of each view, side by side, and the CV over time. Needs matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandberth.core.views import View
from sandberth.sim.engine import Outcome
from sandberth.sim.settings import Settings

# Okabe and Ito's colours, told apart by every kind of colour vision.
_COLOURS = {
    View.METRICS: "#D55E00",
    View.IN_PROGRESS: "#E69F00",
    View.OPTIMISTIC: "#0072B2",
    View.RECONCILED: "#009E73",
}
_INK, _FAINT = "#222222", "#777777"
MAX_LABELLED = 16
MAX_BARS = 200
MAX_POINTS = 120


def save_plot(settings: Settings, outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw the first run of each view. Raises ImportError without matplotlib, OSError where it cannot write."""
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    shown = [outcome for outcome in outcomes if outcome.run == 0]
    style: Any = {"font.size": 9, "svg.hashsalt": "sandberth", "axes.edgecolor": _FAINT, "text.color": _INK}
    style |= {"svg.fonttype": "none"}  # text as text: a third of the size
    with rc_context(style):
        figure = Figure(figsize=(max(6.0, 2.6 * len(shown)), 5.4), dpi=120, facecolor="white", layout="constrained")
        grid = figure.add_gridspec(2, len(shown), height_ratios=(1.15, 1))
        first: Any = None
        for column, outcome in enumerate(shown):
            panel = figure.add_subplot(grid[0, column], sharey=first)
            first = first or panel
            _draw_counts(panel, outcome)
        first.set_ylabel("sandboxes on the node")
        _draw_history(figure.add_subplot(grid[1, :]), shown)
        figure.suptitle(_headline(settings), fontsize=10, color=_INK)
        figure.savefig(path, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else None)


def _headline(settings: Settings) -> str:
    reports = "no reports" if settings.heartbeat is None else f"reports every {settings.heartbeat} s"
    compared = settings.sample_size or "all"
    return f"{settings.scenario}: {settings.nodes} nodes, {settings.duration:g} s, {reports}, K={compared}"


def _draw_counts(panel: Any, outcome: Outcome) -> None:
    counts: Sequence[int] = outcome.counts
    if len(counts) > MAX_BARS:
        counts = [sorted(counts, reverse=True)[len(counts) * i // MAX_BARS] for i in range(MAX_BARS)]
    positions = range(len(counts))
    panel.bar(positions, counts, width=0.78, color=_COLOURS[outcome.view], zorder=2)
    panel.axhline(sum(outcome.counts) / len(outcome.counts), color=_INK, linestyle="--", linewidth=1, zorder=3)
    if len(counts) <= MAX_LABELLED:
        for position, count in zip(positions, counts, strict=True):
            _write_count(panel, position, count, max(counts))
    panel.set_title(f"{outcome.view}\nCV {outcome.evenness.cv_count:.3f}", fontsize=10, color=_INK)
    panel.set_xticks([])
    panel.set_xlabel("nodes, fullest first" if len(outcome.counts) > MAX_BARS else "nodes", color=_FAINT)
    _tidy(panel)


def _write_count(panel: Any, position: int, count: int, most: int) -> None:
    """Write it at the foot of its bar, clear of the dashed line, or above a bar that is too low for it."""
    inside = count >= 0.12 * most
    panel.annotate(
        str(count),
        (position, 0 if inside else count),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=6,
        color="white" if inside else _INK,
        zorder=4,
    )


def _draw_history(panel: Any, outcomes: Sequence[Outcome]) -> None:
    """Draw the honest measure over time; of two views that lie on one another the second is dashed."""
    for number, outcome in enumerate(outcomes):
        start_s = 0.03 * outcome.history[-1].seconds  # nearly empty nodes say nothing, and would set the scale
        moments = [moment for moment in outcome.history if moment.seconds > start_s]
        moments = moments[:: 1 + len(moments) // MAX_POINTS]
        panel.plot(
            [moment.seconds for moment in moments],
            [moment.cv_allocated for moment in moments],
            color=_COLOURS[outcome.view],
            linewidth=1.6,
            linestyle="--" if number % 2 else "-",
            label=str(outcome.view),
        )
    panel.set_xlabel("seconds", color=_FAINT)
    panel.set_ylabel("CV of allocated/capacity")
    panel.set_ylim(0, 1.25 * panel.get_ylim()[1])
    panel.legend(fontsize=8, frameon=False, loc="upper right", ncols=len(outcomes))
    _tidy(panel)


def _tidy(panel: Any) -> None:
    panel.tick_params(length=0, colors=_FAINT)
    panel.grid(axis="y", color="#E4E4E4", linewidth=0.8, zorder=0)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
