"""What is true: the API server's Pods, the machines that run them, and what is on its way between them.

Nothing here knows the ledger. The operator learns of it by answers, by the Pod stream and by reports alone.
"""

from dataclasses import dataclass, field

from sandberth.core.errors import SandberthError
from sandberth.core.report import Report
from sandberth.core.resources import ZERO, Requests, Resources
from sandberth.kube.errors import ApiError
from sandberth.kube.pods import PodFacts

SIZES = (Resources(1, 70), Resources(10, 900), Resources(200, 3), Resources(3_000, 11_000))
REQUESTS = {size: Requests(size.cpu_millicores, size.memory_bytes) for size in SIZES}
NAMESPACE = "default"


@dataclass(slots=True, eq=False)
class Pod:
    """One Pod object; `expected`: the operator of now asked for it, so it must count before anything shows it.

    One that is not `bound` is for kube-scheduler to bind: to `node_name` or, if it likes, elsewhere. `aimed_at` stays
    the node that it was made for.
    """

    uid: str
    name: str
    owner_uid: str | None
    attempt_id: str | None
    node_name: str
    size: Resources
    version: int
    expected: bool
    phase: str = "Pending"
    deleting: bool = False
    bound: bool = True
    aimed_at: str = ""

    @property
    def terminal(self) -> bool:
        return self.phase == "Failed"

    def facts(self) -> PodFacts:
        """Return this version of the Pod as the operator's cache keeps it."""
        return PodFacts(
            self.uid,
            self.name,
            NAMESPACE,
            self.version,
            self.node_name,
            "",
            self.attempt_id,
            self.owner_uid,
            self.size,
            None,
            REQUESTS[self.size],
            self.phase,
            self.deleting,
            *_THE_REST,
            bound=self.bound,
        )


_THE_REST = ("", "", False, "", "", None, None, 0, "", "", False, None, "", "", None)


@dataclass(slots=True, eq=False)
class Request:
    """One request of the operator on its way to the server, or its answer on the way back.

    `ghost`: nobody waits for it any more, and the operator cannot know that it may still be carried out.
    """

    kind: str  # create, get or delete
    name: str
    pod: Pod | None = None  # what a create asks for
    pod_uid: str = ""  # what a delete is for
    attempt_id: str = ""
    executed: bool = False
    ghost: bool = False
    answer: PodFacts | SandberthError | None = None


@dataclass(slots=True, eq=False)
class Machine:
    """One true node: `running` is what its kubelet runs, by Pod UID, whatever the objects say."""

    name: str
    uid: str
    history: int
    present: bool = True  # its Node object exists
    epoch: int = 1
    sequence: int = 0
    running: dict[str, tuple[str | None, Resources]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Letter:
    """A report on its way; `order` is the true order of one machine's snapshots."""

    machine: str
    order: tuple[int, int, int]
    report: Report


class World:
    """The API server, the machines and the network."""

    def __init__(self, machine_count: int, *, kubelet_reports: bool) -> None:
        self.version = 0
        self.counter = 0
        self.pods: dict[str, Pod] = {}  # by name: a name is held once
        self.by_uid: dict[str, Pod] = {}
        self.log: list[tuple[PodFacts, bool]] = []  # every change in order; True for a deletion
        self.kubelet_reports = kubelet_reports
        self.mail: list[Letter] = []
        self.node_news: list[tuple[str, str | None]] = []  # (name, UID or None if gone), in order
        self.machines: dict[str, Machine] = {}
        for index in range(machine_count):
            name = f"node-{index}"
            self.machines[name] = Machine(name, f"{name}.{self.next()}", self.next())

    def next(self) -> int:
        """Return a number that was not used before."""
        self.counter += 1
        return self.counter

    # --- the API server ---

    def execute(self, request: Request) -> None:
        """Carry a request out now; its answer is on the way from here."""
        request.executed = True
        if request.kind == "create":
            request.answer = self._create(request)
        elif request.kind == "get":
            pod = self.pods.get(request.name)
            request.answer = None if pod is None else pod.facts()
        else:
            pod = self.by_uid.get(request.pod_uid)
            if pod is not None and not pod.deleting:
                self.delete(pod)

    def _create(self, request: Request) -> PodFacts | SandberthError:
        if request.name in self.pods:
            return ApiError(409, "AlreadyExists", "the name is taken")
        asked = request.pod
        assert asked is not None
        return self.add(
            asked.name,
            asked.owner_uid,
            asked.attempt_id,
            asked.node_name,
            asked.size,
            expected=not request.ghost,
            bound=asked.bound,
        ).facts()

    def add(
        self,
        name: str,
        owner_uid: str | None,
        attempt_id: str | None,
        node_name: str,
        size: Resources,
        *,
        expected: bool,
        bound: bool = True,
    ) -> Pod:
        """Make a Pod object under a free name."""
        self.version += 1
        pod = Pod(f"pod-{self.next()}", name, owner_uid, attempt_id, node_name, size, self.version, expected)
        pod.bound, pod.aimed_at = bound, node_name
        self.pods[name] = self.by_uid[pod.uid] = pod
        self.log.append((pod.facts(), False))
        return pod

    def changed(self, pod: Pod) -> None:
        """Give a changed Pod its new version and tell the stream."""
        self.version += 1
        pod.version = self.version
        self.log.append((pod.facts(), False))

    def bind(self, pod: Pod, node_name: str) -> None:
        """Let kube-scheduler, or somebody in its place, bind a Pod."""
        pod.bound, pod.node_name = True, node_name
        self.changed(pod)

    def unbound(self) -> list[Pod]:
        """Return the Pods that wait to be bound."""
        return [pod for pod in self.pods.values() if not pod.bound and not pod.terminal and not pod.deleting]

    def delete(self, pod: Pod) -> None:
        """Mark a Pod as deleting; one that has ended, or that no kubelet ran, goes at once."""
        machine = self.machines.get(pod.node_name)
        if pod.terminal or machine is None or pod.uid not in machine.running:
            self.remove(pod)
        else:
            pod.deleting = True
            self.changed(pod)

    def remove(self, pod: Pod) -> None:
        """Take the object away, whatever its kubelet does."""
        self.version += 1
        pod.version = self.version
        del self.pods[pod.name], self.by_uid[pod.uid]
        self.log.append((pod.facts(), True))

    # --- the machines ---

    def sync(self, machine: Machine) -> None:
        """Let a kubelet do what the objects ask of it: start, resize, and stop what is deleting."""
        if not machine.present:
            return
        for pod in list(self.pods.values()):
            if pod.node_name != machine.name or pod.terminal or not pod.bound:
                continue
            if pod.deleting:
                machine.running.pop(pod.uid, None)
                self.remove(pod)
                continue
            machine.running[pod.uid] = (pod.attempt_id, pod.size)
            if pod.phase == "Pending":
                pod.phase = "Running"
                self.changed(pod)

    def zombies(self, machine: Machine) -> list[str]:
        """Return the UIDs of what runs without an object."""
        return [uid for uid in machine.running if uid not in self.by_uid]

    def can_be_told(self, attempt_id: str | None) -> bool:
        """Return whether what runs under this ID is the only one: an ID counts once, and no ID is somebody else's."""
        running = [ours for machine in self.machines.values() for ours, _ in machine.running.values()]
        return attempt_id is not None and running.count(attempt_id) == 1

    def snapshot(self, machine: Machine, *, complete: bool = True) -> Letter:
        """Take a report's content now; it may arrive much later, or never."""
        if self.kubelet_reports:
            entries = list(machine.running.values())
        else:
            entries = [
                (pod.attempt_id, pod.size)
                for pod in self.pods.values()
                if pod.node_name == machine.name and pod.bound and not pod.terminal
            ]
        machine.sequence += 1
        allocated = total([size for _, size in entries])
        sandboxes = {attempt_id: size for attempt_id, size in entries if attempt_id is not None}
        if not complete:
            sandboxes = dict(list(sandboxes.items())[: len(sandboxes) // 2])
        report = Report(
            history=f"capacity-{machine.history}",
            epoch=machine.epoch,
            sequence=machine.sequence,
            node_uid=machine.uid,
            complete=complete,
            allocated=allocated,
            sandboxes=sandboxes,
        )
        return Letter(machine.name, (machine.history, machine.epoch, machine.sequence), report)

    def restart_reporter(self, machine: Machine) -> None:
        machine.epoch += 1
        machine.sequence = 0

    def new_history(self, machine: Machine) -> None:
        """The NodeCapacity is made anew: another UID, and numbers that begin again."""
        machine.history, machine.epoch, machine.sequence = self.next(), 1, 0

    def node_goes(self, machine: Machine) -> None:
        machine.present = False
        self.node_news.append((machine.name, None))

    def node_returns(self, machine: Machine, *, wiped: bool) -> None:
        """A Node of the old name registers with another UID: the same machine, or a new one (`wiped`)."""
        machine.present, machine.uid = True, f"{machine.name}.{self.next()}"
        self.new_history(machine)
        if wiped:
            machine.running.clear()
        self.node_news.append((machine.name, machine.uid))


def total(sizes: list[Resources]) -> Resources:
    """Return the sum."""
    if not sizes:
        return ZERO
    return Resources(sum(size.cpu_millicores for size in sizes), sum(size.memory_bytes for size in sizes))
