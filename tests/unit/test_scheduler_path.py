"""A Sandbox whose Pod kube-scheduler binds: its room, the node that is given up, and the next one."""

from dataclasses import replace
from typing import Any

import pytest

from sandberth.core.constraints import Rejection
from sandberth.kube.errors import ApiError
from sandberth.kube.names import NODE_NAME_ANNOTATION, PlacedReason
from sandberth.kube.paths import claim_path, volume_path
from tests.builders import a_fleet, a_node
from tests.unit.fake_api import LOST_ANSWER, Bench, Object

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
SIZE = {"requests": {"cpu": "1", "memory": "1Gi"}}
SAID = "0/2 nodes are available: no match for pod anti-affinity rules"


@pytest.fixture
async def bench() -> Bench:
    return Bench(a_fleet(a_node("node-a"), a_node("node-b")))


def apply(bench: Bench, **fields: Any) -> str:
    containers = [{"name": "main", "image": "busybox", "resources": SIZE}]
    spec = {"podTemplate": {"spec": {"containers": containers, "volumes": [CLAIM]}}, **fields}
    bench.put_sandbox(
        {"metadata": {"name": "box", "namespace": "team", "uid": "uid-box", "generation": 1}, "spec": spec}
    )
    return "uid-box"


def held(bench: Bench) -> dict[str, int]:
    """Return the CPU that each node holds, without those that hold none."""
    accounts = {account.node_name: account.held_cpu for account in bench.state.ledger.accounts()}
    bench.state.ledger.verify()
    return {name: cpu for name, cpu in accounts.items() if cpu}


def placed(bench: Bench) -> Object:
    conditions: list[Object] = bench.status()["conditions"]
    return next(item for item in conditions if item["type"] == "Placed")


def chosen(bench: Bench) -> str:
    return str(bench.pod()["metadata"]["annotations"][NODE_NAME_ANNOTATION])


def cannot_be_bound(bench: Bench) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": SAID}
    bench.pod_becomes(conditions=[condition])


def is_bound(bench: Bench, node_name: str) -> None:
    bench.pod()["spec"]["nodeName"] = node_name
    bench.pod_becomes(conditions=[{"type": "PodScheduled", "status": "True"}])


async def give_up(bench: Bench, uid: str) -> None:
    """Have kube-scheduler fail for the whole time that it is given, and the Pod go."""
    cannot_be_bound(bench)
    await bench.step(uid)
    bench.now_s += 30.1
    await bench.step(uid, times=2)
    bench.pod_goes()


async def test_the_way_through_the_scheduler_costs_one_create_and_two_patches(bench: Bench) -> None:
    uid = apply(bench)
    await bench.step(uid)
    bench.show(bench.pod())
    await bench.step(uid)
    assert bench.status()["phase"] == "Starting"
    assert bench.status()["nodeName"] == chosen(bench)
    assert "bound by kube-scheduler: volumes[0].persistentVolumeClaim" in placed(bench)["message"]

    is_bound(bench, chosen(bench))
    await bench.step(uid, times=2)
    assert bench.api.verbs() == ["create", "patch"], "the binding says nothing new"
    bench.pod_becomes(phase="Running")
    await bench.step(uid, times=2)

    assert bench.api.verbs() == ["create", "patch", "patch"]
    assert bench.status()["phase"] == "Running"


async def test_an_unbound_pod_holds_its_room_once_where_it_is_pinned(bench: Bench) -> None:
    uid = apply(bench)
    await bench.step(uid)
    node = chosen(bench)
    assert held(bench) == {node: 1000}
    bench.show(bench.pod())
    assert held(bench) == {node: 1000}

    is_bound(bench, node)

    assert held(bench) == {node: 1000}


async def test_a_new_operator_finds_the_room_of_an_unbound_pod(bench: Bench) -> None:
    uid = apply(bench)
    await bench.step(uid)

    after = Bench(a_fleet(a_node("node-a"), a_node("node-b")))
    after.api.objects = bench.api.objects
    after.state.streams.observe_sandbox(bench.sandbox())
    after.show(bench.pod())
    await after.step(uid, times=2)

    assert held(after) == {chosen(bench): 1000}
    assert "create" not in after.api.verbs()


async def test_a_pod_bound_to_another_node_takes_its_room_along_and_the_status_says_so(bench: Bench) -> None:
    uid = apply(bench)
    await bench.step(uid)
    other = {"node-a": "node-b", "node-b": "node-a"}[chosen(bench)]

    is_bound(bench, other)
    await bench.step(uid)

    assert held(bench) == {other: 1000}
    assert bench.status()["nodeName"] == bench.status()["placement"]["node"] == other
    assert placed(bench)["message"] == f"runs on {other}"


async def test_what_the_scheduler_says_is_told_and_the_node_given_up_only_after_its_time(bench: Bench) -> None:
    uid = apply(bench)
    await bench.step(uid)
    cannot_be_bound(bench)
    await bench.step(uid, times=2)
    assert bench.api.verbs() == ["create", "patch"], "it may be behind by a moment, which is worth no write"
    bench.now_s += 29
    await bench.step(uid, times=2)

    assert bench.api.verbs() == ["create", "patch", "patch"]
    ready = next(item for item in bench.status()["conditions"] if item["type"] == "Ready")
    assert (ready["reason"], ready["message"]) == ("Starting", f"kube-scheduler: {SAID}")
    assert "delete" not in bench.api.verbs()


async def test_the_end_is_stored_before_an_unschedulable_pod_goes_and_the_next_is_pinned_elsewhere(
    bench: Bench,
) -> None:
    uid = apply(bench)
    await bench.step(uid)
    first = chosen(bench)
    cannot_be_bound(bench)
    await bench.step(uid)
    bench.api.calls.clear()
    bench.now_s += 30.1

    await bench.step(uid)
    assert bench.api.verbs() == ["patch"]
    assert (placed(bench)["reason"], placed(bench)["status"]) == (PlacedReason.UNSCHEDULABLE, "False")
    assert SAID in placed(bench)["message"]
    assert "nodeName" not in bench.status()
    version = int(bench.pod()["metadata"]["resourceVersion"])
    await bench.step(uid)
    assert bench.api.calls[-1] == ("delete", {"uid": bench.pod()["metadata"]["uid"], "resourceVersion": version})
    assert held(bench) == {first: 1000}, "until the Pod is gone"
    bench.pod_goes()
    await bench.step(uid)

    assert chosen(bench) != first
    assert held(bench) == {chosen(bench): 1000}
    assert bench.status()["placement"]["attempt"] == 2


async def test_a_pod_that_is_bound_just_before_it_would_be_deleted_lives(bench: Bench) -> None:
    uid = apply(bench)
    await bench.step(uid)
    cannot_be_bound(bench)
    await bench.step(uid)
    bench.now_s += 30.1
    await bench.step(uid)
    bench.pod()["spec"]["nodeName"] = chosen(bench)  # the stream does not show it yet
    bench.pod()["metadata"]["resourceVersion"] = bench.api.next_version()

    await bench.step(uid, times=3)

    assert bench.api.verbs().count("delete") == 1, "which the server refuses: the Pod has changed"
    assert bench.status()["nodeName"] == chosen(bench)
    assert bench.status()["phase"] == "Starting"
    assert held(bench) == {chosen(bench): 1000}


async def test_an_operator_killed_between_the_stored_end_and_the_delete_leaves_it_to_the_next_one(bench: Bench) -> None:
    uid = apply(bench)
    await bench.step(uid)
    cannot_be_bound(bench)
    await bench.step(uid)
    bench.now_s += 30.1
    await bench.step(uid)

    after = Bench(a_fleet(a_node("node-a"), a_node("node-b")))
    after.api.objects = bench.api.objects
    after.state.streams.observe_sandbox(bench.sandbox())
    after.show(bench.pod())
    await after.step(uid, times=2)

    assert after.api.verbs() == ["delete"]


async def test_with_every_node_given_up_it_waits_with_the_schedulers_words_and_tries_again_after_a_rest(
    bench: Bench,
) -> None:
    uid = apply(bench)
    await bench.step(uid)
    await give_up(bench, uid)
    await bench.step(uid)
    await give_up(bench, uid)
    await bench.step(uid, times=5)

    assert bench.api.verbs().count("create") == 2
    assert placed(bench)["reason"] == PlacedReason.UNSCHEDULABLE
    assert SAID in placed(bench)["message"]
    assert f"2 {Rejection.EXCLUDED}" in placed(bench)["message"]
    assert bench.status()["phase"] == "Pending"
    assert held(bench) == {}
    bench.now_s += 11
    await bench.step(uid, times=5)
    assert bench.api.verbs().count("create") == 2
    bench.now_s += 8  # in all more than 15 s and a fifth
    await bench.step(uid)
    assert bench.api.verbs().count("create") == 3


async def test_three_nodes_in_a_row_are_followed_by_a_rest_in_which_the_spec_may_be_corrected() -> None:
    bench = Bench(a_fleet(*(a_node(f"node-{number}") for number in range(9))))
    uid = apply(bench)
    nodes = []
    await bench.step(uid)
    for _ in range(3):
        nodes.append(chosen(bench))
        await give_up(bench, uid)
        await bench.step(uid, times=3)

    assert len(set(nodes)) == 3
    assert bench.api.verbs().count("create") == 3
    assert bench.status()["phase"] == "Pending"
    body = bench.sandbox()
    body["metadata"]["generation"] = 2
    bench.put_sandbox(body)
    await bench.step(uid)
    assert bench.api.verbs().count("create") == 4


async def test_a_node_that_goes_takes_no_unbound_pod_with_it_even_without_recovery(bench: Bench) -> None:
    uid = apply(bench, recovery="Never")
    await bench.step(uid)
    bench.show(bench.pod())
    first = chosen(bench)
    bench.state.fleet.forget_node(f"uid-of-{first}")

    await bench.step(uid, times=2)
    bench.pod_goes()
    await bench.step(uid)

    assert chosen(bench) != first
    assert bench.status()["phase"] == "Starting"


async def test_a_sandbox_deleted_while_its_pod_is_unbound_leaves_nothing(bench: Bench) -> None:
    uid = apply(bench)
    await bench.step(uid)
    bench.show(bench.pod())

    bench.delete()
    await bench.step(uid)
    bench.pod_goes()
    await bench.step(uid)

    assert bench.api.verbs() == ["create", "patch", "delete"]
    assert held(bench) == {}
    assert uid not in bench.state.tracks


async def test_an_unknown_create_of_a_pinned_pod_is_repeated_word_by_word(bench: Bench) -> None:
    uid = apply(bench)
    bench.api.refusals = [LOST_ANSWER]

    await bench.step(uid, times=2)

    first, second = [body for verb, body in bench.api.calls if verb == "create"]
    assert first == second
    assert held(bench) == {chosen(bench): 1000}


async def test_a_pod_whose_node_a_webhook_took_away_holds_no_room_and_waits_for_any(bench: Bench) -> None:
    uid = apply(bench)
    bench.api.refusals = [LOST_ANSWER]
    await bench.step(uid)
    del bench.pod()["metadata"]["annotations"][NODE_NAME_ANNOTATION]

    await bench.step(uid, times=2)

    assert held(bench) == {}
    assert bench.status()["phase"] == "Pending"
    assert "waits for kube-scheduler to bind it to any node" in placed(bench)["message"]
    is_bound(bench, "node-b")
    await bench.step(uid)
    assert bench.status()["nodeName"] == "node-b"
    assert held(bench) == {"node-b": 1000}


async def test_the_start_deadline_also_ends_a_pod_that_nobody_binds(bench: Bench) -> None:
    uid = apply(bench, lifetime={"startDeadlineSeconds": 60})
    await bench.step(uid)
    bench.pod()["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z"
    bench.pod_becomes()
    bench.now_s += 61

    await bench.step(uid, times=2)

    assert bench.status()["phase"] == "Failed"
    finished = next(item for item in bench.status()["conditions"] if item["type"] == "Finished")
    assert "kube-scheduler did not bind it" in finished["message"]


# --- claimed volumes ---


def with_volume(bench: Bench, node_name: str) -> None:
    """Have the claim be bound already, to a volume that only one node can mount."""
    here = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchFields": [here]}]}}
    bench.api.objects[claim_path("team", "data")] = {"spec": {"volumeName": "volume"}}
    bench.api.objects[volume_path("volume")] = {"spec": {"nodeAffinity": affinity}}


@pytest.mark.parametrize("node_name", ["node-a", "node-b"])
async def test_a_claim_that_is_bound_to_a_volume_leads_to_a_node_that_can_mount_it(
    bench: Bench, node_name: str
) -> None:
    with_volume(bench, node_name)

    await bench.step(apply(bench))

    assert chosen(bench) == node_name


async def test_a_volume_that_no_node_can_mount_is_named_as_the_cause(bench: Bench) -> None:
    with_volume(bench, "node-z")

    await bench.step(apply(bench))

    assert placed(bench)["reason"] == PlacedReason.NO_ELIGIBLE_NODE
    assert f"2 {Rejection.VOLUME}" in placed(bench)["message"]


async def test_without_the_right_to_read_claims_kube_scheduler_is_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_volume(bench, "node-z")
    read = bench.api.get

    async def forbidden(path: str) -> Object | None:
        if "persistentvolume" in path:
            raise ApiError(403, "Forbidden", "persistentvolumeclaims is forbidden")
        return await read(path)

    monkeypatch.setattr(bench.api, "get", forbidden)
    await bench.step(apply(bench))

    assert chosen(bench) in {"node-a", "node-b"}


# --- without a node for long: kube-scheduler may choose any ---


def without_room(after: float | None) -> Bench:
    bench = Bench(a_fleet(a_node("node-a", cordoned=True)))
    bench.state.settings = replace(bench.state.settings, scheduler_after_seconds=after)
    return bench


async def test_a_sandbox_without_room_waits_for_ever_unless_told_otherwise() -> None:
    bench = without_room(None)
    uid = bench.apply()
    for _ in range(3):
        await bench.step(uid)
        bench.now_s += 1e6

    assert bench.api.verbs() == ["patch"]


async def test_a_sandbox_without_room_for_long_is_left_to_kube_scheduler_and_placed_where_that_binds_it() -> None:
    bench = without_room(60)
    uid = bench.apply(placement={"architecture": "arm64"}, lifetime={"startDeadlineSeconds": 600})
    await bench.step(uid)
    bench.now_s += 59
    await bench.step(uid)
    assert bench.api.verbs() == ["patch"]

    bench.now_s += 1.1
    await bench.step(uid, times=2)
    spec = bench.pod()["spec"]
    assert "nodeName" not in spec
    assert "affinity" not in spec
    assert spec["nodeSelector"] == {"kubernetes.io/arch": "arm64"}
    assert spec["containers"][0]["resources"]["requests"]["cpu"] == "250m"
    assert held(bench) == {}
    cannot_be_bound(bench)
    await bench.step(uid)
    bench.now_s += 11
    await bench.step(uid, times=2)
    assert bench.status()["phase"] == "Pending"
    assert placed(bench)["message"].endswith(f"bind it to any node: {SAID}")

    bench.pod()["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z"
    bench.now_s += 10_000
    bench.pod_becomes()
    await bench.step(uid)
    bench.state.fleet.observe_node(a_node("node-new"))
    is_bound(bench, "node-new")
    await bench.step(uid, times=2)
    assert bench.status()["phase"] == "Starting", "the deadline counts from the binding"
    assert bench.status()["nodeName"] == bench.status()["placement"]["node"] == "node-new"
    assert held(bench) == {"node-new": 1000}
    assert bench.api.verbs().count("create") == 1


async def test_a_spec_that_is_corrected_while_kube_scheduler_has_it_is_made_anew() -> None:
    bench = without_room(60)
    uid = bench.apply()
    await bench.step(uid)
    bench.now_s += 61
    await bench.step(uid, times=2)
    body = bench.sandbox()
    body["metadata"]["generation"] = 2
    bench.put_sandbox(body)

    await bench.step(uid)
    assert bench.api.verbs()[-1] == "delete"
    bench.pod_goes()
    await bench.step(uid, times=2)

    assert bench.status()["phase"] == "Pending"
    assert bench.api.verbs().count("create") == 1, "it waits again first"


async def test_an_architecture_that_the_template_contradicts_is_left_to_nobody() -> None:
    bench = without_room(60)
    template = {"containers": [{"name": "main", "image": "busybox"}], "nodeSelector": {"kubernetes.io/arch": "amd64"}}
    spec = {"podTemplate": {"spec": template}, "placement": {"architecture": "arm64"}}
    bench.put_sandbox({"metadata": {"name": "box", "namespace": "team", "uid": "u", "generation": 1}, "spec": spec})
    await bench.step("u")
    bench.now_s += 61

    await bench.step("u", times=2)

    assert "create" not in bench.api.verbs()
    assert placed(bench)["reason"] == PlacedReason.NO_ELIGIBLE_NODE
