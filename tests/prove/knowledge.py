"""What an operator can know at a moment, kept in plain dictionaries without any of the ledger's code.

A Pod counts for the operator from the first answer, event or list that shows it until one shows its end. Of a report
it keeps the list of the last complete one, and for each attempt that it saw end what reports have said since.
"""

from collections.abc import Mapping

from sandberth.core.report import Report
from sandberth.core.resources import Resources
from sandberth.kube.pods import PodFacts

ZOMBIE_AT = 3  # the report that lists an ended attempt for the third time makes it a zombie
FORGOTTEN_AT = 2  # absences in a row after which the end of an attempt need not be remembered


class Knowledge:
    """The model of one operator's life, from its start to its end."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}  # name -> UID
        self.pods: dict[str, PodFacts] = {}  # what still exists for all we know; terminal ones included
        self.names: dict[str, str] = {}  # Pod name -> UID of its holder
        self.gone: set[str] = set()
        self.passed = 0  # the version that the stream has passed
        self.ends: dict[str, dict[str, list[int]]] = {}  # Node UID -> attempt -> [listed, absent] since its end
        self.buried: set[tuple[str, str]] = (
            set()
        )  # (attempt, node) of which a Pod was seen to end, and is known to have
        self.lists: dict[str, dict[str, Resources]] = {}  # Node UID -> the last complete list
        self.overruled: set[tuple[str, str]] = set()  # (Node UID, attempt): listed here, and held on another node since
        self.newest: dict[str, tuple[tuple[int, int, int], Report]] = {}  # Node UID -> the newest report taken
        self.histories: set[str] = set()  # that a report was taken from

    # --- nodes ---

    def node_is(self, name: str, uid: str | None) -> None:
        """The operator hears that a Node exists now, or is gone."""
        old = self.nodes.get(name)
        if old == uid:
            return
        if old is not None:
            for of_node in (self.ends, self.lists, self.newest):
                of_node.pop(old, None)
        if uid is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = uid
            self.ends[uid] = {}

    # --- Pods ---

    def alive(self, uid: str) -> PodFacts | None:
        """Return the Pod if it holds room for all the operator knows."""
        pod = self.pods.get(uid)
        return None if pod is None or pod.terminal else pod

    def shown(self, pod: PodFacts) -> None:
        """A state of a Pod came by event, list or answer."""
        if pod.uid in self.gone:
            return
        old = self.pods.get(pod.uid)
        if old is not None and old.resource_version >= pod.resource_version:
            return
        holder = self.names.get(pod.name)
        if holder is not None and holder != pod.uid:
            if self.pods[holder].resource_version > pod.resource_version:
                self.gone.add(pod.uid)  # the name has a younger holder: it was gone before we heard of it
                return
            self.ended(holder)
        self.names[pod.name] = pod.uid
        self.pods[pod.uid] = pod
        if pod.terminal:
            if old is None or not old.terminal:
                self._bury(pod)
        elif pod.attempt_id is not None and (old is None or old.node_name != pod.node_name):
            self.speaks_for(pod.attempt_id, pod.node_name)

    def answered_with(self, pod: PodFacts) -> None:
        """The server answered a create (or a look by name) with a Pod: unless the stream is past it, it is there."""
        if pod.uid not in self.pods and pod.resource_version <= self.passed:
            self.gone.add(pod.uid)
            self._bury(pod)
        else:
            self.shown(pod)

    def ended(self, uid: str) -> None:
        """A Pod's object is gone."""
        pod = self.pods.pop(uid, None)
        self.gone.add(uid)
        if pod is None:
            return
        if self.names.get(pod.name) == uid:
            del self.names[pod.name]
        self._bury(pod)

    def reserved(self, attempt_id: str, node_name: str) -> None:
        """A create is open from here."""
        if attempt_id not in self.ends[self.nodes[node_name]]:
            self.buried.discard((attempt_id, node_name))
        self.speaks_for(attempt_id, node_name)

    def speaks_for(self, attempt_id: str, node_name: str) -> None:
        """A reservation or a Pod stands for the attempt on this node from here."""
        uid = self.nodes.get(node_name)
        if uid is not None:
            self.ends[uid].pop(attempt_id, None)
        self.overruled.update((other, attempt_id) for other in self.lists if other != uid)

    def settled(self, attempt_id: str, node_name: str) -> None:
        """The create of an attempt is answered: what reports say of a Pod that ended before counts from here."""
        uid = self.nodes.get(node_name)
        if uid is None or (attempt_id, node_name) not in self.buried:
            return
        if not any(pod.attempt_id == attempt_id and not pod.terminal for pod in self.pods.values()):
            self.ends[uid][attempt_id] = [0, 0]

    def _bury(self, pod: PodFacts) -> None:
        if pod.attempt_id is None:
            return
        self.buried.add((pod.attempt_id, pod.node_name))
        if any(self.alive(uid) for uid in self._others(pod)):
            return
        uid = self.nodes.get(pod.node_name)
        if uid is not None:
            self.ends[uid].setdefault(pod.attempt_id, [0, 0])

    def _others(self, pod: PodFacts) -> list[str]:
        return [uid for uid, other in self.pods.items() if other.attempt_id == pod.attempt_id and uid != pod.uid]

    # --- reports ---

    def is_news(self, order: tuple[int, int, int], report: Report) -> bool:
        """Return whether a report is of a known Node and newer than all that were taken of it."""
        if self.nodes.get(report.node_uid.rpartition(".")[0]) != report.node_uid:
            return False
        newest = self.newest.get(report.node_uid)
        return newest is None or order > newest[0]

    def reported(self, order: tuple[int, int, int], report: Report, held: Mapping[str, str]) -> None:
        """A report was taken in; `held` says on which node an attempt holds room just now."""
        self.newest[report.node_uid] = (order, report)
        self.histories.add(report.history)
        if not report.complete:
            return
        self.lists[report.node_uid] = dict(report.sandboxes)
        name = report.node_uid.rpartition(".")[0]
        for attempt_id in report.sandboxes:
            self.overruled.discard((report.node_uid, attempt_id))
            if held.get(attempt_id, name) != name:
                self.overruled.add((report.node_uid, attempt_id))
        ends = self.ends[report.node_uid]
        for attempt_id, counts in list(ends.items()):
            if attempt_id in report.sandboxes:
                counts[0] += 1
                counts[1] = 0
            else:
                counts[1] += 1
                if counts[1] >= FORGOTTEN_AT:
                    del ends[attempt_id]

    def counts_by_report(self, node_uid: str, attempt_id: str) -> bool:
        """Return whether the last complete list makes an attempt count that nothing else speaks for."""
        if attempt_id not in self.lists.get(node_uid, ()):
            return False
        end = self.ends[node_uid].get(attempt_id)
        return end is None or end[0] >= ZOMBIE_AT
