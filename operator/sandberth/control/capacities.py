"""NodeCapacities: one for each Node, owned by it; and the operator's view of the node, written when it changed."""

import logging
from datetime import datetime
from typing import Any

from sandberth.control.queue import WorkQueue
from sandberth.control.state import State
from sandberth.core.account import Account
from sandberth.core.constraints import Rejection
from sandberth.core.errors import SandberthError
from sandberth.core.fleet import Node
from sandberth.core.quantity import cpu_millicores, format_bytes, format_cpu, whole_bytes
from sandberth.core.report import Freshness, Report
from sandberth.core.resources import Resources
from sandberth.kube import names
from sandberth.kube.errors import ApiError
from sandberth.kube.names import FreshReason, NodeCapacityCondition, SchedulableReason
from sandberth.kube.nodecapacity import Amounts, NodeCapacity, NodeCapacityView
from sandberth.kube.nodecapacity import Report as ReportModel
from sandberth.kube.objects import Condition
from sandberth.kube.paths import capacity_path, node_path
from sandberth.kube.reportlines import parse_line

LOG = logging.getLogger(__name__)
VIEW_INTERVAL_SECONDS = 10.0
_SCHEDULABLE = {
    Rejection.NODE_NOT_READY: SchedulableReason.NODE_NOT_READY,
    Rejection.CORDONED: SchedulableReason.CORDONED,
    Rejection.DISABLED: SchedulableReason.DISABLED,
    Rejection.NO_ALLOCATABLE_CPU: SchedulableReason.FULL,
}


def report_of(history: str, report: ReportModel) -> Report:
    """Return a report in the core's terms. Raises ValueError for a line or a quantity that cannot be read."""
    sandboxes = {}
    for line in report.sandboxes:
        entry = parse_line(line)
        sandboxes[entry.attempt_id] = Resources(entry.cpu_millicores, entry.memory_bytes)
    return Report(
        history=history,
        epoch=report.epoch,
        sequence=report.sequence,
        node_uid=report.node_uid,
        interval_seconds=report.interval_seconds,
        complete=report.complete,
        allocated=_resources(report.allocated),
        used=None if report.used is None else _resources(report.used),
        sandboxes=sandboxes,
    )


def _resources(amounts: Amounts) -> Resources:
    cpu, memory = cpu_millicores(amounts.cpu), whole_bytes(amounts.memory)
    if cpu < 0 or memory < 0:
        raise ValueError(f"an amount below zero: {amounts.cpu}, {amounts.memory}")
    return Resources(cpu, memory)


class Capacities:
    """Keeps the NodeCapacity objects in step with the Nodes; `queue` takes names of Nodes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.queue: WorkQueue[str] = WorkQueue(self.ensure)

    async def ensure(self, name: str) -> None:
        """Make the NodeCapacity of a Node, and remake one that belongs to another Node's UID."""
        node = self._state.fleet.by_name(name)
        if node is None:
            return  # gone with its Node: the garbage collector takes the object by its owner
        capacity = self._state.streams.capacities.by_name("", name)
        try:
            if capacity is not None and capacity.owner_node_uid != node.facts.uid:
                current = await self._state.api.get(node_path(name))
                if current is None or current["metadata"]["uid"] != node.facts.uid:
                    return  # the object may be right, and the Node that we know the old one: its stream will tell
                await self._state.api.delete_capacity(name, capacity.uid)
                self._state.streams.capacities.observe(capacity, deleted=True, in_stream=False)
                capacity = None
            if capacity is None:
                await self._create(node)
        except SandberthError as error:
            LOG.info("NodeCapacity %s: %s; tried again.", name, error)
            self.queue.add_after(name, self._state.rng.uniform(0.5, 1.5))

    async def _create(self, node: Node) -> None:
        name = node.facts.name
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.NODECAPACITY_KIND,
            "metadata": {
                "name": name,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.facts.uid}],
            },
            "spec": {},
        }
        try:
            created = await self._state.api.create_capacity(body)
        except ApiError as error:
            if not error.already_exists:
                raise
            found = await self._state.api.get(capacity_path(name))
            if found is None:
                raise
            created = found
            self.queue.add_after(name, 0.1)  # whose it is, the next look decides
        self._state.streams.observe_capacity(created)

    async def write_view(self, node: Node, now: datetime) -> None:
        """Write what the operator believes of a node, where it differs from what stands there."""
        capacity = self._state.streams.capacities.by_name("", node.facts.name)
        if capacity is None or capacity.owner_node_uid != node.facts.uid:
            return
        now_s = self._state.now_s()
        view = view_of(node.account)
        conditions = tuple(
            _condition(capacity, kind, value, reason, now)
            for kind, (value, reason) in (
                (NodeCapacityCondition.FRESH, fresh_reason(node.account, now_s)),
                (
                    NodeCapacityCondition.SCHEDULABLE,
                    schedulable_reason(node, self._state.flags.best_of_k_max_overcommit, now_s),
                ),
            )
        )
        status = capacity.status
        if status.view == view and status.conditions == conditions:
            return
        patch: dict[str, Any] = {
            "status": {"view": view.to_api(), "conditions": [condition.to_api() for condition in conditions]}
        }
        try:
            answer = await self._state.api.patch_capacity_status(node.facts.name, patch, int(capacity.resource_version))
        except ApiError as error:
            if not error.conflict:
                raise
            # The reporter came in between; the newest version is taken in, and written to at the next look.
            current = await self._state.api.get(capacity_path(node.facts.name))
            if current is None:
                return
            answer = current
        self._state.streams.observe_capacity(answer)


def view_of(account: Account) -> NodeCapacityView:
    """Return the operator's view of a node: the reconciled sum and its counts."""
    accounted = account.reconciled
    return NodeCapacityView(
        accounted=Amounts(cpu=format_cpu(accounted.cpu_millicores), memory=format_bytes(accounted.memory_bytes)),
        in_progress=account.in_progress,
        unconfirmed=account.unconfirmed(),
        sandboxes=account.sandboxes + len(account.reported_only),
    )


def fresh_reason(account: Account, now_s: float) -> tuple[bool, FreshReason]:
    """Return whether the node's report still counts, and why."""
    match account.freshness(now_s):
        case Freshness.NO_REPORT:
            return False, FreshReason.NO_REPORT
        case Freshness.STALE | Freshness.USAGE_EXPIRED:
            return False, FreshReason.STALE
        case Freshness.FRESH:
            return True, FreshReason.REPORTED


def schedulable_reason(node: Node, overcommit_percent: int, now_s: float) -> tuple[bool, SchedulableReason]:
    """Return whether the node takes Sandboxes without tolerations; a node without a fresh report still does."""
    if node.barred is not None:
        return False, _SCHEDULABLE[node.barred]
    if any(taint.effect != "PreferNoSchedule" for taint in node.facts.taints):
        return False, SchedulableReason.TAINTED
    if _is_full(node, node.overcommit_percent(overcommit_percent)):
        return False, SchedulableReason.FULL
    freshness = node.account.freshness(now_s)
    if freshness is Freshness.NO_REPORT:
        return True, SchedulableReason.NO_REPORT
    return True, SchedulableReason.STALE if freshness is Freshness.STALE else SchedulableReason.SCHEDULABLE


def _is_full(node: Node, overcommit_percent: int) -> bool:
    account, allocatable, limit = node.account, node.facts.allocatable, node.settings.max_sandboxes
    return (
        len(account.holdings) >= allocatable.pods
        or account.requested_cpu >= allocatable.cpu_millicores
        or account.held_cpu * 100 >= overcommit_percent * allocatable.cpu_millicores
        or max(account.held_memory, account.requested_memory) >= allocatable.memory_bytes
        or (limit is not None and account.sandboxes >= limit)
    )


def _condition(
    capacity: NodeCapacity, kind: NodeCapacityCondition, value: bool, reason: str, now: datetime
) -> Condition:
    old = capacity.status.condition(kind)
    text = "True" if value else "False"
    since = old.last_transition_time if old is not None and old.status == text else now
    return Condition(type=kind, status="True" if value else "False", reason=reason, last_transition_time=since)
