"""Builders of core objects with defaults: a test names only what it is about."""

from collections.abc import Mapping

from sandberth.core.constraints import Constraints
from sandberth.core.fit import UNCONSTRAINED, Ask
from sandberth.core.fleet import Fleet, Node
from sandberth.core.ledger import Ledger, PodHolding
from sandberth.core.node import Allocatable, NodeFacts, NodeSettings, Taint
from sandberth.core.report import Report
from sandberth.core.resources import Requests, Resources

GIB = 1024**3
NOW_S = 1_000.0


def a_size(cpu_millicores: int = 1_000, memory_bytes: int = GIB) -> Resources:
    return Resources(cpu_millicores, memory_bytes)


def an_allocatable(
    cpu_millicores: int = 8_000,
    memory_bytes: int = 32 * GIB,
    ephemeral_storage_bytes: int = 100 * GIB,
    pods: int = 110,
    extended: Mapping[str, int] | None = None,
) -> Allocatable:
    return Allocatable(cpu_millicores, memory_bytes, ephemeral_storage_bytes, pods, extended or {})


def a_node(
    name: str = "node-a",
    *,
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    ready: bool = True,
    cordoned: bool = False,
    allocatable: Allocatable | None = None,
) -> NodeFacts:
    return NodeFacts(
        uid=uid or f"uid-of-{name}",
        name=name,
        labels=labels or {},
        taints=taints,
        ready=ready,
        cordoned=cordoned,
        allocatable=allocatable or an_allocatable(),
    )


def a_report(
    node_uid: str = "uid-of-node-a",
    sequence: int = 1,
    *,
    epoch: int = 1,
    history: str = "capacity-1",
    allocated: Resources = Resources(0, 0),  # noqa: B008 - frozen
    used: Resources | None = None,
    sandboxes: Mapping[str, Resources] | None = None,
    complete: bool = True,
    interval_seconds: float = 20.0,
) -> Report:
    return Report(
        history=history,
        epoch=epoch,
        sequence=sequence,
        node_uid=node_uid,
        interval_seconds=interval_seconds,
        complete=complete,
        allocated=allocated,
        used=used,
        sandboxes=sandboxes or {},
    )


def some_requests(size: Resources) -> Requests:
    return Requests(size.cpu_millicores, size.memory_bytes)


def a_pod(
    attempt_id: str | None = "sandbox.1",
    *,
    pod_uid: str = "pod-1",
    node_name: str = "node-a",
    nominal: Resources | None = None,
    requests: Requests | None = None,
    starting: bool = False,
) -> PodHolding:
    nominal = nominal or a_size()
    return PodHolding(
        pod_uid=pod_uid,
        attempt_id=attempt_id,
        node_name=node_name,
        nominal=nominal,
        requests=requests or some_requests(nominal),
        starting=starting,
    )


def an_ask(
    cpu_millicores: int = 1_000,
    memory_bytes: int = GIB,
    *,
    requests: Requests | None = None,
    divides_cpu: bool = False,
    constraints: Constraints = UNCONSTRAINED,
    preferred_node: str | None = None,
) -> Ask:
    nominal = Resources(cpu_millicores, memory_bytes)
    return Ask(nominal, requests or some_requests(nominal), divides_cpu, constraints, preferred_node)


def a_fleet(*nodes: NodeFacts, reported: bool = True, now_s: float = NOW_S) -> Fleet:
    """Return a fleet of these nodes, each with an empty report seen at `now_s` unless `reported` is False."""
    fleet = Fleet(Ledger())
    for facts in nodes or (a_node(),):
        fleet.observe_node(facts)
        if reported:
            fleet.accept_report(a_report(facts.uid), now_s)
    return fleet


def hold(fleet: Fleet, node: str | Node, *, pod_uid: str, nominal: Resources, requests: Requests | None = None) -> None:
    """Bind a Pod of somebody else to a node."""
    name = node if isinstance(node, str) else node.facts.name
    fleet.ledger.pod_observed(a_pod(None, pod_uid=pod_uid, node_name=name, nominal=nominal, requests=requests))


def settings_of(
    *,
    overcommit_percent: int | None = None,
    max_sandboxes: int | None = None,
    max_starting: int | None = None,
    unschedulable: bool = False,
) -> NodeSettings:
    return NodeSettings(overcommit_percent, max_sandboxes, max_starting, unschedulable)
