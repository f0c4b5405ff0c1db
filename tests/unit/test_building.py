"""From a Sandbox to the body of its Pod."""

import copy
from typing import Any

import pytest

from sandberth.kube import names
from sandberth.kube.building import ask_of, base_pod_spec, build_pod
from tests.unit.sandbox_specs import a_sandbox, a_template, an_image

RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _pod(spec: dict[str, Any], *, overcommit_percent: int = 400, **metadata: Any) -> dict[str, Any]:
    sandbox = a_sandbox(spec, **metadata)
    return build_pod(
        sandbox,
        2,
        ask_of(sandbox.spec),
        node_name="node-a",
        node_uid="n-1",
        overcommit_percent=overcommit_percent,
    )


# --- the body ---


def test_the_pod_has_the_name_the_owner_and_the_marks_of_its_attempt() -> None:
    pod = _pod(an_image(cpu="1500m"))

    assert pod["metadata"] == {
        "name": "box",
        "namespace": "home",
        "labels": {names.ATTEMPT_LABEL: "u-1.2"},
        "annotations": {
            names.NOMINAL_CPU_ANNOTATION: "1500m",
            names.NOMINAL_MEMORY_ANNOTATION: "1Gi",
            names.NODE_UID_ANNOTATION: "n-1",
            names.GENERATION_ANNOTATION: "3",
        },
        "ownerReferences": [
            {"apiVersion": names.API_VERSION, "kind": "Sandbox", "name": "box", "uid": "u-1", "controller": True}
        ],
    }
    assert pod["spec"]["nodeName"] == "node-a"


def test_labels_of_the_template_win_over_those_of_the_sandbox_and_kubectls_annotation_stays_behind() -> None:
    spec = a_template()
    spec["podTemplate"]["metadata"] = {"labels": {"a": "pod"}, "annotations": {"n": "pod"}}

    pod = _pod(
        spec,
        labels={"a": "sandbox", "b": "sandbox"},
        annotations={"n": "sandbox", "kubectl.kubernetes.io/last-applied-configuration": "{}", "m": "sandbox"},
    )

    assert pod["metadata"]["labels"] == {"a": "pod", "b": "sandbox", names.ATTEMPT_LABEL: "u-1.2"}
    annotations = pod["metadata"]["annotations"]
    assert (annotations["n"], annotations["m"]) == ("pod", "sandbox")
    assert not any("kubectl" in key for key in annotations)


def test_what_is_sandberths_cannot_be_overridden_by_labels_or_annotations() -> None:
    pod = _pod(
        an_image(),
        labels={names.ATTEMPT_LABEL: "forged"},
        annotations={names.NODE_UID_ANNOTATION: "forged", names.NOMINAL_CPU_ANNOTATION: "forged"},
    )

    assert pod["metadata"]["labels"][names.ATTEMPT_LABEL] == "u-1.2"
    assert pod["metadata"]["annotations"][names.NODE_UID_ANNOTATION] == "n-1"
    assert pod["metadata"]["annotations"][names.NOMINAL_CPU_ANNOTATION] == "1"


def test_a_template_without_a_nominal_size_leaves_it_to_the_requests_that_the_server_sets() -> None:
    annotations = _pod(a_template({"resources": {"requests": {"cpu": "1"}}}))["metadata"]["annotations"]

    assert names.NOMINAL_CPU_ANNOTATION not in annotations
    assert names.NOMINAL_MEMORY_ANNOTATION not in annotations


def test_a_template_with_a_nominal_size_says_it() -> None:
    annotations = _pod(a_template() | {"resources": {"cpu": "2", "memory": "4Gi"}})["metadata"]["annotations"]

    assert annotations[names.NOMINAL_CPU_ANNOTATION] == "2"
    assert annotations[names.NOMINAL_MEMORY_ANNOTATION] == "4Gi"


@pytest.mark.parametrize(
    ("cpu", "percent", "request_cpu"),
    [
        ("1", 400, "250m"),
        ("1", 300, "333m"),
        ("1m", 400, "1m"),
        ("7m", 400, "1m"),
        ("2", 100, "2"),
        ("2", 50, "2"),
        ("1e3", 10_000, "10"),
    ],
)
def test_the_cpu_request_of_an_image_is_divided_by_overcommitment(cpu: str, percent: int, request_cpu: str) -> None:
    (container,) = _pod(an_image(cpu=cpu), overcommit_percent=percent)["spec"]["containers"]

    assert container["resources"]["requests"]["cpu"] == request_cpu
    assert container["resources"]["limits"] == {"cpu": cpu, "memory": "1Gi"}
    assert container["resources"]["requests"]["memory"] == "1Gi"


def test_the_requests_of_a_template_stand_as_they_are() -> None:
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}

    (container,) = _pod(a_template({"resources": resources}))["spec"]["containers"]

    assert container["resources"] == resources


def test_the_rarer_resources_of_an_image_are_requested_and_limited() -> None:
    rarer = {"ephemeralStorage": "5Gi", "extended": {"example.com/gpu": "2"}}

    (container,) = _pod(an_image(resources=rarer))["spec"]["containers"]

    for amounts in (container["resources"]["requests"], container["resources"]["limits"]):
        assert amounts["ephemeral-storage"] == "5Gi"
        assert amounts["example.com/gpu"] == "2"


def test_the_shorthand_fields_of_an_image_go_to_the_pod_and_absent_ones_do_not() -> None:
    spec = _pod(
        an_image(
            command=["a"],
            args=["b"],
            env=[{"name": "E", "value": ""}],
            ports=[{"containerPort": 80}],
            imagePullSecrets=[{"name": "s"}],
            serviceAccountName="robot",
        )
    )["spec"]
    bare = _pod(an_image())["spec"]

    (container,) = spec["containers"]
    assert container["command"] == ["a"]
    assert container["args"] == ["b"]
    assert container["env"] == [{"name": "E", "value": ""}]
    assert container["ports"][0]["containerPort"] == 80
    assert spec["imagePullSecrets"] == [{"name": "s"}]
    assert spec["serviceAccountName"] == "robot"
    assert set(bare["containers"][0]) == {"name", "image", "resources", "securityContext"}
    assert set(bare) == {
        "containers",
        "restartPolicy",
        "automountServiceAccountToken",
        "securityContext",
        "nodeName",
    }


def test_building_changes_nothing_in_the_sandbox() -> None:
    sandbox = a_sandbox(a_template(initContainers=[{"name": "i", "image": "b"}], nodeSelector={"a": "b"}))
    before = copy.deepcopy(sandbox)
    ask = ask_of(sandbox.spec)

    build_pod(sandbox, 1, ask, node_name="n", node_uid="u", overcommit_percent=400)

    assert sandbox == before


# --- secured by default ---


def test_a_bare_image_is_restricted() -> None:
    spec = base_pod_spec(a_sandbox(an_image()).spec)

    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["restartPolicy"] == "Never"
    assert spec["containers"][0]["securityContext"] == RESTRICTED


def test_a_template_gets_only_what_it_leaves_open() -> None:
    spec = base_pod_spec(
        a_sandbox(
            a_template(
                {"securityContext": {"runAsUser": 5}},
                initContainers=[{"name": "i", "image": "b"}],
                securityContext={"fsGroup": 5},
                restartPolicy="OnFailure",
            )
        ).spec
    )

    assert spec["restartPolicy"] == "OnFailure"
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 5}
    assert spec["containers"][0]["securityContext"] == {"runAsUser": 5, **RESTRICTED}
    assert spec["initContainers"][0]["securityContext"] == RESTRICTED


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"capabilities": {"drop": []}}, {"allowPrivilegeEscalation": False, "capabilities": {"drop": []}}),
        ({"capabilities": {"add": ["SYS_ADMIN"]}}, {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}),
        ({"allowPrivilegeEscalation": True}, {"allowPrivilegeEscalation": True, "capabilities": {"drop": ["ALL"]}}),
        ({"privileged": True}, {"privileged": True}),
        ({"windowsOptions": {"hostProcess": False}}, {"windowsOptions": {"hostProcess": False}}),
        (
            {"capabilities": {"add": 5}},
            {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": 5}},
        ),
        ({"capabilities": "all"}, {"allowPrivilegeEscalation": False, "capabilities": "all"}),
        (None, RESTRICTED),
    ],
)
def test_what_a_container_says_of_its_security_stands(given: Any, expected: dict[str, Any]) -> None:
    spec = base_pod_spec(a_sandbox(a_template({"securityContext": given})).spec)

    assert spec["containers"][0]["securityContext"] == expected


def test_a_windows_pod_gets_no_seccomp_profile() -> None:
    assert "securityContext" not in base_pod_spec(a_sandbox(a_template(os={"name": "windows"})).spec)


@pytest.mark.parametrize(
    "pod",
    [
        {"containers": ["text"]},
        {"containers": [{"name": "main", "securityContext": "text"}]},
        {"containers": ["text", 5]},
        {"initContainers": "text"},
        {"securityContext": ["text"]},
    ],
)
def test_what_makes_no_sense_is_left_for_the_server_to_name(pod: dict[str, Any]) -> None:
    spec = {"podTemplate": {"spec": {"containers": [{"name": "main"}], **pod}}}

    built = base_pod_spec(a_sandbox(spec).spec)

    for key, value in pod.items():
        assert built[key] == value
