"""What the API server refuses: told in its own words, tried again with pauses, healed when the cause goes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from sandberth.kube import names
from tests.integration.applying import an_image_spec
from tests.integration.bed import AuditLog, Object, Objects, OperatorProgram, wait_for
from tests.integration.berths import condition
from tests.integration.boxes import Boxes, plays, ready_pod

pytestmark = pytest.mark.integration

POLICY = "admissionregistration.k8s.io/v1"


@pytest.fixture
def boxes(objects: Objects, home: str, operator: OperatorProgram) -> Boxes:
    return Boxes(objects, home)


def a_quota(namespace: str, **hard: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"hard": hard},
    }


def with_quota(objects: Objects, namespace: str, pods: int) -> None:
    objects.create(a_quota(namespace, pods=str(pods)))
    counted = "the quota is counted"
    wait_for(
        lambda: (objects.get("ResourceQuota", "quota", namespace) or {}).get("status", {}).get("used"), 20, counted
    )


def creates(audit: AuditLog, since: int, namespace: str) -> int:
    return sum(w.namespace == namespace and w.verb == "create" for w in audit.writes(since))


def test_a_sandbox_over_the_quota_says_so_in_the_servers_words_and_runs_when_a_pod_ends(
    boxes: Boxes, objects: Objects, audit: AuditLog
) -> None:
    with_quota(objects, boxes.namespace, 1)
    since = audit.position()
    boxes.apply("first")
    boxes.has_phase("Running", "first")
    boxes.apply("second")

    placed = boxes.has_reason("Placed", "QuotaExceeded", "second", 5)
    assert "exceeded quota: quota" in placed["message"]
    assert boxes.status("second")["phase"] == "Pending"
    assert "nodeName" not in boxes.status("second")
    boxes.apply("clock", annotations=plays())  # over the quota too
    boxes.has_reason("Placed", "QuotaExceeded", "clock", 5)
    assert creates(audit, since, boxes.namespace) <= 6

    boxes.delete("first")

    wait_for(lambda: boxes.phases()["Running"] == 1, 5, "one of the two runs")
    boxes.delete("second")
    boxes.has_phase("Running", "clock", 5)


def test_all_run_soon_after_the_quota_is_raised(boxes: Boxes, objects: Objects, audit: AuditLog) -> None:
    with_quota(objects, boxes.namespace, 0)
    for number in range(12):
        boxes.apply(f"box-{number}")
    for number in range(12):
        boxes.has_reason("Placed", "QuotaExceeded", f"box-{number}")
    since = audit.position()

    objects.patch("ResourceQuota", "quota", {"spec": {"hard": {"pods": "50"}}}, boxes.namespace)

    boxes.all_run(12, 15)
    assert creates(audit, since, boxes.namespace) <= 12 + 12


@pytest.fixture
def no_pods_policy(objects: Objects, home: str) -> Iterator[str]:
    """A policy of the cluster's administrator that denies all Pods in the namespace; return its name."""
    name = f"no-pods-in-{home}"
    here = {"matchLabels": {"kubernetes.io/metadata.name": home}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {"namespaceSelector": here, "resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "no pods on a Sunday"}],
    }
    kind = "ValidatingAdmissionPolicy"
    objects.create({"apiVersion": POLICY, "kind": kind, "metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    objects.create({"apiVersion": POLICY, "kind": f"{kind}Binding", "metadata": {"name": name}, "spec": binding})
    yield name
    objects.delete(f"{kind}Binding", name)
    objects.delete(kind, name)


def test_a_sandbox_that_a_policy_refuses_says_so_and_runs_when_the_policy_goes(
    boxes: Boxes, objects: Objects, no_pods_policy: str
) -> None:
    number = iter(range(1000))

    def refused() -> bool:  # the server compiles a policy a moment after it was made
        name = f"box-{next(number)}"
        boxes.apply(name)
        wait_for(lambda: boxes.status(name).get("phase") in {"Pending", "Running"}, what="an answer")
        return boxes.reason("Placed", name) == "RefusedByPolicy"

    wait_for(refused, what="the policy acts")
    name = f"box-{next(number) - 1}"
    assert "no pods on a Sunday" in boxes.message("Placed", name)

    objects.delete("ValidatingAdmissionPolicyBinding", no_pods_policy)

    boxes.has_phase("Running", name, 20)


def test_a_template_that_pod_security_forbids_says_what_is_wrong_and_runs_when_it_is_corrected(
    boxes: Boxes, objects: Objects
) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    objects.patch("Namespace", boxes.namespace, {"metadata": {"labels": label}})
    containers = [{"name": "main", "image": "busybox", "securityContext": {"runAsUser": 0}}]
    boxes.apply(spec={"podTemplate": {"spec": {"containers": containers}}})

    placed = boxes.has_reason("Placed", "RefusedByPolicy")
    assert "PodSecurity" in placed["message"]
    assert "runAsNonRoot" in placed["message"]

    good = [{"name": "main", "image": "busybox", "securityContext": {"runAsNonRoot": True}}]
    boxes.patch(spec={"podTemplate": {"spec": {"containers": good}}})
    boxes.has_phase("Running", seconds=3)


def test_a_typo_in_a_template_is_refused_in_the_servers_words_and_a_correction_heals_it_at_once(boxes: Boxes) -> None:
    containers = [{"name": "main", "image": "busybox"}]
    boxes.apply(spec={"podTemplate": {"spec": {"containers": containers, "restartPolcy": "Never"}}})

    placed = boxes.has_reason("Placed", "InvalidPod", seconds=3)
    assert "restartPolcy" in placed["message"]
    assert placed["observedGeneration"] == 1

    boxes.patch(spec={"podTemplate": {"spec": {"restartPolcy": None}}})
    status = boxes.has_phase("Running", seconds=3)
    assert status["observedGeneration"] == 2


def test_an_invalid_sandbox_is_tried_again_with_growing_pauses_and_few_writes(boxes: Boxes, audit: AuditLog) -> None:
    since = audit.position()
    boxes.apply("wrong", an_image_spec("100m", "64Mi", serviceAccountName="no-such-account"))
    boxes.has_reason("Placed", "RefusedByPolicy", "wrong")
    boxes.apply("clock", annotations=plays(exit="0", exit_after="4s"))
    boxes.has_phase("Succeeded", "clock")

    writes = [w for w in audit.writes(since) if w.namespace == boxes.namespace and w.name in {"wrong", ""}]
    tries = [w for w in writes if w.resource == "pods" and w.code >= 400]
    patches = [w for w in writes if w.resource == "sandboxes/status" and w.name == "wrong"]
    assert 2 <= len(tries) <= 5
    assert len(patches) == 1


def test_a_missing_service_account_heals_when_it_is_made(boxes: Boxes, objects: Objects) -> None:
    boxes.apply(spec=an_image_spec("100m", "64Mi", serviceAccountName="late"))
    assert "late" in boxes.has_reason("Placed", "RefusedByPolicy")["message"]

    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    objects.create({**account, "metadata": {"name": "late", "namespace": boxes.namespace}})

    boxes.has_phase("Running", seconds=10)


def test_one_bad_sandbox_never_stops_the_others(boxes: Boxes) -> None:
    bad = {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "busybox", "ports": "none"}]}}}
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: boxes.apply(f"bad-{n}", bad), range(3)))
        list(threads.map(lambda n: boxes.apply(f"good-{n}"), range(20)))

    wait_for(lambda: boxes.phases() == {"Running": 20, "Pending": 3}, 10, "the good ones run")

    for number in range(3):
        assert boxes.reason("Placed", f"bad-{number}") == "InvalidPod"


def test_a_spec_corrected_before_it_was_placed_is_the_one_that_runs(boxes: Boxes, objects: Objects) -> None:
    numbers = range(15)
    for number in numbers:
        boxes.apply(f"box-{number}")
        with suppress(ApiException):  # placed already, and so immutable
            boxes.patch(f"box-{number}", spec={"image": "busybox:corrected"})

    boxes.all_run(len(numbers))

    for number in numbers:
        sandbox, pod = boxes.sandbox(f"box-{number}") or {}, boxes.pod(f"box-{number}") or {}
        assert pod["spec"]["containers"][0]["image"] == sandbox["spec"]["image"]
        assert pod["metadata"]["annotations"][names.GENERATION_ANNOTATION] == str(sandbox["metadata"]["generation"])
    assert boxes.one_pod_each()


def test_room_that_a_refused_create_gives_back_goes_to_the_next_that_waits(boxes: Boxes, objects: Objects) -> None:
    account = {"serviceAccountName": "no-such-account"}
    for number in range(4):  # each asks for more than half a node: the refused ones hold it for a moment only
        boxes.apply(f"bad-{number}", an_image_spec("500", "1Gi", **account))
    for number in range(10):
        boxes.apply(f"good-{number}", an_image_spec("500", "1Gi"))

    wait_for(lambda: boxes.phases()["Running"] == 10, 10, "all nodes are full of good ones")

    assert condition(boxes.status("bad-0"), "Placed")["status"] == "False"
    ready_pod(boxes, "good-9")
