"""What a pod spec demands of a node, read from its JSON form into the core's terms."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sandberth.core.constraints import Constraints, Requirement, Term, Toleration
from sandberth.kube.pods import PodSpecError

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _is_integer(values: tuple[str, ...]) -> bool:
    return len(values) == 1 and re.fullmatch(r"[+-]?[0-9]{1,19}", values[0]) is not None


class _Requirement(msgspec.Struct):
    key: str
    operator: str
    values: list[str] | None = None

    def to_core(self) -> Requirement:
        values = tuple(self.values or ())
        wrong = self.operator not in _OPERATORS or (self.operator in {"Gt", "Lt"} and not _is_integer(values))
        if wrong:
            raise PodSpecError(
                f"podTemplate.spec.affinity: {self.key} {self.operator} {', '.join(values)}: the operators are "
                f"{', '.join(_OPERATORS)}, and Gt and Lt take one whole number"
            )
        return Requirement(self.key, self.operator, values)


class _Term(msgspec.Struct):
    match_expressions: list[_Requirement] | None = msgspec.field(default=None, name="matchExpressions")
    match_fields: list[_Requirement] | None = msgspec.field(default=None, name="matchFields")


class _NodeSelector(msgspec.Struct):
    terms: list[_Term] = msgspec.field(name="nodeSelectorTerms")


class _NodeAffinity(msgspec.Struct):
    required: _NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class _VolumeAffinity(msgspec.Struct):
    required: _NodeSelector | None = None


class _VolumeSpec(msgspec.Struct):
    affinity: _VolumeAffinity | None = msgspec.field(default=None, name="nodeAffinity")


class _Affinity(msgspec.Struct):
    node: _NodeAffinity | None = msgspec.field(default=None, name="nodeAffinity")


class _Toleration(msgspec.Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None

    def to_core(self) -> Toleration:
        return Toleration(self.key or "", self.operator or "Equal", self.value or "", self.effect or "")


class _Spec(msgspec.Struct):
    node_selector: dict[str, str] | None = msgspec.field(default=None, name="nodeSelector")
    affinity: _Affinity | None = None
    tolerations: list[_Toleration] | None = None


class _Scheduling(msgspec.Struct):
    node_selector: dict[str, str] | None = msgspec.field(default=None, name="nodeSelector")
    tolerations: list[_Toleration] | None = None


class RuntimeClass(msgspec.Struct):
    """What a RuntimeClass adds to the Pods that name it."""

    scheduling: _Scheduling | None = None
    overhead: dict[str, Any] | None = None

    @property
    def pod_overhead(self) -> Mapping[str, Any]:
        """The resources added to each Pod's own requests, as quantities by name."""
        return (self.overhead or {}).get("podFixed") or {}


def constraints_of(
    pod_spec: Mapping[str, Any],
    *,
    architecture: str | None = None,
    runtime_class: RuntimeClass | None = None,
    volumes: tuple[tuple[Term, ...], ...] = (),
) -> Constraints:
    """Return what this pod spec demands of a node. Raises PodSpecError naming the field."""
    try:
        spec = msgspec.convert(pod_spec, _Spec)
    except msgspec.ValidationError as error:
        raise PodSpecError(f"podTemplate.spec: {error}") from error
    selector = dict(spec.node_selector or {})
    tolerations = list(spec.tolerations or ())
    if runtime_class is not None and runtime_class.scheduling is not None:
        selector = merged_selector(
            selector, runtime_class.scheduling.node_selector or {}, "podTemplate.spec", "its RuntimeClass"
        )
        tolerations += runtime_class.scheduling.tolerations or ()
    required = spec.affinity and spec.affinity.node and spec.affinity.node.required
    return Constraints(
        node_selector=tuple(sorted(selector.items())),
        affinity=tuple(map(_term, required.terms)) if required else None,
        tolerations=tuple(toleration.to_core() for toleration in tolerations),
        architecture=architecture,
        volumes=volumes,
    )


def volume_terms(volume: Mapping[str, Any]) -> tuple[Term, ...] | None:
    """Return where a PersistentVolume can be mounted, None where it does not say or says it in a way unknown to us."""
    try:
        spec = msgspec.convert(volume.get("spec"), _VolumeSpec)
        required = spec.affinity and spec.affinity.required
        return tuple(map(_term, required.terms)) if required else None
    except (msgspec.ValidationError, PodSpecError):
        return None


def merged_selector(
    first: Mapping[str, str], second: Mapping[str, str], first_place: str, second_place: str
) -> dict[str, str]:
    """Return both node selectors as one. Raises PodSpecError where they ask for two values of one label."""
    for key in first.keys() & second.keys():
        if first[key] != second[key]:
            raise PodSpecError(
                f"nodeSelector: {first_place} asks for {key}={first[key]}, {second_place} for {key}={second[key]}"
            )
    return {**first, **second}


def _term(term: _Term) -> Term:
    def requirements(given: Iterable[_Requirement] | None) -> tuple[Requirement, ...]:
        return tuple(requirement.to_core() for requirement in given or ())

    return Term(requirements(term.match_expressions), requirements(term.match_fields))
