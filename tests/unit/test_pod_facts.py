"""What the cache keeps of a Pod, from what the API server sends."""

import json
from typing import Any

import msgspec
import pytest

from sandberth.core.resources import Requests, Resources
from sandberth.kube.pods import PodFacts, PodSpecError, convert_pod, decode_pod, spec_requests

SANDBOX = {
    "apiVersion": "sandberth.dev/v1alpha1",
    "kind": "Sandbox",
    "name": "one",
    "uid": "owner-uid",
    "controller": True,
}


def a_pod(
    *,
    metadata: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the pod of a Sandbox with the fields that matter, and some that don't."""
    container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "one",
            "namespace": "team",
            "uid": "pod-uid",
            "resourceVersion": "41",
            "creationTimestamp": "2026-11-30T08:00:00Z",
            "labels": {"sandberth.dev/attempt": "owner-uid.3"},
            "annotations": {
                "sandberth.dev/nominal-cpu": "2",
                "sandberth.dev/nominal-memory": "4Gi",
                "sandberth.dev/node-uid": "node-uid",
                "sandberth.dev/generation": "7",
            },
            "ownerReferences": [SANDBOX],
            "managedFields": [{"manager": "someone", "fieldsV1": {"f:spec": {}}}],
            **(metadata or {}),
        },
        "spec": {"nodeName": "node-1", "containers": [container], "restartPolicy": "Never", **(spec or {})},
        "status": {"phase": "Pending", "qosClass": "Burstable", **(status or {})},
    }


def facts(**changes: dict[str, Any]) -> PodFacts:
    return decode_pod(json.dumps(a_pod(**changes)).encode())


def container(state: dict[str, Any], *, restarts: int = 0, name: str = "main") -> dict[str, Any]:
    return {"name": name, "restartCount": restarts, "ready": False, "state": state}


def test_a_sandbox_pod_tells_where_it_is_and_what_it_belongs_to() -> None:
    found = facts()

    assert (found.uid, found.namespace, found.name, found.resource_version) == ("pod-uid", "team", "one", 41)
    assert (found.node_name, found.node_uid) == ("node-1", "node-uid")
    assert (found.owner_uid, found.attempt_id, found.generation) == ("owner-uid", "owner-uid.3", 7)
    assert found.nominal == Resources(2000, 4 * 2**30)
    assert found.requests == Requests(cpu_millicores=500, memory_bytes=2**30)
    assert found.created_at == "2026-11-30T08:00:00Z"
    assert not found.deleting
    assert not found.terminal
    assert not found.ran


def test_facts_from_a_dictionary_are_the_same() -> None:
    assert convert_pod(a_pod()) == facts()


@pytest.mark.parametrize(
    "owner",
    [
        SANDBOX | {"controller": False},
        SANDBOX | {"apiVersion": "agents.example.com/v1"},
        SANDBOX | {"apiVersion": "v1"},
        SANDBOX | {"kind": "ReplicaSet"},
    ],
)
def test_an_attempt_label_counts_only_below_a_controlling_sandbox(owner: dict[str, Any]) -> None:
    found = facts(metadata={"ownerReferences": [owner]})

    assert found.owner_uid is None
    assert found.attempt_id is None


def test_the_controller_is_found_among_other_owners() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}

    assert facts(metadata={"ownerReferences": [other, SANDBOX]}).owner_uid == "owner-uid"


def test_a_foreign_pod_has_requests_and_nothing_of_ours() -> None:
    found = facts(metadata={"labels": None, "annotations": None, "ownerReferences": None})

    assert (found.owner_uid, found.attempt_id, found.generation) == (None, None, None)
    assert found.nominal == found.requests.size
    assert found.node_uid == ""
    assert found.requests.size == Resources(500, 2**30)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nominal-cpu", "lots"),
        ("nominal-cpu", "-1"),
        ("nominal-cpu", "1e99999"),
        ("nominal-memory", ""),
        ("generation", "x"),
        ("generation", "-1"),
        ("generation", "²"),
        ("generation", "9" * 5000),
    ],
)
def test_annotations_that_make_no_sense_are_as_if_absent(key: str, value: str) -> None:
    annotations = a_pod()["metadata"]["annotations"]
    without = {name: text for name, text in annotations.items() if name != f"sandberth.dev/{key}"}

    found = facts(metadata={"annotations": annotations | {f"sandberth.dev/{key}": value}})

    assert found == facts(metadata={"annotations": without})


def test_a_size_that_was_not_given_is_the_requests_own() -> None:
    found = facts(metadata={"annotations": {"sandberth.dev/nominal-cpu": "7"}})

    assert found.nominal == Resources(7000, found.requests.memory_bytes)


def test_a_pod_that_is_not_ours_cannot_claim_a_nominal_size() -> None:
    found = facts(metadata={"ownerReferences": None})

    assert found.nominal == found.requests.size


def test_a_running_pod_tells_since_when() -> None:
    found = facts(
        status={
            "phase": "Running",
            "podIP": "10.0.0.7",
            "startTime": "2026-11-30T08:00:01Z",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}],
            "containerStatuses": [
                container({"running": {"startedAt": "2026-11-30T08:00:05Z"}}, name="b"),
                container({"running": {"startedAt": "2026-11-30T08:00:03Z"}}, name="a"),
            ],
        }
    )

    assert (found.phase, found.ready, found.pod_ip) == ("Running", True, "10.0.0.7")
    assert found.started_at == "2026-11-30T08:00:03Z"
    assert found.finished_at is None
    assert found.ran


def test_a_running_pod_without_container_times_started_when_the_kubelet_took_it() -> None:
    assert facts(status={"phase": "Running", "startTime": "T1"}).started_at == "T1"
    assert facts(status={"phase": "Pending", "startTime": "T1"}).started_at is None


def test_a_failed_pod_tells_its_first_bad_exit_and_its_last_end() -> None:
    found = facts(
        status={
            "phase": "Failed",
            "reason": "Evicted",
            "message": "low on memory",
            "containerStatuses": [
                container({"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "T2"}}),
                container(
                    {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "m", "finishedAt": "T4"}},
                    restarts=2,
                ),
                container({"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "T3"}}),
            ],
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
        }
    )

    assert found.terminal
    assert (found.reason, found.message) == ("Evicted", "low on memory")
    assert (found.exit_code, found.exit_reason, found.exit_message) == (137, "OOMKilled", "m")
    assert found.finished_at == "T4"
    assert found.restarts == 2
    assert found.disruption == "TerminationByKubelet"


def test_a_disruption_that_is_no_longer_true_is_none() -> None:
    condition = {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}

    assert facts(status={"conditions": [condition]}).disruption is None


def test_a_pod_refused_by_its_node_never_ran() -> None:
    found = facts(status={"phase": "Failed", "reason": "OutOfcpu"})

    assert found.terminal
    assert not found.ran
    assert found.exit_code is None


def test_a_wait_worth_telling_goes_before_the_usual_ones() -> None:
    found = facts(
        status={
            "initContainerStatuses": [container({"waiting": {"reason": "PodInitializing"}}, name="init")],
            "containerStatuses": [
                container({"waiting": {"reason": "ContainerCreating"}}),
                container({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}, name="side"),
            ],
        }
    )

    assert (found.waiting_reason, found.waiting_message) == ("ErrImagePull", "no such image")
    assert not found.ran


def test_an_init_container_that_ran_is_a_run_too() -> None:
    status = {"initContainerStatuses": [container({"terminated": {"exitCode": 0}}, name="init")]}

    assert facts(status=status).ran


def test_a_container_that_waits_for_its_restart_has_run() -> None:
    found = facts(status={"containerStatuses": [container({"waiting": {"reason": "CrashLoopBackOff"}}, restarts=4)]})

    assert found.ran
    assert found.restarts == 4


def test_a_pod_that_is_being_deleted_says_so() -> None:
    assert facts(metadata={"deletionTimestamp": "2026-11-30T08:01:00Z"}).deleting


def test_requests_follow_a_resize_that_is_under_way() -> None:
    status = {
        "containerStatuses": [
            container({})
            | {"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "1", "memory": "3Gi"}}}
        ]
    }
    infeasible = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
    huge = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "64", "memory": "1Gi"}}}]}

    assert facts(status=status).requests.size == Resources(2000, 3 * 2**30)
    assert facts(spec=huge, status=status | infeasible).requests.size == Resources(2000, 3 * 2**30)


def test_requests_of_a_whole_spec_are_computed_before_the_server_sees_it() -> None:
    spec = {
        "hostNetwork": True,
        "overhead": {"cpu": "100m"},
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"cpu": 1}}},
            {"name": "init", "resources": {"requests": {"cpu": 2.5, "memory": "1Gi"}}},
        ],
        "containers": [
            {"name": "main", "resources": None, "ports": [{"containerPort": 80, "hostIP": "10.0.0.1"}]},
            {"name": "gpu", "resources": {"limits": {"example.com/gpu": "1"}}, "ports": None},
        ],
        "volumes": [{"name": "anything"}],
    }

    found = spec_requests(spec)

    assert found == Requests(
        cpu_millicores=3600,
        memory_bytes=2**30,
        extended=(("example.com/gpu", 1),),
        host_ports=(("10.0.0.1", "TCP", 80),),
    )


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({}, "containers"),
        ({"containers": [{"resources": {"requests": {"cpu": "much"}}}]}, "much"),
        ({"containers": [{"resources": {"requests": {"cpu": ["1"]}}}]}, "resources.requests"),
        ({"containers": [{"ports": [{"containerPort": "http"}]}]}, "containerPort"),
    ],
)
def test_a_spec_that_makes_no_sense_is_named(spec: dict[str, Any], named: str) -> None:
    with pytest.raises(PodSpecError, match=named):
        spec_requests(spec)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"metadata": {}, "spec": {"containers": 1}}'])
def test_what_is_no_pod_is_an_error_of_the_decoder(content: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_pod(content)


def test_a_copy_of_a_sandboxs_pod_under_another_name_is_nobodys_attempt() -> None:
    found = facts(metadata={"name": "copy"})

    assert (found.owner_uid, found.attempt_id) == (None, None)


# --- a Pod that kube-scheduler binds ---

NOT_SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}


def for_scheduler(*, bound_to: str | None = None, **changes: Any) -> PodFacts:
    annotations = {"sandberth.dev/node-name": "node-1", "sandberth.dev/node-uid": "node-uid"}
    fields: dict[str, dict[str, Any]] = {"metadata": {"annotations": annotations}, "spec": {"nodeName": bound_to}}
    return facts(**fields | changes)


def test_a_sandboxs_pod_that_is_not_bound_is_on_the_node_that_was_chosen_for_it() -> None:
    found = for_scheduler()

    assert (found.bound, found.node_name, found.node_uid) == (False, "node-1", "node-uid")
    assert found.unschedulable is None


def test_what_the_scheduler_says_of_a_pod_that_it_cannot_bind_is_kept_until_it_is_bound() -> None:
    assert for_scheduler(status={"conditions": [NOT_SCHEDULED]}).unschedulable == "0/3 nodes"
    wordless = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}
    assert for_scheduler(status={"conditions": [wordless]}).unschedulable == "SchedulerError"
    assert for_scheduler(status={"conditions": [NOT_SCHEDULED]}, bound_to="node-1").unschedulable is None
    assert for_scheduler(status={"conditions": [NOT_SCHEDULED | {"status": "True"}]}).unschedulable is None


def test_a_pod_that_was_bound_elsewhere_is_there_and_was_made_for_no_node_of_that_uid() -> None:
    found = for_scheduler(bound_to="node-2")

    assert (found.bound, found.node_name, found.node_uid) == (True, "node-2", "")


def test_a_foreign_pod_holds_no_room_before_it_is_bound_whatever_it_says() -> None:
    annotations = {"sandberth.dev/node-name": "node-1"}

    found = for_scheduler(metadata={"annotations": annotations, "ownerReferences": None})

    assert (found.bound, found.node_name) == (False, "")
