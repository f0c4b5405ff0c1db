"""From a Sandbox to its Pod: the body that is POSTed, and what that Pod asks of a node.

A bare image gets a restricted Pod. In a template only what is absent is filled in, so whoever needs more says so.
"""

from collections.abc import Mapping
from typing import Any

from sandberth.core.constraints import ARCHITECTURE_LABEL, Term
from sandberth.core.fit import Ask
from sandberth.core.quantity import cpu_millicores, format_bytes, format_cpu, whole_bytes
from sandberth.core.resources import Requests, Resources
from sandberth.kube import names
from sandberth.kube.constraints import RuntimeClass, constraints_of, merged_selector
from sandberth.kube.pinning import pin
from sandberth.kube.pods import PodSpecError, spec_requests
from sandberth.kube.sandbox import Sandbox, SandboxSpec
from sandberth.kube.template import scheduler_features

CONTAINER = "sandbox"
_KUBECTL_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_ESCALATING_CAPABILITIES = frozenset({"SYS_ADMIN", "CAP_SYS_ADMIN"})


def ask_of(
    spec: SandboxSpec, runtime_class: RuntimeClass | None = None, volumes: tuple[tuple[Term, ...], ...] = ()
) -> Ask:
    """Return what a Sandbox asks of a node; `volumes` says of each that it claims where it can be mounted.

    With a template the nominal size is, where it is not given, the effective request.
    Raises PodSpecError, whose text names the field.
    """
    pod_spec = base_pod_spec(spec)
    counted = pod_spec
    if runtime_class is not None and runtime_class.pod_overhead and not pod_spec.get("overhead"):
        counted = {**pod_spec, "overhead": runtime_class.pod_overhead}  # one that is given must be the same
    try:
        requests = spec_requests(counted)
    except PodSpecError as error:
        raise PodSpecError(f"podTemplate.spec: {error}") from error
    _refuse_negative(requests)
    cpu, memory = spec.resources.cpu, spec.resources.memory
    return Ask(
        nominal=Resources(
            requests.cpu_millicores if cpu is None else cpu_millicores(cpu),
            requests.memory_bytes if memory is None else whole_bytes(memory),
        ),
        requests=requests,
        divides_cpu=spec.image is not None,
        constraints=constraints_of(
            pod_spec, architecture=spec.placement.architecture, runtime_class=runtime_class, volumes=volumes
        ),
        preferred_node=spec.placement.preferred_node,
    )


def _refuse_negative(requests: Requests) -> None:
    """Raise PodSpecError for a request below zero: the server refuses it, but it must not even be reserved."""
    amounts = {
        "cpu": requests.cpu_millicores,
        "memory": requests.memory_bytes,
        "ephemeral-storage": requests.ephemeral_storage_bytes,
        **dict(requests.extended),
    }
    for name, amount in amounts.items():
        if amount < 0:
            raise PodSpecError(f"podTemplate.spec: the request for {name} is negative")


def base_pod_spec(spec: SandboxSpec) -> dict[str, Any]:
    """Return the pod spec before a node is chosen. Raises PodSpecError for selectors that contradict."""
    pod_spec = _image_pod_spec(spec) if spec.pod_template is None else _template_pod_spec(spec.pod_template.spec)
    if spec.placement.node_selector:
        own = pod_spec.get("nodeSelector") or {}
        if not isinstance(own, Mapping):
            raise PodSpecError("podTemplate.spec: nodeSelector is not a map of labels")
        pod_spec["nodeSelector"] = merged_selector(
            own, spec.placement.node_selector, "podTemplate.spec", "spec.placement"
        )
    return pod_spec


def build_pod(
    sandbox: Sandbox, attempt: int, ask: Ask, *, node_name: str, node_uid: str, overcommit_percent: int
) -> dict[str, Any]:
    """Return the Pod of one attempt on one node; it has the Sandbox's name, so two can never live at once.

    It is bound to the node already, unless it asks for what only kube-scheduler can do: then it is pinned to the node.
    """
    pod_spec = base_pod_spec(sandbox.spec)
    annotations = {names.NODE_UID_ANNOTATION: node_uid}
    if scheduler_features(sandbox.spec):
        selects_nodes = bool(ask.constraints.node_selector) or ask.constraints.affinity is not None
        pin(pod_spec, node_name, selects_nodes=selects_nodes)
        annotations[names.NODE_NAME_ANNOTATION] = node_name
    else:
        pod_spec["nodeName"] = node_name
    return _pod(
        sandbox, attempt, ask, pod_spec=pod_spec, annotations=annotations, overcommit_percent=overcommit_percent
    )


def build_unplaced_pod(sandbox: Sandbox, attempt: int, ask: Ask, *, overcommit_percent: int) -> dict[str, Any]:
    """Return the Pod of one attempt on whatever node kube-scheduler likes.

    Raises PodSpecError where the template asks for another architecture than the Sandbox.
    """
    pod_spec = base_pod_spec(sandbox.spec)
    if ask.constraints.architecture is not None:
        wanted = {ARCHITECTURE_LABEL: ask.constraints.architecture}
        own = pod_spec.get("nodeSelector") or {}
        pod_spec["nodeSelector"] = merged_selector(own, wanted, "podTemplate.spec", "spec.placement")
    return _pod(sandbox, attempt, ask, pod_spec=pod_spec, annotations={}, overcommit_percent=overcommit_percent)


def _pod(
    sandbox: Sandbox,
    attempt: int,
    ask: Ask,
    *,
    pod_spec: dict[str, Any],
    annotations: Mapping[str, str],
    overcommit_percent: int,
) -> dict[str, Any]:
    if ask.divides_cpu:
        request = ask.requests_at(overcommit_percent).cpu_millicores
        pod_spec["containers"][0]["resources"]["requests"]["cpu"] = format_cpu(request)
    template = sandbox.spec.pod_template
    own_annotations = {key: value for key, value in sandbox.annotations.items() if key != _KUBECTL_ANNOTATION}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": sandbox.name,
            "namespace": sandbox.namespace,
            "labels": {
                **sandbox.labels,
                **(template.metadata.labels if template else {}),
                names.ATTEMPT_LABEL: sandbox.attempt_id(attempt),
            },
            "annotations": {
                **own_annotations,
                **(template.metadata.annotations if template else {}),
                **_nominal_annotations(sandbox.spec, ask),
                **annotations,
                names.GENERATION_ANNOTATION: str(sandbox.generation),
            },
            "ownerReferences": [
                {
                    "apiVersion": names.API_VERSION,
                    "kind": names.SANDBOX_KIND,
                    "name": sandbox.name,
                    "uid": sandbox.uid,
                    "controller": True,
                }
            ],
        },
        "spec": pod_spec,
    }


def _nominal_annotations(spec: SandboxSpec, ask: Ask) -> dict[str, str]:
    """Return the sizes that were given; the others are the Pod's effective request, which the server may change."""
    annotations = {}
    if spec.resources.cpu is not None:
        annotations[names.NOMINAL_CPU_ANNOTATION] = format_cpu(ask.nominal.cpu_millicores)
    if spec.resources.memory is not None:
        annotations[names.NOMINAL_MEMORY_ANNOTATION] = format_bytes(ask.nominal.memory_bytes)
    return annotations


def _image_pod_spec(spec: SandboxSpec) -> dict[str, Any]:
    amounts = {
        "cpu": spec.resources.cpu,
        "memory": spec.resources.memory,
        "ephemeral-storage": spec.resources.ephemeral_storage,
        **spec.resources.extended,
    }
    limits = {name: amount for name, amount in amounts.items() if amount is not None}
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": spec.image,
        "resources": {"limits": limits, "requests": dict(limits)},
        "securityContext": _restricted({}),
    }
    for key, value in (("command", spec.command), ("args", spec.args)):
        if value:
            container[key] = list(value)
    for key, models in (("env", spec.env), ("ports", spec.ports)):
        if models:
            container[key] = [model.to_api() for model in models]
    pod_spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
    if spec.service_account_name:
        pod_spec["serviceAccountName"] = spec.service_account_name
    if spec.image_pull_secrets:
        pod_spec["imagePullSecrets"] = [secret.to_api() for secret in spec.image_pull_secrets]
    return _secured(pod_spec)


def _template_pod_spec(template: Mapping[str, Any]) -> dict[str, Any]:
    pod_spec = dict(template)
    if pod_spec.get("restartPolicy") is None:  # null is absent, here and below: the server would fill it in
        pod_spec["restartPolicy"] = "Never"
    if _is_windows(pod_spec):
        return _secured(pod_spec)  # seccomp, capabilities and escalation are refused there
    for key in ("containers", "initContainers"):
        containers = pod_spec.get(key)
        if isinstance(containers, list):
            pod_spec[key] = [_secured_container(container) for container in containers]
    return _secured(pod_spec)


def _secured(pod_spec: dict[str, Any]) -> dict[str, Any]:
    if pod_spec.get("automountServiceAccountToken") is None:
        pod_spec["automountServiceAccountToken"] = False
    context = pod_spec.get("securityContext") or {}
    if isinstance(context, Mapping) and not _is_windows(pod_spec):
        pod_spec["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}, **_given(context)}
    return pod_spec


def _secured_container(container: Any) -> Any:
    if not isinstance(container, Mapping):
        return container  # the API server says what is wrong with it
    context = container.get("securityContext") or {}
    if not isinstance(context, Mapping) or "windowsOptions" in context:
        return container
    return {**container, "securityContext": _restricted(context)}


def _restricted(context: Mapping[str, Any]) -> dict[str, Any]:
    if context.get("privileged"):
        return dict(context)
    secured = _given(context)
    capabilities = secured.get("capabilities") or {}
    added: set[str] = set()
    if isinstance(capabilities, Mapping):
        secured["capabilities"] = {"drop": ["ALL"], **_given(capabilities)}
        given = capabilities.get("add")
        added = {str(name) for name in given} if isinstance(given, list) else set()
    if not added & _ESCALATING_CAPABILITIES:  # the API server refuses these without escalation
        secured.setdefault("allowPrivilegeEscalation", False)
    return secured


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _is_windows(pod_spec: Mapping[str, Any]) -> bool:
    operating_system = pod_spec.get("os")
    return isinstance(operating_system, Mapping) and operating_system.get("name") == "windows"
