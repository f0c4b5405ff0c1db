"""The operator's side of a simulation: one replica with the production fleet and ledger, and what it gets to know."""

from random import Random

from sandberth.core.account import Account
from sandberth.core.fit import Ask
from sandberth.core.fleet import Fleet
from sandberth.core.ledger import Ledger
from sandberth.core.placement import Parameters, place
from sandberth.core.report import Report
from sandberth.core.views import View
from sandberth.sim.node import Attempt, TrueNode


class Replica:
    """One operator. It knows nodes by index only to be compared with the truth; every decision is the core's."""

    def __init__(self, parameters: Parameters, rng: Random) -> None:
        self.ledger = Ledger()
        self.fleet = Fleet(self.ledger)
        self.view: View = parameters.view
        self._parameters = parameters
        self._rng = rng
        self._accounts: dict[int, Account] = {}  # index of the node -> account
        self._indices: dict[str, int] = {}  # UID of the node -> index

    def node_appeared(self, node: TrueNode) -> None:
        """See a Node and what other Pods run there."""
        self.fleet.observe_node(node.facts)
        self._accounts[node.index] = self.ledger.account(node.uid)
        self._indices[node.uid] = node.index
        if node.foreign_pod is not None:
            self.ledger.pod_observed(node.foreign_pod)

    def node_vanished(self, node: TrueNode) -> None:
        """See that a Node is gone, and the Pod of somebody else with it."""
        if node.foreign_pod is not None:
            self.ledger.pod_ended(node.foreign_pod.pod_uid, None, node.name)
        self.fleet.forget_node(node.uid)
        del self._accounts[node.index]
        del self._indices[node.uid]

    def choose(self, attempt_id: str, ask: Ask, excluded: frozenset[str], now_s: float) -> int | None:
        """Place one attempt and return the index of its node, or None where there is no room."""
        decision = place(
            self.fleet, attempt_id, ask, excluded=excluded, parameters=self._parameters, rng=self._rng, now_s=now_s
        )
        return None if decision.chosen is None else self._indices[decision.chosen.node.facts.uid]

    def report_arrived(self, report: Report, now_s: float) -> None:
        """Read a report, as it comes."""
        self.fleet.accept_report(report, now_s)

    def pod_seen(self, attempt: Attempt) -> None:
        """The watch shows the Pod as it is by now."""
        self.ledger.pod_observed(attempt.pod)

    def pod_ended(self, attempt: Attempt) -> None:
        """The watch, or a read, shows that the Pod is gone or terminal."""
        self.ledger.pod_ended(attempt.pod.pod_uid, attempt.attempt_id, attempt.pod.node_name)

    def accounted_cpu(self, node: TrueNode, now_s: float) -> int | None:
        """Return what this replica counts on the node in its view, in millicores; None while it knows no such Node."""
        account = self._accounts.get(node.index)
        return None if account is None else account.accounted(self.view, now_s).cpu_millicores
