"""The nodes as placement sees them: facts, settings and account, in two pools that can be sampled in O(K).

`fresh` holds the schedulable nodes whose report can be trusted, `second_choice` those without one. What can never
be chosen just now (not ready, cordoned, disabled, no CPU) is in neither and only counted. A report that grows old
is noticed when its node is drawn, so nothing runs by the clock.
"""

from collections import Counter
from dataclasses import dataclass

from sandberth.core.account import Account
from sandberth.core.constraints import Rejection
from sandberth.core.ledger import Ledger
from sandberth.core.node import NodeFacts, NodeSettings
from sandberth.core.report import Report
from sandberth.core.sampling import Pool

_NO_SETTINGS = NodeSettings()


@dataclass(slots=True, eq=False)
class Node:
    """One node with all that a decision needs; `changes` grows whenever a refused Sandbox may try it again."""

    facts: NodeFacts
    account: Account
    settings: NodeSettings = _NO_SETTINGS
    fact_changes: int = 0
    pool: Pool | None = None
    position: int = 0
    barred: Rejection | None = None
    tainted: bool = False

    @property
    def changes(self) -> int:
        """A number that grows with every change of its Pods, labels, taints or allocatable resources."""
        return self.fact_changes + self.account.changes

    def overcommit_percent(self, default: int) -> int:
        """Return R for this node in percent."""
        return self.settings.overcommit_percent or default


class Fleet:
    """All nodes, kept in step with the ledger's accounts."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.nodes: dict[str, Node] = {}  # Node UID -> node
        self.fresh = Pool()
        self.second_choice = Pool()
        self.barred: Counter[Rejection] = Counter()
        self._by_name: dict[str, Node] = {}

    def by_name(self, name: str) -> Node | None:
        """Return the current node of this name, or None."""
        return self._by_name.get(name)

    def observe_node(self, facts: NodeFacts) -> bool:
        """Take in a Node as it is now; True if a Sandbox may fare differently on it than before."""
        node = self.nodes.get(facts.uid)
        if node is None:
            if (previous := self._by_name.get(facts.name)) is not None:
                self.forget_node(previous.facts.uid)
            node = Node(facts, self.ledger.node_appeared(facts.uid, facts.name))
            self.nodes[facts.uid] = self._by_name[facts.name] = node
        elif node.facts == facts:
            return False
        else:
            node.facts = facts
            node.fact_changes += 1
        node.account.set_allocatable(facts.allocatable)
        node.tainted = bool(facts.taints)
        self._place_in_pool(node)
        return True

    def forget_node(self, uid: str) -> None:
        """Drop a Node that is gone; its Pods stay in the ledger until they go."""
        node = self.nodes.pop(uid, None)
        if node is None:
            return
        if self._by_name.get(node.facts.name) is node:
            del self._by_name[node.facts.name]
        self._leave(node)
        self.ledger.node_vanished(uid)

    def set_settings(self, uid: str, settings: NodeSettings) -> bool:
        """Apply what the administrator set for a node; True if it differs from before."""
        node = self.nodes.get(uid)
        if node is None or node.settings == settings:
            return False
        node.settings = settings
        node.fact_changes += 1
        self._place_in_pool(node)
        return True

    def accept_report(self, report: Report, now_s: float) -> bool:
        """Take a report in; False where it is not newer than what is known, or not of this Node."""
        if not self.ledger.accept_report(report, now_s):
            return False
        self._place_in_pool(self.nodes[report.node_uid])
        return True

    def demote(self, node: Node) -> None:
        """Move a node whose report grew old to the second choice."""
        self._leave(node)
        self.second_choice.add(node)

    def _place_in_pool(self, node: Node) -> None:
        self._leave(node)
        node.barred = _barred(node)
        if node.barred is not None:
            self.barred[node.barred] += 1
        elif node.account.report is not None:
            self.fresh.add(node)
        else:
            self.second_choice.add(node)

    def _leave(self, node: Node) -> None:
        if node.pool is not None:
            node.pool.remove(node)
        if node.barred is not None:
            self.barred[node.barred] -= 1
            node.barred = None


def _barred(node: Node) -> Rejection | None:
    if not node.facts.ready:
        return Rejection.NODE_NOT_READY
    if node.facts.cordoned:
        return Rejection.CORDONED
    if node.settings.unschedulable:
        return Rejection.DISABLED
    if node.facts.allocatable.cpu_millicores <= 0:
        return Rejection.NO_ALLOCATABLE_CPU
    return None
