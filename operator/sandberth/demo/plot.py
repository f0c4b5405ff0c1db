"""The picture of a run: one panel a setting, one bar a node. Needs matplotlib, the extra `plot`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandberth.demo.parameters import Parameters
from sandberth.demo.statistics import Outcome

# Okabe and Ito's colours, told apart by every kind of colour vision.
_COLOURS = {"off": "#D55E00", "optimistic": "#0072B2", "reconciled": "#009E73"}
_TITLES = {"off": "no accounting", "optimistic": "optimistic accounting", "reconciled": "ID reconciliation"}
_INK, _FAINT = "#222222", "#777777"


def save_plot(parameters: Parameters, outcomes: Sequence[Outcome], directory: Path, stem: str = "demo") -> list[Path]:
    """Write the picture as PNG and SVG and return their paths. Raises ImportError without matplotlib."""
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    style: Any = {"font.size": 10, "svg.hashsalt": "sandberth", "axes.edgecolor": _FAINT, "text.color": _INK}
    most = max(max(outcome.counts) for outcome in outcomes)
    with rc_context(style):
        figure = Figure(figsize=(3.6 * len(outcomes) + 0.6, 3.9), dpi=160, facecolor="white", layout="constrained")
        panels = figure.subplots(1, len(outcomes), sharey=True, squeeze=False)[0]
        for panel, outcome in zip(panels, outcomes, strict=True):
            _draw(panel, outcome, most)
        panels[0].set_ylabel("Sandboxes on the node")
        _write_mean(panels[-1], outcomes[-1])
        figure.suptitle(_headline(parameters), fontsize=12, color=_INK)
        paths = [directory / f"{stem}.png", directory / f"{stem}.svg"]
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, facecolor="white", metadata=metadata)
    return paths


def _headline(parameters: Parameters) -> str:
    seconds = parameters.count / parameters.rate
    return (
        f"{parameters.count} Sandboxes started within {seconds:g} s on {parameters.nodes} equal nodes, "
        f"whose load is reported every {parameters.interval_seconds:g} s"
    )


def _mean(outcome: Outcome) -> float:
    return sum(outcome.counts) / max(1, len(outcome.counts))


def _draw(panel: Any, outcome: Outcome, most: int) -> None:
    colour = _COLOURS.get(outcome.setting, "#0072B2")
    positions = range(len(outcome.counts))
    panel.bar(positions, outcome.counts, width=0.78, color=colour, zorder=2)
    if len(positions) <= 16:
        _write_counts(panel, outcome.counts, most)
    panel.axhline(_mean(outcome), color=_INK, linestyle="--", linewidth=1.2, zorder=3)
    title = _TITLES.get(outcome.setting, outcome.setting)
    panel.set_title(f"{title}\nCV {outcome.cv_count:.2f}", fontsize=11, color=_INK)
    numbers = [name.rpartition("-")[2] for name in outcome.nodes]
    if len(numbers) <= 20:
        panel.set_xticks(positions, numbers, fontsize=8)
    panel.set_xlabel("node", color=_FAINT)
    panel.tick_params(length=0, colors=_FAINT)
    panel.grid(axis="y", color="#E4E4E4", linewidth=0.8, zorder=0)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)


def _write_counts(panel: Any, counts: Sequence[int], most: int) -> None:
    """Write each count at the foot of its bar, clear of the dashed line, or above a bar that is too low for it."""
    for position, count in enumerate(counts):
        inside = count >= 0.1 * most
        panel.annotate(
            str(count),
            (position, 0 if inside else count),
            xytext=(0, 4 if inside else 2),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            fontweight="bold" if inside else "normal",
            color="white" if inside else _INK,
            zorder=4,
        )


def _write_mean(panel: Any, outcome: Outcome) -> None:
    panel.annotate(
        "mean",
        (1, _mean(outcome)),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 6),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color=_INK,
    )
