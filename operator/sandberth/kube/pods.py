"""Pods, reduced to what Sandberth acts on.

`PodFacts` is what the cache keeps of a pod: no labels, no annotations, no containers. A cluster's pods are the
hottest stream there is, so this and `sandberth.kube.podmodel` are slim on purpose.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sandberth.core.errors import SandberthError
from sandberth.core.quantity import QuantityError, cpu_millicores, whole_bytes
from sandberth.core.requests import Amounts, Container, PodShape, Port, effective_requests
from sandberth.core.resources import Requests, Resources
from sandberth.kube import names
from sandberth.kube.podmodel import (
    Condition,
    ContainerPort,
    ContainerSpec,
    ContainerStatus,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    Terminated,
    Waiting,
)

_NOTHING: Final[Amounts] = MappingProxyType({})
_MOST_CPU: Final = 100_000_000  # millicores; as the schema bounds a Sandbox's size
_MOST_MEMORY: Final = 2**50
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})
_UNREMARKABLE: Final = frozenset({"ContainerCreating", "PodInitializing", ""})


class PodSpecError(SandberthError):
    """A pod spec whose requests cannot be computed; the text names the field or the quantity."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One version of one pod. Text that is absent is ""; None stands where absence means something.

    `attempt_id` and `owner_uid` are None unless a Sandbox controls the pod. `ran` stays true once any container, init
    ones included, has run. Times are the API's own texts.
    """

    uid: str
    name: str
    namespace: str
    resource_version: int
    node_name: (
        str  # where it is bound; a Sandbox's Pod that kube-scheduler has yet to bind: the node chosen for it, or ""
    )
    node_uid: str  # the Node that the pod was made for, as the operator wrote it; "" where it was bound to another
    attempt_id: str | None
    owner_uid: str | None
    nominal: Resources  # as the operator wrote it; what it did not write is the effective request's
    generation: int | None  # of the Sandbox that the pod was made from
    requests: Requests
    phase: str
    deleting: bool
    created_at: str
    pod_ip: str
    ready: bool
    reason: str
    message: str
    started_at: str | None  # the first container start that is known, of the present incarnations
    finished_at: str | None  # the last container's end, in a terminal phase
    restarts: int  # summed over all containers
    waiting_reason: str
    waiting_message: str
    ran: bool
    exit_code: int | None  # the first that is not 0
    exit_reason: str
    exit_message: str
    disruption: str | None  # why the pod is being, or was, evicted
    bound: bool = True
    unschedulable: str | None = None  # what kube-scheduler says of a pod that it tried to bind and could not

    @property
    def terminal(self) -> bool:
        """Whether the kubelet has given the pod's room back for good."""
        return self.phase in _TERMINAL


_POD_DECODER = msgspec.json.Decoder(Pod)


def decode_pod(content: bytes) -> PodFacts:
    """Return the facts of a pod in JSON. Raises msgspec.MsgspecError or ValueError on what is no pod."""
    return pod_facts(_POD_DECODER.decode(content))


def convert_pod(document: Mapping[str, Any]) -> PodFacts:
    """Return the facts of a pod that is already decoded, such as the answer to a create."""
    return pod_facts(msgspec.convert(document, Pod))


def spec_requests(spec: Mapping[str, Any]) -> Requests:
    """Return the effective request of a pod spec before the server has seen it. Raises PodSpecError."""
    try:
        return effective_requests(_shape(msgspec.convert(spec, PodSpec), PodStatus()))
    except (msgspec.ValidationError, QuantityError) as error:
        raise PodSpecError(str(error)) from error


def pod_facts(pod: Pod) -> PodFacts:
    """Return what the cache keeps of a pod."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    annotations = metadata.annotations or {}
    owner_uid = _controlling_sandbox(metadata.owner_references, metadata.name)
    main = status.container_statuses or []
    every = [*(status.init_container_statuses or []), *main]
    waiting = _waiting(every)
    failed = _failed(every)
    requests = effective_requests(_shape(spec, status))
    conditions = {condition.type: condition for condition in status.conditions or ()}
    ready, disruption = conditions.get("Ready"), conditions.get("DisruptionTarget")
    bound_to = spec.node_name or ""
    chosen = annotations.get(names.NODE_NAME_ANNOTATION, "") if owner_uid is not None else ""
    went_elsewhere = bool(bound_to and chosen and bound_to != chosen)
    return PodFacts(
        uid=metadata.uid,
        name=metadata.name,
        namespace=sys.intern(metadata.namespace),
        resource_version=int(metadata.resource_version),
        node_name=sys.intern(bound_to or chosen),
        node_uid="" if went_elsewhere else sys.intern(annotations.get(names.NODE_UID_ANNOTATION, "")),
        attempt_id=(metadata.labels or {}).get(names.ATTEMPT_LABEL) if owner_uid is not None else None,
        owner_uid=owner_uid,
        nominal=requests.size if owner_uid is None else _nominal(annotations, requests.size),
        generation=_whole_number(annotations.get(names.GENERATION_ANNOTATION)),
        requests=requests,
        phase=sys.intern(status.phase),
        deleting=metadata.deletion_timestamp is not None,
        created_at=metadata.creation_timestamp or "",
        pod_ip=status.pod_ip,
        ready=ready is not None and ready.status == "True",
        reason=status.reason,
        message=status.message,
        started_at=_started_at(main) or (status.start_time if status.phase != "Pending" else None),
        finished_at=_finished_at(main) if status.phase in _TERMINAL else None,
        restarts=sum(container.restart_count for container in every),
        waiting_reason=waiting.reason if waiting else "",
        waiting_message=waiting.message if waiting else "",
        ran=any(_has_run(container) for container in every),
        exit_code=failed.exit_code if failed else None,
        exit_reason=failed.reason if failed else "",
        exit_message=failed.message if failed else "",
        disruption=disruption.reason or "" if disruption and disruption.status == "True" else None,
        bound=bool(bound_to),
        unschedulable=None if bound_to else _unschedulable(conditions.get("PodScheduled")),
    )


def _unschedulable(scheduled: Condition | None) -> str | None:
    if scheduled is None or scheduled.status != "False":
        return None
    return scheduled.message or scheduled.reason or "no cause is given"


def _controlling_sandbox(references: Iterable[OwnerReference] | None, name: str) -> str | None:
    # A Sandbox's Pod has its name; a copy of that Pod under another name is somebody else's.
    for reference in references or ():
        if reference.controller:
            group, _, _ = reference.api_version.partition("/")
            is_sandbox = reference.kind == names.SANDBOX_KIND and group == names.GROUP and reference.name == name
            return reference.uid if is_sandbox else None
    return None


def _nominal(annotations: Mapping[str, str], requested: Resources) -> Resources:
    return Resources(
        _amount(cpu_millicores, annotations.get(names.NOMINAL_CPU_ANNOTATION), _MOST_CPU, requested.cpu_millicores),
        _amount(whole_bytes, annotations.get(names.NOMINAL_MEMORY_ANNOTATION), _MOST_MEMORY, requested.memory_bytes),
    )


def _amount(parse: Callable[[str], int], text: str | None, below: int, otherwise: int) -> int:
    """Return what an annotation says; one that is absent or makes no sense as a Sandbox's size says nothing."""
    if text is None:
        return otherwise
    try:
        amount = parse(text)
    except QuantityError:
        return otherwise
    return amount if 0 <= amount < below else otherwise


def _whole_number(text: str | None) -> int | None:
    return int(text) if text and len(text) < 20 and text.isascii() and text.isdecimal() else None


def _shape(spec: PodSpec, status: PodStatus) -> PodShape:
    statuses = {
        container.name: container
        for group in (status.container_statuses, status.init_container_statuses)
        for container in group or ()
        if container.resources is not None
    }
    level, actual = spec.resources, status.resources
    return PodShape(
        containers=[_container(container, statuses) for container in spec.containers],
        init_containers=[_container(container, statuses) for container in spec.init_containers or ()],
        requests=level.requests or _NOTHING if level else _NOTHING,
        limits=level.limits or _NOTHING if level else _NOTHING,
        allocated=status.allocated_resources or _NOTHING if actual else _NOTHING,
        actual=actual.requests or _NOTHING if actual else _NOTHING,
        overhead=spec.overhead or _NOTHING,
        host_network=bool(spec.host_network),
        resize_is_infeasible=any(
            condition.type == "PodResizePending" and condition.reason == "Infeasible"
            for condition in status.conditions or ()
        ),
    )


def _container(spec: ContainerSpec, statuses: Mapping[str, ContainerStatus]) -> Container:
    wanted = spec.resources
    status = statuses.get(spec.name)
    actual = status.resources if status else None
    return Container(
        requests=wanted.requests or _NOTHING if wanted else _NOTHING,
        limits=wanted.limits or _NOTHING if wanted else _NOTHING,
        allocated=status.allocated_resources or _NOTHING if status else _NOTHING,
        actual=actual.requests or _NOTHING if actual else _NOTHING,
        ports=tuple(_ports(spec.ports)) if spec.ports else (),
        is_sidecar=spec.restart_policy == "Always",
    )


def _ports(ports: Iterable[ContainerPort]) -> Iterator[Port]:
    for port in ports:
        yield Port(port.container_port, port.host_port or 0, port.protocol or "TCP", port.host_ip or "")


def _waiting(containers: Iterable[ContainerStatus]) -> Waiting | None:
    """Return the first wait for a cause worth telling, else the first wait."""
    waits = [item.state.waiting for item in containers if item.state and item.state.waiting]
    telling = (wait for wait in waits if wait.reason not in _UNREMARKABLE)
    return next(telling, waits[0] if waits else None)


def _failed(containers: Iterable[ContainerStatus]) -> Terminated | None:
    for container in containers:
        ended = container.state.terminated if container.state else None
        if ended is not None and ended.exit_code != 0:
            return ended
    return None


def _has_run(container: ContainerStatus) -> bool:
    state = container.state
    return container.restart_count > 0 or bool(state and (state.running or state.terminated))


def _started_at(containers: Iterable[ContainerStatus]) -> str | None:
    incarnations = (item.state.running or item.state.terminated for item in containers if item.state)
    starts = (incarnation.started_at for incarnation in incarnations if incarnation)
    return min((start for start in starts if start), default=None)


def _finished_at(containers: Iterable[ContainerStatus]) -> str | None:
    ends = (item.state.terminated.finished_at for item in containers if item.state and item.state.terminated)
    return max((end for end in ends if end), default=None)
