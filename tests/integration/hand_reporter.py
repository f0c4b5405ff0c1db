"""Reports written by hand, as the administrator."""

from typing import Any

from sandberth.kube import names
from tests.integration.bed import Objects, OperatorProgram, wait_for
from tests.integration.berths import Berths


class HandReporter:
    """Writes reports by hand, and waits until the operator has made up its mind about each."""

    def __init__(self, berths: Berths, objects: Objects, operator: OperatorProgram) -> None:
        self._berths = berths
        self._objects = objects
        self._operator = operator

    def judged(self, outcome: str) -> float:
        prefix = f'sandberth_reports_total{{outcome="{outcome}"}} '
        lines = self._operator.metrics().splitlines()
        return next((float(line.removeprefix(prefix)) for line in lines if line.startswith(prefix)), 0)

    def report(self, node: str, epoch: int, sequence: int, cpu: str, outcome: str = "taken", **fields: Any) -> None:
        """Report `cpu` as allocated; return once the operator has judged the report so."""
        before = self.judged(outcome)
        report = {
            "epoch": epoch,
            "sequence": sequence,
            "intervalSeconds": 20,
            "reportedAt": "2026-01-01T00:00:00Z",
            "nodeUID": self._berths.node(node)["metadata"]["uid"],
            "allocated": {"cpu": cpu, "memory": "1Gi"},
            **fields,
        }
        self._objects.patch(names.NODECAPACITY_KIND, node, {"status": {"report": report}}, status=True)
        wait_for(lambda: self.judged(outcome) > before, what=f"report {epoch}.{sequence} is {outcome}")
