"""The effective request of a pod: what the kubelet and the scheduler count for it.

Containers run together, init containers one after the other before them, and a sidecar (an init container that
restarts) runs from its turn on: the pod needs the largest sum that is ever reached. Each quantity is rounded up to
millicores or bytes before the sum, as the API server does for CPU when it stores a pod.

Source: k8s.io/component-helpers/resource (PodRequests), and the API server's defaulting for templates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sandberth.core.quantity import cpu_millicores, whole_bytes
from sandberth.core.resources import Requests

Amounts = Mapping[str, str | int | float]  # resource name -> quantity
_Sums = dict[str, int]  # resource name -> millicores for cpu, whole units for the others

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the name of the wildcard, nothing is bound


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a container; 0 as host port binds none."""

    container_port: int
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """What one container asks for, and during an in-place resize what it has (`status`, absent = nothing)."""

    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)  # status.allocatedResources
    actual: Amounts = field(default_factory=dict)  # status.resources.requests
    ports: Sequence[Port] = ()
    is_sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodShape:
    """What decides a pod's effective request; the amounts here are the pod-level ones, as in Container."""

    containers: Sequence[Container]
    init_containers: Sequence[Container] = ()
    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)
    actual: Amounts = field(default_factory=dict)
    overhead: Amounts = field(default_factory=dict)
    host_network: bool = False
    resize_is_infeasible: bool = False  # the spec asks for what the node cannot give, so it is not counted


def effective_requests(pod: PodShape) -> Requests:
    """Return the whole sum for one pod. Raises QuantityError on a malformed quantity."""
    sums: _Sums = {}
    for container in pod.containers:
        _add(sums, _container_sums(container, pod.resize_is_infeasible))
    if pod.init_containers:
        _raise_to_init(sums, pod)
    if pod.requests or pod.limits:
        _apply_pod_level(sums, pod)
    if pod.overhead:
        _add(sums, _parsed(pod.overhead))
    cpu, memory = sums.pop("cpu", 0), sums.pop("memory", 0)
    ephemeral_storage = sums.pop("ephemeral-storage", 0)
    return Requests(
        cpu_millicores=cpu,
        memory_bytes=memory,
        ephemeral_storage_bytes=ephemeral_storage,
        extended=tuple(sorted((name, amount) for name, amount in sums.items() if amount)) if sums else (),
        host_ports=_host_ports(pod),
    )


def _container_sums(container: Container, resize_is_infeasible: bool) -> _Sums:
    sums = _parsed(container.requests)
    for name, quantity in container.limits.items():
        if name not in sums:
            sums[name] = _amount(name, quantity)
    return _with_resize(sums, container, resize_is_infeasible)


def _with_resize(wanted: _Sums, holder: Container | PodShape, resize_is_infeasible: bool) -> _Sums:
    """Return the largest of what is wanted, allocated and in force: a resize may be under way in either direction."""
    if not (holder.allocated or holder.actual):
        return wanted
    held = _parsed(holder.allocated)
    _raise_to(held, _parsed(holder.actual))
    if not resize_is_infeasible:
        _raise_to(held, wanted)
    return held


def _raise_to_init(sums: _Sums, pod: PodShape) -> None:
    """Add the sidecars to `sums`, then raise them to what the start of the pod needs at its peak."""
    sidecars: _Sums = {}
    peak: _Sums = {}
    for container in pod.init_containers:
        own = _container_sums(container, pod.resize_is_infeasible)
        if container.is_sidecar:
            _add(sums, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(peak, own)
    _raise_to(sums, peak)


def _apply_pod_level(sums: _Sums, pod: PodShape) -> None:
    """Let pod-level requests override the sum of the containers.

    Without a request, the containers' sum stands before the pod's limit, except for huge pages: those cannot be
    overcommitted, so there the limit is the request.
    """
    requests = _with_resize(_parsed(pod.requests), pod, pod.resize_is_infeasible)
    limits = _parsed(pod.limits)
    for name in requests.keys() | limits.keys():
        is_huge_pages = name.startswith("hugepages-")
        if name not in {"cpu", "memory"} and not is_huge_pages:
            continue
        if name in requests:
            sums[name] = requests[name]
        elif is_huge_pages or name not in sums:
            sums[name] = limits[name]


def _host_ports(pod: PodShape) -> tuple[tuple[str, str, int], ...]:
    ports = [
        (port.host_ip or ANY_ADDRESS, port.protocol, port.host_port or port.container_port)
        for container in (*pod.containers, *(init for init in pod.init_containers if init.is_sidecar))
        for port in container.ports
        if port.host_port or (pod.host_network and port.container_port)
    ]
    return tuple(sorted(set(ports))) if ports else ()


def _parsed(amounts: Amounts) -> _Sums:
    return {name: _amount(name, quantity) for name, quantity in amounts.items()}


def _amount(name: str, quantity: str | float) -> int:
    return cpu_millicores(quantity) if name == "cpu" else whole_bytes(quantity)


def _add(sums: _Sums, more: _Sums) -> None:
    for name, amount in more.items():
        sums[name] = sums.get(name, 0) + amount


def _raise_to(sums: _Sums, floor: _Sums) -> None:
    for name, amount in floor.items():
        if amount > sums.get(name, 0):
            sums[name] = amount
