"""What a run of the demo is made of. Standard library only: `--help` reads this."""

from dataclasses import dataclass

_OPTIMISTIC = "sandbox-placement-optimistic-resource-accounting"
_RECONCILED = "sandbox-placement-id-reconciliation"

# Setting -> the flags that it needs, every key in each, because a merge patch leaves out what it does not name.
SETTINGS = {
    "off": {_OPTIMISTIC: "false", _RECONCILED: "false"},
    "optimistic": {_OPTIMISTIC: "true", _RECONCILED: "false"},
    "reconciled": {_OPTIMISTIC: "false", _RECONCILED: "true"},
}


@dataclass(frozen=True, slots=True)
class Parameters:
    """One run; the defaults are the article's benchmark."""

    count: int = 500  # Sandboxes for each setting
    rate: float = 20.0  # a second, on schedule, whether or not earlier ones have been answered
    nodes: int = 10
    interval_seconds: float = 20.0  # between two reports, all nodes at once
    seed: int = 0  # of the foreign pods' sizes and of the operator's choices
    settings: tuple[str, ...] = tuple(SETTINGS)
    bed: str = "demo"
    node_cpu: str = "192"
    foreign_millicores: int = 4000  # at most, by the one foreign pod of each node
    check: bool = True  # whether the results must show the herd and its cure
    keep: bool = False  # leave the bed up, with the last Sandboxes
