"""What one node holds, and the sums over it.

The sums are kept as the holdings come and go, so that reading one costs the same on any node. Every change ends with a
new block of figures for the next decision. Only `sandberth.core.ledger` changes an account.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from sandberth.core.figures import Figures, pack, unpack
from sandberth.core.node import Allocatable
from sandberth.core.report import Freshness, Report
from sandberth.core.resources import ZERO, Requests, Resources
from sandberth.core.views import View, view_sum

MAX_TOMBSTONES = 4096
NOTHING_ALLOCATABLE = Allocatable()
WILDCARD_ADDRESS = "0.0.0.0"  # noqa: S104 - a host port's address in a Pod, not one to listen on


@dataclass(slots=True, eq=False)
class Holding:
    """Room held on one node by one attempt of ours, or by one Pod of somebody else (`attempt_id` None).

    `reservation`: node name and sizes as they were reserved, while the create is open; `beside` keeps that room where a
    Pod of the attempt showed up on another node, and `ended_pod_uid` is the one that was seen to end meanwhile; with
    `ended_elsewhere`, on another node than this one.
    `answered`: the create's outcome is known, or the Pod was found by a list.
    `created_version`: the resourceVersion that the create's answer carried, while the Pod cache has not shown the Pod.
    """

    key: str
    attempt_id: str | None
    node_name: str
    nominal: Resources
    requests: Requests
    starting: bool
    answered: bool = True
    pod_uid: str | None = None
    reservation: tuple[str, Resources, Requests] | None = None
    ended_pod_uid: str | None = None
    ended_elsewhere: bool = False
    beside: "Holding | None" = None
    pod_seen: bool = False
    created_version: int = 0
    optimistically_removed: bool = False

    @property
    def counts_optimistically(self) -> bool:
        """Whether the optimistic sum moves with this holding: it was added at its create, and not removed since."""
        return self.attempt_id is not None and self.answered and not self.optimistically_removed


@dataclass(slots=True)
class Tombstone:
    """An attempt that ended, with the Pod that did: what reports said of it since."""

    pod_uid: str | None
    listed: int = 0
    absent: int = 0


@dataclass(slots=True, eq=False)
class Account:
    """One node's holdings with their running sums; keyed by the Node's UID."""

    node_uid: str
    node_name: str
    allocatable: Allocatable = NOTHING_ALLOCATABLE
    holdings: dict[str, Holding] = field(default_factory=dict)
    reported_only: dict[str, Resources] = field(default_factory=dict)
    listed: Mapping[str, Resources] = field(default_factory=dict)  # by the last complete report
    tombstones: OrderedDict[str, Tombstone] = field(default_factory=OrderedDict)
    report: Report | None = None
    report_seen_at_s: float = 0.0
    reported_used_cpu: int | None = None
    usage_counts_until_s: float = -inf
    report_counts_until_s: float = -inf
    accounted_at_report_cpu: int = 0  # what the last report's usage is the usage of, as the reconciled sum counts it
    retired_histories: set[str] = field(default_factory=set)
    sandboxes: int = 0
    starting: int = 0
    in_progress: int = 0
    changes: int = 0  # grows whenever a holding leaves or changes: what a refused node is watched for
    held_cpu: int = 0
    held_memory: int = 0
    reported_only_cpu: int = 0
    reported_only_memory: int = 0
    in_progress_cpu: int = 0
    in_progress_memory: int = 0
    delta_cpu: int = 0  # the optimistic adds - removes since the last report; may be negative
    delta_memory: int = 0
    requested_cpu: int = 0
    requested_memory: int = 0
    requested_ephemeral_storage: int = 0
    requested_extended: Counter[str] = field(default_factory=Counter)
    host_ports: dict[tuple[str, int], Counter[str]] = field(default_factory=dict)
    block: bytes = pack(*Figures())

    # --- reading ---

    def packed(self) -> bytes:
        """Return what the block must be, in the order of the fields of `Figures`."""
        allocatable, report = self.allocatable, self.report
        return pack(
            allocatable.cpu_millicores,
            allocatable.memory_bytes,
            allocatable.pods,
            len(self.holdings),
            self.held_cpu,
            self.held_memory,
            self.requested_cpu,
            self.requested_memory,
            self.held_cpu + self.reported_only_cpu,
            0 if report is None else report.allocated.cpu_millicores,
            self.in_progress_cpu,
            self.delta_cpu,
            -1 if self.reported_used_cpu is None else self.reported_used_cpu,
            self.accounted_at_report_cpu,
            self.in_progress,
            self.report_seen_at_s,
            self.usage_counts_until_s,
            self.report_counts_until_s,
        )

    @property
    def figures(self) -> Figures:
        """What a decision reads, unpacked."""
        return unpack(self.block)

    def freshness(self, now_s: float) -> Freshness:
        """Return how far the last report can be trusted at `now_s` of our own monotonic clock."""
        if self.report is None:
            return Freshness.NO_REPORT
        if now_s > self.report_counts_until_s:
            return Freshness.STALE
        return Freshness.USAGE_EXPIRED if now_s > self.usage_counts_until_s else Freshness.FRESH

    def report_age_seconds(self, now_s: float) -> float | None:
        """Return the seconds since the last accepted report was first seen, or None without one."""
        return None if self.report is None else now_s - self.report_seen_at_s

    def accounted(self, view: View, now_s: float) -> Resources:
        """Return what the node holds in this view, exactly; never below 0."""
        report = self.report
        trusted = report is not None and now_s <= self.report_counts_until_s
        reported = ZERO if report is None else report.allocated
        return Resources(
            view_sum(
                view,
                trusted=trusted,
                reconciled=self.held_cpu + self.reported_only_cpu,
                reported=reported.cpu_millicores,
                in_progress=self.in_progress_cpu,
                delta=self.delta_cpu,
            ),
            view_sum(
                view,
                trusted=trusted,
                reconciled=self.held_memory + self.reported_only_memory,
                reported=reported.memory_bytes,
                in_progress=self.in_progress_memory,
                delta=self.delta_memory,
            ),
        )

    @property
    def held(self) -> Resources:
        """Every holding once, by Pod or reservation: what the fit check counts, no report involved."""
        return Resources(self.held_cpu, self.held_memory)

    @property
    def reconciled(self) -> Resources:
        """Every holding once, and what only the last complete report knows of."""
        return Resources(self.held_cpu + self.reported_only_cpu, self.held_memory + self.reported_only_memory)

    @property
    def zombies(self) -> int:
        """Return how many sandboxes the node still reports long after their Pods were seen to end."""
        return sum(1 for attempt_id in self.reported_only if attempt_id in self.tombstones)

    def unconfirmed(self) -> int:
        """Return how many created attempts the last report does not list."""
        listed = self.report.sandboxes if self.report is not None else {}
        return sum(
            1
            for holding in self.holdings.values()
            if holding.attempt_id is not None and holding.answered and holding.attempt_id not in listed
        )

    def host_port_taken(self, address: str, protocol: str, port: int) -> bool:
        """Return whether a Pod on the node already binds this port on this or on every address."""
        taken = self.host_ports.get((protocol, port))
        if not taken:
            return False
        return address == WILDCARD_ADDRESS or WILDCARD_ADDRESS in taken or address in taken

    # --- changing (by the ledger alone) ---

    def add(self, holding: Holding) -> None:
        """Take a holding in; its key must be new."""
        self.holdings[holding.key] = holding
        self._count(holding, 1)
        self._pack()

    def remove(self, holding: Holding) -> None:
        """Give a holding's room back exactly."""
        del self.holdings[holding.key]
        self._count(holding, -1)
        self.changes += 1
        self._pack()

    def resize(self, holding: Holding, nominal: Resources, requests: Requests) -> None:
        """Replace the sizes of a holding of this account."""
        if nominal == holding.nominal and requests == holding.requests:
            return
        if holding.counts_optimistically:
            self._shift_delta(nominal - holding.nominal, 1)
        self._count(holding, -1)
        holding.nominal, holding.requests = nominal, requests
        self._count(holding, 1)
        self.changes += 1
        self._pack()

    def set_starting(self, holding: Holding, *, starting: bool) -> None:
        """Say whether the holding still counts towards the cap on starting sandboxes."""
        if holding.attempt_id is not None and holding.starting != starting:
            self.starting += 1 if starting else -1
        holding.starting = starting

    def take_report(self, report: Report, now_s: float) -> None:
        """Replace the last report; the optimistic sum starts again from it."""
        self.report = report
        self.report_seen_at_s = now_s
        self.reported_used_cpu = None if report.used is None else report.used.cpu_millicores
        self.usage_counts_until_s = now_s + report.usage_expires_after_seconds
        self.report_counts_until_s = now_s + report.expires_after_seconds
        self.delta_cpu = self.delta_memory = 0
        self._pack()

    def set_accounted_at_report(self, cpu_millicores: int) -> None:
        """Say what the last report's usage is the usage of."""
        self.accounted_at_report_cpu = cpu_millicores
        self._pack()

    def set_allocatable(self, allocatable: Allocatable) -> None:
        """Say what the kubelet gives to Pods by now."""
        self.allocatable = allocatable
        self._pack()

    def settle(self, holding: Holding) -> None:
        """The create of a holding succeeded: no longer in progress, and added optimistically unless deleted already."""
        self._count_in_progress(holding, -1)
        if holding.counts_optimistically:
            self._shift_delta(holding.nominal, 1)
        self._pack()

    def set_reported_only(self, sandboxes: dict[str, Resources]) -> None:
        """Replace what only the last complete report knows of."""
        self.reported_only = sandboxes
        self.reported_only_cpu = sum(size.cpu_millicores for size in sandboxes.values())
        self.reported_only_memory = sum(size.memory_bytes for size in sandboxes.values())
        self._pack()

    def shift_delta(self, size: Resources, sign: int) -> None:
        """Add (+1) or remove (-1) a size optimistically until the next report."""
        self._shift_delta(size, sign)
        self._pack()

    def bury(self, attempt_id: str, pod_uid: str | None) -> None:
        """Remember that an attempt ended, so that an older report cannot bring it back; the oldest go first."""
        if (tombstone := self.tombstones.get(attempt_id)) is not None:
            tombstone.pod_uid = pod_uid
            return
        self._drop_reported_only(attempt_id)
        self.tombstones[attempt_id] = Tombstone(pod_uid)
        if len(self.tombstones) > MAX_TOMBSTONES:
            self.tombstones.popitem(last=False)

    def disinter(self, attempt_id: str) -> None:
        """A Pod or a reservation speaks for the attempt from here: forget what a report or a tombstone said."""
        self._drop_reported_only(attempt_id)
        self.tombstones.pop(attempt_id, None)

    def _shift_delta(self, size: Resources, sign: int) -> None:
        self.delta_cpu += sign * size.cpu_millicores
        self.delta_memory += sign * size.memory_bytes

    def _drop_reported_only(self, attempt_id: str) -> None:
        size = self.reported_only.pop(attempt_id, None)
        if size is not None:
            self.reported_only_cpu -= size.cpu_millicores
            self.reported_only_memory -= size.memory_bytes
            self._pack()

    def _count(self, holding: Holding, sign: int) -> None:
        self.held_cpu += sign * holding.nominal.cpu_millicores
        self.held_memory += sign * holding.nominal.memory_bytes
        requests = holding.requests
        self.requested_cpu += sign * requests.cpu_millicores
        self.requested_memory += sign * requests.memory_bytes
        self.requested_ephemeral_storage += sign * requests.ephemeral_storage_bytes
        for name, amount in requests.extended:
            self.requested_extended[name] += sign * amount
        for address, protocol, port in requests.host_ports:
            taken = self.host_ports.setdefault((protocol, port), Counter())
            taken[address] += sign
            if taken[address] == 0:
                del taken[address]
            if not taken:
                del self.host_ports[protocol, port]
        if holding.attempt_id is not None:
            self.sandboxes += sign
            self.starting += sign if holding.starting else 0
            if not holding.answered:
                self._count_in_progress(holding, sign)

    def _count_in_progress(self, holding: Holding, sign: int) -> None:
        self.in_progress += sign
        self.in_progress_cpu += sign * holding.nominal.cpu_millicores
        self.in_progress_memory += sign * holding.nominal.memory_bytes

    def _pack(self) -> None:
        """Make the block anew: every change ends here."""
        self.block = self.packed()
