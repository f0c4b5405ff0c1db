"""What a Sandbox may not ask for, what needs kube-scheduler, and which wishes are not scored.

The admission policies refuse most of it at apply; this is the second look, for objects that were stored while a
policy was missing. What the API server's own validation of a Pod finds (typos, bad fields) is left to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandberth.kube.names import PREFIX
from sandberth.kube.sandbox import Sandbox, SandboxSpec

HOST_FEATURES = ("hostNetwork", "hostPID", "hostIPC", "hostPath", "privileged")
DEFAULT_SCHEDULER = "default-scheduler"
_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")


def parse_host_features(text: str | None) -> frozenset[str]:
    """Return the features that the annotation `allowed-host-features` names; absent or empty allows none."""
    return frozenset(part.strip() for part in (text or "").split(",") if part.strip())


def refusals(spec: SandboxSpec, allowed_host_features: frozenset[str] = frozenset()) -> list[str]:
    """Return why this spec's template may not run, each as one plain sentence; empty when it may."""
    if spec.pod_template is None:
        return []
    pod = spec.pod_template.spec
    found = [
        f"{feature} is not allowed in a Sandbox"
        for feature in _host_features(pod)
        if feature not in allowed_host_features
    ]
    if pod.get("nodeName") is not None:
        found.append("nodeName is chosen by Sandberth; use spec.placement.preferredNode")
    if pod.get("schedulerName", DEFAULT_SCHEDULER) not in ("", DEFAULT_SCHEDULER):
        found.append("schedulerName is not supported; Sandberth chooses the node")
    if pod.get("schedulingGates"):
        found.append("schedulingGates are not supported; apply the Sandbox when it may start")
    if pod.get("ephemeralContainers"):
        found.append("ephemeralContainers cannot be part of a new Pod; use kubectl debug")
    metadata = spec.pod_template.metadata
    found += _reserved_keys("podTemplate.metadata", metadata.labels, metadata.annotations)
    return found


def sandbox_refusals(sandbox: Sandbox, allowed_host_features: frozenset[str] = frozenset()) -> list[str]:
    """Return `refusals` of the spec, and the Sandbox's own labels and annotations that are Sandberth's."""
    return [
        *refusals(sandbox.spec, allowed_host_features),
        *_reserved_keys("metadata", sandbox.labels, sandbox.annotations),
    ]


def scheduler_features(spec: SandboxSpec) -> list[str]:
    """Return the template's fields that only kube-scheduler can honour; a Pod with any is bound by it, not by us."""
    if spec.pod_template is None:
        return []
    pod = spec.pod_template.spec
    found = [
        f"volumes[{index}].{kind}"
        for index, volume in enumerate(_mappings(pod.get("volumes")))
        for kind in ("persistentVolumeClaim", "ephemeral")
        if volume.get(kind) is not None
    ]
    affinity = _mapping(pod.get("affinity"))
    found += [
        f"affinity.{kind}"
        for kind in ("podAffinity", "podAntiAffinity")
        if _mapping(affinity.get(kind)).get("requiredDuringSchedulingIgnoredDuringExecution")
    ]
    found += [
        f"topologySpreadConstraints[{index}]"
        for index, constraint in enumerate(_mappings(pod.get("topologySpreadConstraints")))
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    if pod.get("resourceClaims"):
        found.append("resourceClaims")
    return found


def claims_of(spec: SandboxSpec) -> list[str]:
    """Return the names of the PersistentVolumeClaims that the template mounts."""
    if spec.pod_template is None:
        return []
    claims = (
        _mapping(volume.get("persistentVolumeClaim")) for volume in _mappings(spec.pod_template.spec.get("volumes"))
    )
    return [name for claim in claims if isinstance(name := claim.get("claimName"), str) and name]


def ignored_preferences(spec: SandboxSpec) -> list[str]:
    """Return the template's wishes that the score does not count, for the message of the condition Placed.

    A PreferNoSchedule taint is not scored either, but stands on the node, not here.
    """
    if spec.pod_template is None:
        return []
    pod = spec.pod_template.spec
    affinity = _mapping(pod.get("affinity"))
    found = [
        f"preferred {kind}"
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
        if _mapping(affinity.get(kind)).get("preferredDuringSchedulingIgnoredDuringExecution")
    ]
    if any(
        constraint.get("whenUnsatisfiable") == "ScheduleAnyway"
        for constraint in _mappings(pod.get("topologySpreadConstraints"))
    ):
        found.append("topologySpreadConstraints with ScheduleAnyway")
    return found


def _host_features(pod: Mapping[str, Any]) -> list[str]:
    # The order of HOST_FEATURES; a field of the wrong type counts as set, the server refuses it anyway.
    found = [feature for feature in ("hostNetwork", "hostPID", "hostIPC") if pod.get(feature)]
    if any(volume.get("hostPath") is not None for volume in _mappings(pod.get("volumes"))):
        found.append("hostPath")
    containers = (container for name in _CONTAINER_LISTS for container in _mappings(pod.get(name)))
    if any(_mapping(container.get("securityContext")).get("privileged") for container in containers):
        found.append("privileged")
    return found


def _reserved_keys(place: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[str]:
    for kind, keys in (("labels", labels), ("annotations", annotations)):
        for key in keys:
            if key.startswith(PREFIX):
                yield f"{place}.{kind}[{key}]: keys that start with {PREFIX} belong to Sandberth"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (item for item in value if isinstance(item, Mapping))
