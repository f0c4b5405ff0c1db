"""Sandboxes that no model can hold, tampered ones, and clocks that differ: told, and nothing else is touched."""

import json
from typing import Any

import pytest

from sandberth.control.streams import sandbox_seen
from sandberth.kube.building import base_pod_spec
from sandberth.kube.client import decoded
from sandberth.kube.sandbox import SandboxSpec
from tests.unit.fake_api import Bench


@pytest.fixture
async def bench() -> Bench:
    return Bench()


def nested(levels: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for _ in range(levels):
        result = {"a": result}
    return result


def a_template(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "busybox"}], **fields}}}


def placed(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in bench.status()["conditions"] if item["type"] == "Placed")
    return found


@pytest.mark.parametrize("value", [nested(300), 10**20], ids=["deep", "beyond 64 bits"])
async def test_a_spec_that_cannot_be_kept_is_told_and_costs_no_pod(bench: Bench, value: object) -> None:
    metadata = {"name": "box", "namespace": "team", "uid": "uid-box", "generation": 1}
    bench.put_sandbox({"metadata": metadata, "spec": a_template(x=value)})

    await bench.step("uid-box", times=3)

    assert bench.api.verbs() == ["patch"]
    assert bench.status()["phase"] == "Pending"
    assert (placed(bench)["status"], placed(bench)["reason"]) == ("False", "InvalidPod")
    assert "nested too deeply" in placed(bench)["message"]


async def test_a_sandbox_that_cannot_be_read_is_told_once(bench: Bench) -> None:
    uid = bench.apply(lifetime={"shutdownTime": "0000-01-01T00:00:00Z"})

    await bench.step(uid, times=3)

    assert bench.api.verbs() == ["patch"]
    assert "lifetime.shutdownTime" in placed(bench)["message"]


def test_a_sandbox_that_can_be_kept_is_kept_whole() -> None:
    metadata = {"name": "box", "namespace": "team", "uid": "u", "resourceVersion": "7"}

    seen = sandbox_seen({"metadata": metadata, "spec": a_template(x=nested(50))})

    assert seen.problem == ""
    assert json.loads(seen.content)["spec"] == a_template(x=nested(50))


@pytest.mark.parametrize("levels", [10, 300])
def test_deep_documents_are_decoded(levels: int) -> None:
    assert decoded(json.dumps(nested(levels)).encode()) == nested(levels)


def test_what_is_no_json_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        decoded(b"<html>")


@pytest.mark.parametrize("skew_seconds", [-3600.0, 700.0])
async def test_a_clock_that_differs_from_the_servers_ends_no_start(bench: Bench, skew_seconds: float) -> None:
    server_s = 1_900_000_000.0
    bench.state.wall_s = lambda: server_s + skew_seconds
    uid = bench.apply()

    await bench.step(uid)
    bench.pod()["metadata"]["creationTimestamp"] = "2030-03-17T17:46:40Z"  # server_s
    bench.pod_becomes(phase="Pending")
    await bench.step(uid)

    assert bench.status()["phase"] == "Starting"


async def test_the_start_deadline_counts_from_our_own_create(bench: Bench) -> None:
    uid = bench.apply(lifetime={"startDeadlineSeconds": 30})
    await bench.step(uid)
    bench.pod()["metadata"]["creationTimestamp"] = "2030-03-17T17:46:40Z"
    bench.pod_becomes(phase="Pending")

    bench.now_s += 31
    await bench.step(uid)

    assert bench.status()["phase"] == "Failed"


async def test_clearing_the_nodes_name_by_hand_after_an_edit_leaves_the_pod_alone(bench: Bench) -> None:
    uid = bench.apply()
    await bench.step(uid)
    bench.pod_becomes(phase="Running")
    await bench.step(uid)
    body = bench.sandbox()
    body["metadata"]["generation"] = 2
    body["spec"]["lifetime"] = {"ttlSecondsAfterFinished": 60}
    del body["status"]["nodeName"]

    bench.put_sandbox(body)
    await bench.step(uid, times=2)

    assert "delete" not in bench.api.verbs()
    assert bench.status()["nodeName"] == "node-a"


@pytest.mark.parametrize("field", ["automountServiceAccountToken", "restartPolicy", "securityContext"])
def test_null_is_absent_and_gets_the_secure_default(field: str) -> None:
    given = SandboxSpec.model_validate(a_template(**{field: None}))

    assert base_pod_spec(given) == base_pod_spec(SandboxSpec.model_validate(a_template()))


def test_null_in_a_containers_security_context_is_absent() -> None:
    context = {"allowPrivilegeEscalation": None, "capabilities": {"drop": None}}
    containers = [{"name": "main", "image": "busybox", "securityContext": context}]

    pod_spec = base_pod_spec(SandboxSpec.model_validate(a_template(containers=containers)))

    secured = pod_spec["containers"][0]["securityContext"]
    assert secured == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_a_windows_pod_gets_nothing_that_windows_refuses() -> None:
    pod_spec = base_pod_spec(SandboxSpec.model_validate(a_template(os={"name": "windows"})))

    assert "securityContext" not in pod_spec
    assert "securityContext" not in pod_spec["containers"][0]
