"""What a real API server takes and refuses at apply, and with which words."""

import json
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest

from sandberth.kube.names import HOST_FEATURES_ANNOTATION, NAMESPACE
from tests.integration.applying import (
    CONTAINERS,
    Kubectl,
    a_sandbox,
    a_template_spec,
    an_image_spec,
    dry_run,
    eventually,
    settled,
)

pytestmark = pytest.mark.integration

CPU_MESSAGE = "spec.resources.cpu: Invalid value: {}: cpu must be a quantity from 1m to 99999"
MEMORY_MESSAGE = "spec.resources.memory: Invalid value: {}: memory must be a quantity from 1Mi to less than 1Pi"
IMMUTABLE = "spec is immutable once the Sandbox is placed on a node; only spec.lifetime may change"


@pytest.fixture
def home(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """A namespace in which the policies are seen to act."""
    yield settled(kubectl, namespace)
    kubectl("delete", "namespace", namespace, "--wait=false")


def patch(kubectl: Kubectl, namespace: str, body: object, *options: str, kind: str = "merge") -> CompletedProcess[str]:
    return kubectl(
        *("-n", namespace, "patch", "sandboxes.sandberth.dev", "box", "--type", kind),
        *("-p", json.dumps(body), *options),
        check=False,
    )


def place(kubectl: Kubectl, namespace: str, node: str | None) -> None:
    result = patch(kubectl, namespace, {"status": {"nodeName": node}}, "--subresource", "status")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("cpu", [1, "1", "0.5", "1e3", "1E3", "12e-3", "500m", ".5", "+2", 2.0, "99999", "1m"])
def test_every_legal_spelling_of_cpu_is_accepted(kubectl: Kubectl, home: str, cpu: object) -> None:
    result = dry_run(kubectl, home, an_image_spec(cpu=cpu))

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("memory", ["1Mi", "129e6", 129_000_000, "128974848000m", "0.5Gi", "1023Ti", "2G"])
def test_every_legal_spelling_of_memory_is_accepted(kubectl: Kubectl, home: str, memory: object) -> None:
    result = dry_run(kubectl, home, an_image_spec(memory=memory))

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("cpu", ["", "-1", -1, 0, "0", "1GiB", "1.5e", "abc", "1E", "1n", "100k", "129e6"])
def test_bad_cpu_is_refused_by_name(kubectl: Kubectl, home: str, cpu: object) -> None:
    result = dry_run(kubectl, home, an_image_spec(cpu=cpu))

    assert CPU_MESSAGE.format(json.dumps(cpu)) in result.stderr


@pytest.mark.parametrize("memory", ["", "-1", 0, "1GiB", "1.5e", "1E", "1Pi", 1000, "1023Ki"])
def test_bad_memory_is_refused_by_name(kubectl: Kubectl, home: str, memory: object) -> None:
    result = dry_run(kubectl, home, an_image_spec(memory=memory))

    assert MEMORY_MESSAGE.format(json.dumps(memory)) in result.stderr


@pytest.mark.parametrize("cpu", [0.5, True])
def test_cpu_of_another_type_is_refused_by_name(kubectl: Kubectl, home: str, cpu: object) -> None:
    result = dry_run(kubectl, home, an_image_spec(cpu=cpu))

    assert "spec.resources.cpu in body must be of type integer,string" in result.stderr


def _with_resources(**fields: Any) -> dict[str, Any]:
    return {"image": "busybox:1.36", "resources": {"cpu": 1, "memory": "1Gi", **fields}}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec: Invalid value: exactly one of image and podTemplate must be set"),
        ({**an_image_spec(), **a_template_spec()}, "exactly one of image and podTemplate must be set"),
        ({"image": "busybox:1.36"}, "resources.cpu and resources.memory are required with image"),
        ({"image": "b", "resources": {"cpu": 1}}, "resources.cpu and resources.memory are required with image"),
        (an_image_spec() | {"image": ""}, 'spec.image: Invalid value: "": image must be the name of a container'),
        (an_image_spec() | {"image": "a b"}, "image must be the name of a container image"),
        ({**a_template_spec(), "args": ["x"]}, "serviceAccountName belong to image; with podTemplate they stand in"),
        ({"podTemplate": {"spec": {"containers": []}}}, "spec.podTemplate.spec.containers"),
        ({"podTemplate": {"spec": {}}}, "spec.podTemplate.spec.containers: Required value"),
        (an_image_spec(recovery="Always"), 'spec.recovery: Unsupported value: "Always"'),
        (an_image_spec(lifetime={"shutdownTime": "tomorrow"}), "spec.lifetime.shutdownTime"),
        (an_image_spec(lifetime={"ttlSecondsAfterFinished": -1}), "spec.lifetime.ttlSecondsAfterFinished"),
        (an_image_spec(lifetime={"startDeadlineSeconds": 0}), "spec.lifetime.startDeadlineSeconds"),
        (an_image_spec(placement={"preferredNode": "No Node"}), "preferredNode must be the name of a Node"),
        (an_image_spec(placement={"architecture": "x86 64"}), "architecture must be the name of one"),
        (an_image_spec(placement={"nodeSelector": {"a": "b c"}}), "spec.placement.nodeSelector.a"),
        (an_image_spec(env=[{"name": "a=b"}]), "spec.env[0].name"),
        (
            an_image_spec(env=[{"name": "a", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "c"}}}]),
            "spec.env[0]",
        ),
        (an_image_spec(ports=[{"containerPort": 65536}]), "spec.ports[0].containerPort"),
        (_with_resources(ephemeralStorage=0), "ephemeralStorage must be a quantity from 1Mi"),
        (_with_resources(extended={"gpu": 1}), "an extended resource needs a name with a domain"),
        (_with_resources(extended={"kubernetes.io/batch": 1}), "an extended resource needs a name with a domain"),
        (_with_resources(extended={"a.b/c": "0.5"}), "spec.resources.extended[a.b/c]: Invalid value"),
        (_with_resources(extended={"a.b/c": -1}), "an extended resource must be a whole number from 1"),
        (
            {"podTemplate": {"metadata": {"labels": {"sandberth.dev/x": "y"}}, "spec": {"containers": CONTAINERS}}},
            "labels that start with sandberth.dev/ belong to Sandberth",
        ),
        (
            {
                "podTemplate": {
                    "metadata": {"annotations": {"sandberth.dev/x": "y"}},
                    "spec": {"containers": CONTAINERS},
                }
            },
            "annotations that start with sandberth.dev/ belong to Sandberth",
        ),
    ],
)
def test_bad_spec_is_refused_by_name(kubectl: Kubectl, home: str, spec: dict[str, Any], message: str) -> None:
    result = dry_run(kubectl, home, spec)

    assert message in result.stderr


PRIVILEGED = {"name": "evil", "image": "b", "securityContext": {"privileged": True}}


@pytest.mark.parametrize(
    ("pod_fields", "message"),
    [
        ({"hostNetwork": True}, "hostNetwork is not allowed in a Sandbox"),
        ({"hostPID": True}, "hostPID is not allowed in a Sandbox"),
        ({"hostIPC": True}, "hostIPC is not allowed in a Sandbox"),
        ({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}, "hostPath is not allowed in a Sandbox"),
        ({"containers": [PRIVILEGED]}, "privileged is not allowed in a Sandbox (container evil)"),
        ({"initContainers": [PRIVILEGED]}, "privileged is not allowed in a Sandbox (container evil)"),
        ({"nodeName": "node-1"}, "nodeName is chosen by Sandberth; use spec.placement.preferredNode"),
        ({"schedulerName": "other"}, "schedulerName is not supported"),
        ({"schedulingGates": [{"name": "a.b/c"}]}, "schedulingGates are not supported"),
        ({"ephemeralContainers": [{"name": "debug"}]}, "ephemeralContainers cannot be part of a new Pod"),
    ],
)
def test_template_that_reaches_for_the_host_or_the_node_is_refused(
    kubectl: Kubectl, home: str, pod_fields: dict[str, Any], message: str
) -> None:
    result = dry_run(kubectl, home, a_template_spec(**pod_fields))

    assert message in result.stderr


def test_harmless_values_of_those_fields_are_accepted(kubectl: Kubectl, home: str) -> None:
    spec = a_template_spec(
        hostNetwork=False, schedulerName="default-scheduler", volumes=[{"name": "a", "emptyDir": {}}]
    )

    result = dry_run(kubectl, home, spec)

    assert result.returncode == 0, result.stderr


def test_an_annotation_on_the_operators_namespace_allows_a_host_feature(kubectl: Kubectl, home: str) -> None:
    def allow(features: str) -> None:
        kubectl("annotate", "namespace", NAMESPACE, "--overwrite", f"{HOST_FEATURES_ANNOTATION}={features}")

    def is_allowed() -> bool:
        return dry_run(kubectl, home, a_template_spec(hostIPC=True)).returncode == 0

    try:
        allow("hostPath, hostIPC")

        eventually(is_allowed)
        assert "hostPID is not allowed" in dry_run(kubectl, home, a_template_spec(hostPID=True)).stderr
    finally:
        allow("")
    eventually(lambda: not is_allowed())


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_our_prefix_on_a_sandbox_is_refused(kubectl: Kubectl, home: str, kind: str) -> None:
    result = dry_run(kubectl, home, an_image_spec(), **{kind: {"sandberth.dev/attempt": "x.1"}})

    assert f"metadata.{kind}: keys that start with sandberth.dev/ belong to Sandberth" in result.stderr


CHANGES: list[dict[str, Any]] = [
    {"image": "busybox:1.37"},
    {"command": ["sh"]},
    {"args": None},
    {"env": [{"name": "A", "value": "2"}]},
    {"ports": [{"containerPort": 81}]},
    {"imagePullSecrets": [{"name": "other"}]},
    {"serviceAccountName": "other"},
    {"resources": {"cpu": 2}},
    {"placement": {"preferredNode": "node-2"}},
    {"recovery": "Never"},
    {"image": None, **a_template_spec()},
]


def test_placed_spec_is_immutable_but_for_lifetime(kubectl: Kubectl, home: str) -> None:
    spec = an_image_spec(
        args=["a"],
        env=[{"name": "A", "value": "1"}],
        ports=[{"containerPort": 80}],
        imagePullSecrets=[{"name": "pull"}],
        serviceAccountName="one",
    )
    kubectl("create", "-f", "-", input=a_sandbox(home, spec))
    place(kubectl, home, "node-1")

    answers = [patch(kubectl, home, {"spec": change}).stderr for change in CHANGES]
    lifetime = patch(kubectl, home, {"spec": {"lifetime": {"ttlSecondsAfterFinished": 5}}})

    assert [change for change, answer in zip(CHANGES, answers, strict=True) if IMMUTABLE not in answer] == []
    assert lifetime.returncode == 0, lifetime.stderr


def test_unplaced_spec_may_be_corrected_again(kubectl: Kubectl, home: str) -> None:
    kubectl("create", "-f", "-", input=a_sandbox(home, an_image_spec()))
    place(kubectl, home, "node-1")
    placed = patch(kubectl, home, {"spec": {"image": "busybox:1.37"}})

    place(kubectl, home, None)
    cleared = patch(kubectl, home, {"spec": {"image": "busybox:1.37"}})

    assert IMMUTABLE in placed.stderr
    assert cleared.returncode == 0, cleared.stderr


@pytest.mark.parametrize("path", ["/spec/podTemplate/spec", "/spec/podTemplate/spec/containers/0"])
def test_unknown_template_key_swapped_for_another_is_a_change(kubectl: Kubectl, home: str, path: str) -> None:
    containers = [{**CONTAINERS[0], "typo1": "v"}]
    kubectl("create", "-f", "-", input=a_sandbox(home, a_template_spec(typo1="v", containers=containers)))
    place(kubectl, home, "node-1")
    swap = [{"op": "move", "from": f"{path}/typo1", "path": f"{path}/typo2"}]

    placed = patch(kubectl, home, swap, kind="json")
    place(kubectl, home, None)
    cleared = patch(kubectl, home, swap, kind="json")

    assert IMMUTABLE in placed.stderr
    assert cleared.returncode == 0, cleared.stderr
