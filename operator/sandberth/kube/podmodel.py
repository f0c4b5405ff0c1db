"""The fields of a Pod that are decoded at all: what is not named here is skipped on the wire."""

import msgspec

Quantities = dict[str, str | int | float]


class _Slim(msgspec.Struct, rename="camel", gc=False):
    """Fields that a template may also write as null are `| None`."""


class OwnerReference(_Slim):
    """Who owns an object; at most one owner is its controller."""

    uid: str = ""
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool | None = None


class Metadata(_Slim):
    """The part of an object's metadata that is read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class ResourceRequirements(_Slim):
    """Requests and limits of a container or of a pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(_Slim):
    """One port of a container."""

    container_port: int = 0
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class ContainerSpec(_Slim):
    """A container or init container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class PodSpec(_Slim):
    """The part of a pod's spec that is read; also that of a template."""

    containers: list[ContainerSpec]
    init_containers: list[ContainerSpec] | None = None
    node_name: str | None = None
    resources: ResourceRequirements | None = None
    overhead: Quantities | None = None
    host_network: bool | None = None


class Waiting(_Slim):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Running(_Slim):
    """Since when a container runs."""

    started_at: str | None = None


class Terminated(_Slim):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(_Slim):
    """One of the three, the others are None."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Slim):
    """What the kubelet says of one container."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState | None = None
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None


class Condition(_Slim):
    """One condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodStatus(_Slim):
    """The part of a pod's status that is read."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None


class Pod(_Slim):
    """A pod as decoded."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus = msgspec.field(default_factory=PodStatus)
