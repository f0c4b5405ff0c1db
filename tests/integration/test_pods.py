"""The Pod that a Sandbox becomes: secured by default, labelled, and refused with the server's own words."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from tests.integration.applying import CONTAINERS, a_sandbox, a_template_spec, an_image_spec
from tests.integration.bed import AuditLog, Objects, OperatorProgram, wait_for
from tests.integration.berths import Berths, berths_in, pod_creates
from tests.integration.conftest import Kubectl

pytestmark = pytest.mark.integration


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, operator: OperatorProgram, home: str) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as made:
        yield made


def test_a_bare_image_is_secured_and_keeps_what_was_asked_for(berths: Berths) -> None:
    berths.add_node()
    field = {"fieldRef": {"fieldPath": "spec.nodeName"}}

    berths.apply(
        "box",
        an_image_spec(
            command=["sleep"],
            args=["60"],
            env=[
                {"name": "A", "value": "1"},
                {"name": "NODE", "valueFrom": field},
            ],
            ports=[{"containerPort": 8080, "name": "http"}],
            imagePullSecrets=[{"name": "pull"}],
        ),
    )
    berths.running("box")

    spec = berths.pod("box")["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["restartPolicy"] == "Never"
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert not spec.get("volumes")
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (container["command"], container["args"]) == (["sleep"], ["60"])
    assert container["env"][0] == {"name": "A", "value": "1"}
    assert container["env"][1]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert container["ports"] == [{"containerPort": 8080, "name": "http", "protocol": "TCP"}]


def test_in_a_template_only_what_is_absent_is_filled_in(berths: Berths) -> None:
    berths.add_node()
    own = {"allowPrivilegeEscalation": True, "runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}}
    containers = [{"name": "own", "image": "busybox", "securityContext": own}, {"name": "bare", "image": "busybox"}]

    berths.apply(
        "box",
        a_template_spec(
            containers=containers,
            initContainers=[{"name": "init", "image": "busybox"}],
            automountServiceAccountToken=True,
            restartPolicy="Always",
            securityContext={"seccompProfile": {"type": "Unconfined"}, "fsGroup": 5},
        ),
    )
    berths.running("box")

    spec = berths.pod("box")["spec"]
    assert spec["automountServiceAccountToken"] is True
    assert spec["restartPolicy"] == "Always"
    assert spec["securityContext"] == {"seccompProfile": {"type": "Unconfined"}, "fsGroup": 5}
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert spec["containers"][0]["securityContext"] == {
        **own,
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
    }
    assert spec["containers"][1]["securityContext"] == restricted
    assert spec["initContainers"][0]["securityContext"] == restricted


def test_a_pod_passes_the_restricted_standard_by_default_but_for_its_user(berths: Berths, objects: Objects) -> None:
    objects.patch(
        "Namespace",
        berths.namespace,
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
    )
    berths.add_node()

    berths.apply("image")
    berths.apply("template", a_template_spec(securityContext={"runAsNonRoot": True}))
    message = berths.refused("image", "RefusedByPolicy")

    berths.running("template")
    assert 'violates PodSecurity "restricted:latest": runAsNonRoot != true' in message
    assert "seccomp" not in message
    assert "capabilities" not in message


def test_labels_and_annotations_go_to_the_pod_and_those_of_kubectl_do_not(
    berths: Berths, kubectl: Kubectl, home: str
) -> None:
    node = berths.add_node()
    spec = a_template_spec() | {"placement": {"nodeSelector": berths.selector}}
    spec["podTemplate"]["metadata"] = {"labels": {"tier": "pod"}, "annotations": {"note": "pod"}}
    labels, annotations = {"app": "demo", "tier": "sandbox"}, {"note": "sandbox", "owner": "me"}

    kubectl("apply", "-f", "-", input=a_sandbox(home, spec, labels=labels, annotations=annotations))
    berths.running("box")

    metadata = berths.pod("box")["metadata"]
    sandbox = json.loads(kubectl("get", "sandbox", "box", "-n", home, "-o", "json").stdout)["metadata"]
    assert "kubectl.kubernetes.io/last-applied-configuration" in sandbox["annotations"]
    assert metadata["labels"] == {"app": "demo", "tier": "pod", names.ATTEMPT_LABEL: f"{sandbox['uid']}.1"}
    assert metadata["annotations"] == {
        "note": "pod",
        "owner": "me",
        names.GENERATION_ANNOTATION: str(sandbox["generation"]),
        names.NODE_UID_ANNOTATION: berths.node(node)["metadata"]["uid"],
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Sandbox", "box", sandbox["uid"])
    assert owner["controller"] is True


def test_the_nominal_size_stands_on_the_pod_of_an_image(berths: Berths) -> None:
    berths.add_node()

    berths.apply("box", an_image_spec(cpu="1500m", memory="0.5Gi"))
    berths.running("box")

    annotations = berths.pod("box")["metadata"]["annotations"]
    assert annotations[names.NOMINAL_CPU_ANNOTATION] == "1500m"
    assert annotations[names.NOMINAL_MEMORY_ANNOTATION] == "512Mi"


def test_a_typo_in_a_template_is_refused_in_the_words_of_the_server_until_corrected(
    berths: Berths, audit: AuditLog
) -> None:
    node = berths.add_node(pods=1)
    container = {"name": "main", "image": "busybox"}
    position = audit.position()

    berths.apply("box", a_template_spec(containers=[{**container, "comand": ["sleep"]}]))
    message = berths.refused("box", "InvalidPod")
    berths.apply("other")
    berths.running("other")  # the only place is free again
    berths.delete("other")
    wait_for(lambda: not berths.nodes_of(), what="the place is free again")
    berths.correct("box", podTemplate={"spec": {"containers": [{**container, "command": ["sleep"]}]}})

    assert 'unknown field "spec.containers[0].comand"' in message
    assert berths.running("box")["nodeName"] == node
    assert berths.status("box")["observedGeneration"] == 2
    answers = pod_creates(audit, berths.namespace, position)
    assert set(answers) == {400, 201}
    assert answers.count(201) == 2


def test_what_the_server_refuses_is_not_sent_again_in_a_hot_loop(berths: Berths, audit: AuditLog) -> None:
    berths.add_node()
    position = audit.position()
    began = time.monotonic()

    berths.apply("box", a_template_spec(containers=[{"name": "Main", "image": "busybox"}]))
    wait_for(lambda: len(pod_creates(audit, berths.namespace, position)) == 3, what="it is sent a third time")

    # Two pauses, of 1 and 2 s but for a fifth, lie before it; a busy machine only makes them longer.
    assert time.monotonic() - began > 0.8 + 1.6
    writes = [w for w in audit.writes(position) if (w.resource, w.namespace) == ("sandboxes/status", berths.namespace)]
    assert len(writes) == 1
    assert "spec.containers[0].name" in berths.refused("box", "InvalidPod")


def test_one_bad_sandbox_stops_no_other(berths: Berths) -> None:
    berths.add_node()
    good = [f"good-{number}" for number in range(5)]

    for number, name in enumerate(good):
        berths.apply(f"bad-{number}", a_template_spec(containers=[{"name": "main", "imagee": "busybox"}]))
        berths.apply(name)

    berths.running(*good)
    for number in range(5):
        assert 'unknown field "spec.containers[0].imagee"' in berths.refused(f"bad-{number}", "InvalidPod")


def test_a_quota_that_is_used_up_is_named_and_room_in_it_is_taken_at_once(berths: Berths, objects: Objects) -> None:
    node = berths.add_node()
    objects.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "one", "namespace": berths.namespace},
            "spec": {"hard": {"pods": "1"}},
        }
    )
    wait_for(
        lambda: ((objects.get("ResourceQuota", "one", berths.namespace) or {}).get("status") or {}).get("hard"),
        what="the quota is counted",
    )
    berths.apply("first")
    berths.running("first")

    berths.apply("second")
    message = berths.refused("second", "QuotaExceeded")
    berths.delete("first")

    assert "exceeded quota: one, requested: pods=1, used: pods=1, limited: pods=1" in message
    assert berths.running("second")["nodeName"] == node


def _container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{**CONTAINERS[0], **fields}]}


# Name of the Sandbox -> what its template says, and what the status must name.
MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "selector": ({"nodeSelector": ["disk"]}, "nodeSelector"),
    "affinity": ({"affinity": "near"}, "affinity"),
    "terms": (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
        "nodeSelectorTerms",
    ),
    "toleration": ({"tolerations": [{"key": 5}]}, "tolerations[0].key"),
    "context": ({"securityContext": "none"}, "securityContext"),
    "container-context": (_container(securityContext=5), "containers.securityContext"),
    "capabilities": (_container(securityContext={"capabilities": {"add": 5}}), "capabilities.add"),
    "resources": (_container(resources={"requests": {"cpu": "lots"}}), "'lots' is not a quantity"),
    "negative": (_container(resources={"requests": {"cpu": "-1"}}), "request for cpu is negative"),
    "ports": (_container(ports=80), "containers[0].ports"),
    "overhead": ({"overhead": "much"}, "overhead"),
    "runtime": ({"runtimeClassName": 5}, "runtimeClassName"),
    "spread": ({"topologySpreadConstraints": 5}, "topologySpreadConstraints"),
    "os": ({"os": "windows"}, "spec.os"),
    "policy": ({"restartPolicy": "Sometimes"}, "restartPolicy"),
}


def test_every_malformed_template_is_an_invalid_pod_that_names_the_fault(berths: Berths) -> None:
    berths.add_node()

    for name, (fields, _) in MALFORMED.items():
        berths.apply(name, a_template_spec(**fields))

    for name, (_, fault) in MALFORMED.items():
        assert fault in berths.refused(name, "InvalidPod")
