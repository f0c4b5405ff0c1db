"""A run's results in full, for other programs: demo.json."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sandberth import __version__
from sandberth.cluster.programs import kubernetes_version
from sandberth.demo.parameters import Parameters
from sandberth.demo.statistics import Outcome


def results(parameters: Parameters, outcomes: Sequence[Outcome], wrong: Sequence[str]) -> dict[str, Any]:
    """Return what demo.json holds: `settings`, and how they came about."""
    return {
        "settings": {outcome.setting: outcome.as_json() for outcome in outcomes},
        "nodes": list(outcomes[0].nodes) if outcomes else [],
        "applied_late_seconds": {outcome.setting: round(outcome.applied_late_seconds, 3) for outcome in outcomes},
        "failures": list(wrong),
        "parameters": asdict(parameters),
        "versions": {
            "sandberth": __version__,
            "kubernetes": kubernetes_version(),
            "python": platform.python_version(),
        },
    }


def save_results(content: dict[str, Any], path: Path) -> None:
    """Write the file."""
    path.write_text(json.dumps(content, indent=2) + "\n")
