"""Sandboxes as the API server stores them; `crds/sandboxes.sandberth.dev.yaml` is the same schema by hand.

What a pod template may hold is not judged here: see `template.py`.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, field_validator, model_validator

from sandberth.core.quantity import cpu_millicores, whole_bytes
from sandberth.kube.names import Phase
from sandberth.kube.objects import (
    AnyQuantity,
    ApiModel,
    ApiObject,
    Condition,
    Timestamp,
    bounded,
)

MAX_CANDIDATES = 10
_YEAR_SECONDS = 31_536_000
_MEBIBYTE = 2**20
_PEBIBYTE = 2**50

CPU_RANGE = 'cpu must be a quantity from 1m to 99999, such as 2, 500m or "0.5"'
MEMORY_RANGE = "memory must be a quantity from 1Mi to less than 1Pi, such as 512Mi or 2Gi"
STORAGE_RANGE = "ephemeralStorage must be a quantity from 1Mi to less than 1Pi, such as 512Mi or 2Gi"
EXTENDED_RANGE = "an extended resource must be a whole number from 1 to 1000000000"
EXTENDED_NAME = "an extended resource needs a name with a domain other than kubernetes.io, such as nvidia.com/gpu"

# 99999 CPUs are allowed and 100k are not, so that a size in bytes by mistake does not pass for CPUs.
CpuQuantity = Annotated[AnyQuantity, AfterValidator(bounded(cpu_millicores, 1, 100_000_000, CPU_RANGE))]
MemoryQuantity = Annotated[AnyQuantity, AfterValidator(bounded(whole_bytes, _MEBIBYTE, _PEBIBYTE, MEMORY_RANGE))]
StorageQuantity = Annotated[AnyQuantity, AfterValidator(bounded(whole_bytes, _MEBIBYTE, _PEBIBYTE, STORAGE_RANGE))]


def _check_extended(text: str) -> str:
    # A tenth of a device does not exist; whole_bytes would round it up.
    if not re.fullmatch(r"[1-9][0-9]{0,9}", text) or int(text) > 1_000_000_000:
        raise ValueError(EXTENDED_RANGE)
    return text


ExtendedQuantity = Annotated[AnyQuantity, AfterValidator(_check_extended)]


class SecretReference(ApiModel):
    """A Secret of the Sandbox's namespace."""

    name: str


class KeyReference(ApiModel):
    """One key of a Secret or ConfigMap of the Sandbox's namespace."""

    name: str
    key: str
    optional: bool | None = None


class FieldReference(ApiModel):
    """A field of the Pod, such as `metadata.name`."""

    field_path: str


class EnvSource(ApiModel):
    """Where a variable's value comes from; exactly one of the three is set."""

    secret_key_ref: KeyReference | None = None
    config_map_key_ref: KeyReference | None = None
    field_ref: FieldReference | None = None


class EnvVar(ApiModel):
    """One environment variable."""

    name: str
    value: str | None = None
    value_from: EnvSource | None = None


class Port(ApiModel):
    """A port that the program listens on."""

    container_port: int = Field(ge=1, le=65535)
    name: str | None = None
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"


class TemplateMetadata(ApiModel):
    """Labels and annotations for the Pod, on top of the Sandbox's own."""

    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class PodTemplate(ApiModel):
    """A whole pod spec, passed on to the Pod; only what Sandberth must decide itself is refused in it."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: dict[str, Any]

    @field_validator("spec")
    @classmethod
    def _has_containers(cls, spec: dict[str, Any]) -> dict[str, Any]:
        containers = spec.get("containers")
        if not isinstance(containers, list) or not containers:
            raise ValueError("containers must list at least one container")
        return spec


class SandboxResources(ApiModel):
    """The nominal size: what the Sandbox may use. Quantities as text, whatever spelling the user chose."""

    cpu: CpuQuantity | None = None
    memory: MemoryQuantity | None = None
    ephemeral_storage: StorageQuantity | None = None
    extended: dict[str, ExtendedQuantity] = Field(default_factory=dict)

    @field_validator("extended")
    @classmethod
    def _are_extended(cls, extended: dict[str, str]) -> dict[str, str]:
        for name in extended:
            if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
                raise ValueError(EXTENDED_NAME)
        return extended


class PlacementWishes(ApiModel):
    """Where the Sandbox may run (selector, architecture) and would like to (preferredNode)."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    preferred_node: str | None = None
    architecture: str | None = None


class Lifetime(ApiModel):
    """When the Sandbox ends and its object goes; the one part that may change after placement."""

    shutdown_time: AwareDatetime | None = None
    ttl_seconds_after_finished: int | None = Field(None, ge=0, le=_YEAR_SECONDS)
    start_deadline_seconds: int = Field(600, ge=1, le=_YEAR_SECONDS)


class SandboxSpec(ApiModel):
    """What the user asked for: `image` with its shorthand fields, or a `pod_template`."""

    image: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    ports: tuple[Port, ...] = ()
    image_pull_secrets: tuple[SecretReference, ...] = ()
    service_account_name: str | None = None
    pod_template: PodTemplate | None = None
    resources: SandboxResources = SandboxResources()
    placement: PlacementWishes = PlacementWishes()
    lifetime: Lifetime = Lifetime()
    recovery: Literal["Recreate", "Never"] = "Recreate"

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Self:
        if (self.image is None) == (self.pod_template is None):
            raise ValueError("exactly one of image and podTemplate must be set")
        if self.image is not None and (self.resources.cpu is None or self.resources.memory is None):
            raise ValueError("resources.cpu and resources.memory are required with image")
        if self.pod_template is not None and self._has_shorthand():
            raise ValueError(
                "command, args, env, ports, imagePullSecrets and serviceAccountName belong to image; "
                "with podTemplate they stand in podTemplate.spec"
            )
        return self

    def _has_shorthand(self) -> bool:
        return bool(
            self.command or self.args or self.env or self.ports or self.image_pull_secrets or self.service_account_name
        )


class NominalSize(ApiModel):
    """The nominal size in force, in the spelling that the columns show."""

    cpu: str
    memory: str


class DecisionFlags(ApiModel):
    """The flags that a decision was made with; percentages as in the ConfigMap."""

    k: AnyQuantity  # a number or "all"
    overcommit_percent: int = Field(ge=1)
    alpha: int = Field(ge=0)
    sampler: str


class Candidate(ApiModel):
    """One node that was compared, with the numbers that its score was made of."""

    node: str
    score: float
    accounted: str  # CPU as a quantity
    in_progress: int = Field(0, ge=0)
    report_age_seconds: int | None = Field(None, ge=0)


class Decision(ApiModel):
    """The last placement decision, also one that found no node (`node` is None)."""

    attempt: int = Field(0, ge=0)  # the n of the attempt ID `<uid>.<n>`; 0 = none was made yet
    node: str | None = None
    score: float | None = None
    view: Literal["metrics", "in-progress", "optimistic", "reconciled"] | None = None
    flags: DecisionFlags | None = None
    sampled: int = Field(0, ge=0)
    candidates: tuple[Candidate, ...] = Field((), max_length=MAX_CANDIDATES)
    rejected: dict[str, int] = Field(default_factory=dict)
    decided_at: Timestamp | None = None


class SandboxStatus(ApiModel):
    """What the operator knows; `node_name` None means not placed, or waiting for a new place."""

    phase: Phase | None = None
    conditions: tuple[Condition, ...] = ()
    node_name: str | None = None
    pod_name: str | None = None
    pod_ip: str | None = Field(None, alias="podIP")
    observed_generation: int | None = Field(None, ge=0)
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    restarts: int = Field(0, ge=0)
    resources: NominalSize | None = None
    placement: Decision | None = None

    def condition(self, condition_type: str) -> Condition | None:
        """Return the condition of that type, None if it was never written."""
        return next((item for item in self.conditions if item.type == condition_type), None)


class Sandbox(ApiObject):
    """One Sandbox: metadata, spec and status."""

    spec: SandboxSpec
    status: SandboxStatus = SandboxStatus()

    @property
    def namespace(self) -> str:
        """Return metadata.namespace."""
        return self.metadata.namespace

    @property
    def generation(self) -> int:
        """Return metadata.generation, which counts the versions of the spec."""
        return self.metadata.generation

    @property
    def labels(self) -> Mapping[str, str]:
        """Return metadata.labels."""
        return self.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return metadata.annotations."""
        return self.metadata.annotations

    @property
    def is_orphaning(self) -> bool:
        """Return whether it is being deleted in a way that leaves its Pod alive (`--cascade=orphan`)."""
        return self.deletion_timestamp is not None and "orphan" in self.metadata.finalizers

    def attempt_id(self, attempt: int) -> str:
        """Return the ID of this Sandbox's n-th attempt."""
        return f"{self.uid}.{attempt}"
