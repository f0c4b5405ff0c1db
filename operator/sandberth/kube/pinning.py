"""Holding a Pod that kube-scheduler binds to the node that was chosen for it.

Required node affinity by name does it, as for the Pods of a DaemonSet. Topology spread needs care: kube-scheduler
counts only the nodes that a Pod's own selector and affinity admit (`nodeAffinityPolicy: Honor`), so a pin alone would
leave one domain to count, and any spread would do.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sandberth.core.constraints import NAME_FIELD

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_STRONGEST = 100  # the largest weight of a preference


def pin(pod_spec: dict[str, Any], node_name: str, *, selects_nodes: bool) -> None:
    """Have kube-scheduler bind this Pod to this node or, where that would undo a topology spread, prefer it.

    `selects_nodes`: a node selector or required affinity applies to the Pod, its own or its RuntimeClass's. Without
    one, all nodes count for the spread, which can be said (`Ignore`). With one, that cannot be said beside a pin.
    """
    constraints = pod_spec.get("topologySpreadConstraints")
    if not isinstance(constraints, list) or not any(map(_counts_admitted_nodes, constraints)):
        _require(pod_spec, node_name)
    elif selects_nodes:
        _prefer(pod_spec, node_name)
    else:
        pod_spec["topologySpreadConstraints"] = [
            {**constraint, "nodeAffinityPolicy": "Ignore"} if _counts_admitted_nodes(constraint) else constraint
            for constraint in constraints
        ]
        _require(pod_spec, node_name)


def _counts_admitted_nodes(constraint: Any) -> bool:
    return (
        isinstance(constraint, Mapping)
        and constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        and constraint.get("nodeAffinityPolicy") in (None, "Honor")
    )


def _require(pod_spec: dict[str, Any], node_name: str) -> None:
    """Add the pin to each term: of the terms one must match, within a term everything."""
    affinity, node_affinity = _affinity_of(pod_spec)
    required = node_affinity.get(_REQUIRED)
    terms: list[Mapping[str, Any]] = [{}] if required is None else _not_empty(required["nodeSelectorTerms"])
    node_affinity[_REQUIRED] = {
        "nodeSelectorTerms": [
            {**term, "matchFields": [*(term.get("matchFields") or ()), _named(node_name)]} for term in terms
        ]
    }
    pod_spec["affinity"] = {**affinity, "nodeAffinity": node_affinity}


def _not_empty(terms: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Leave out the terms that say nothing: they match no node, and with a pin in them they would."""
    return [term for term in terms if term.get("matchExpressions") or term.get("matchFields")]


def _prefer(pod_spec: dict[str, Any], node_name: str) -> None:
    affinity, node_affinity = _affinity_of(pod_spec)
    wishes = node_affinity.get(_PREFERRED) or []
    if isinstance(wishes, list):  # else the server says what is wrong with it
        wish = {"weight": _STRONGEST, "preference": {"matchFields": [_named(node_name)]}}
        node_affinity[_PREFERRED] = [*wishes, wish]
    pod_spec["affinity"] = {**affinity, "nodeAffinity": node_affinity}


def _affinity_of(pod_spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    affinity = pod_spec.get("affinity") or {}
    return affinity, dict(affinity.get("nodeAffinity") or {})


def _named(node_name: str) -> dict[str, Any]:
    return {"key": NAME_FIELD, "operator": "In", "values": [node_name]}
