"""One Sandbox through the reconciler, where the order of the writes and the answers of the server decide."""

import pytest

from sandberth.kube.errors import ApiError
from sandberth.kube.names import PlacedReason
from tests.builders import a_fleet, a_node
from tests.unit.fake_api import LOST_ANSWER, Bench

OVER_QUOTA = ApiError(403, "Forbidden", "exceeded quota: q")
BUSY = ApiError(503, "ServiceUnavailable", "try again")


@pytest.fixture
async def bench() -> Bench:
    return Bench()


def placed_reason(bench: Bench, name: str = "box") -> str | None:
    conditions = {condition["type"]: condition for condition in bench.status(name).get("conditions", ())}
    reason: str | None = conditions.get("Placed", {}).get("reason")
    return reason


async def test_a_sandbox_costs_one_create_and_one_patch_to_its_place(bench: Bench) -> None:
    uid = bench.apply()

    await bench.step(uid)
    bench.show(bench.pod())
    await bench.step(uid, times=3)

    assert bench.api.verbs() == ["create", "patch"]
    assert bench.status()["phase"] == "Starting"


async def test_a_create_without_an_answer_is_sent_again_word_by_word_and_its_pod_adopted(bench: Bench) -> None:
    uid = bench.apply()
    bench.api.refusals = [BUSY, LOST_ANSWER]

    await bench.step(uid, times=3)

    creates = [body for verb, body in bench.api.calls if verb == "create"]
    assert len(creates) == 3
    assert creates[0] == creates[1] == creates[2]
    assert bench.status()["placement"]["attempt"] == 1
    assert bench.status()["nodeName"] == "node-a"
    assert bench.state.fleet.by_name("node-a") is not None
    assert [account.in_progress for account in bench.state.ledger.accounts()] == [0]


async def test_an_unknown_create_keeps_its_room(bench: Bench) -> None:
    uid = bench.apply()
    bench.api.refusals = [BUSY]

    await bench.step(uid)

    assert [account.held_cpu for account in bench.state.ledger.accounts()] == [1000]
    assert bench.woken == []


async def test_a_refused_create_gives_its_room_back_and_wakes_those_who_wait_for_room(bench: Bench) -> None:
    uid = bench.apply()
    bench.api.refusals = [OVER_QUOTA]

    await bench.step(uid)

    assert [account.held_cpu for account in bench.state.ledger.accounts()] == [0]
    assert bench.woken == ["all"]
    assert placed_reason(bench) == PlacedReason.QUOTA_EXCEEDED


async def test_a_refusal_after_a_lost_answer_is_believed_only_when_there_is_no_pod(bench: Bench) -> None:
    uid = bench.apply()
    bench.api.refusals = [LOST_ANSWER, OVER_QUOTA]

    await bench.step(uid, times=2)

    assert bench.status()["nodeName"] == "node-a"
    assert placed_reason(bench) == PlacedReason.PLACED


async def test_a_refused_sandbox_is_not_tried_before_its_pause_is_over(bench: Bench) -> None:
    uid = bench.apply()
    bench.api.refusals = [OVER_QUOTA] * 2

    await bench.step(uid, times=5)
    assert bench.api.verbs().count("create") == 1
    bench.now_s += 2
    await bench.step(uid, times=5)

    assert bench.api.verbs().count("create") == 2
    assert bench.api.verbs().count("patch") == 1, "the reason is the same"


async def test_one_let_into_the_quota_has_the_next_of_its_namespace_tried(bench: Bench) -> None:
    first, second = bench.apply("first"), bench.apply("second")
    bench.api.refusals = [OVER_QUOTA] * 2
    await bench.step(first)
    await bench.step(second)

    bench.reconciler.placer.quota.room("team")
    await bench.step(second)
    assert bench.api.verbs().count("create") == 2, "it is not its turn"
    await bench.step(first)
    await bench.step(second)

    assert bench.status("first")["nodeName"]
    assert bench.status("second")["nodeName"]
    assert not bench.reconciler.placer.quota


async def test_a_sandbox_that_is_deleted_while_over_the_quota_takes_no_turn_with_it(bench: Bench) -> None:
    first, second = bench.apply("first"), bench.apply("second")
    bench.api.refusals = [OVER_QUOTA] * 2
    await bench.step(first)
    await bench.step(second)

    bench.reconciler.placer.quota.room("team")
    bench.delete("first")
    await bench.step(first)
    await bench.step(second)

    assert bench.status("second")["nodeName"]
    assert not bench.reconciler.placer.quota


async def test_the_end_of_an_attempt_is_stored_before_its_pod_goes_and_before_the_next_one_starts(
    bench: Bench,
) -> None:
    uid = bench.apply()
    await bench.step(uid)
    bench.show(bench.pod())
    bench.pod_becomes(phase="Failed", reason="Evicted")
    bench.api.calls.clear()

    await bench.step(uid, times=3)
    assert bench.api.verbs() == ["patch", "delete"]
    assert bench.status()["phase"] == "Pending"
    assert "nodeName" not in bench.status()
    bench.pod_goes()
    await bench.step(uid, times=2)

    assert bench.api.verbs() == ["patch", "delete", "create", "patch"]
    assert bench.status()["placement"]["attempt"] == 2


async def test_a_kubelet_that_refused_is_asked_again_in_the_end_also_if_nothing_changed() -> None:
    bench = Bench(a_fleet(a_node()))
    uid = bench.apply()

    async def refused() -> None:
        bench.show(bench.pod())
        bench.pod_becomes(phase="Failed", reason="OutOfcpu")
        await bench.step(uid, times=2)
        bench.pod_goes()
        await bench.step(uid, times=3)

    await bench.step(uid)
    await refused()
    bench.now_s += 11
    await bench.step(uid, times=3)
    assert bench.api.verbs().count("create") == 1, "its own Pod's end is no change"
    assert placed_reason(bench) == PlacedReason.NODES_REFUSED

    bench.now_s += 8  # in all more than 15 s and a fifth
    await bench.step(uid)
    assert bench.api.verbs().count("create") == 2
    await refused()
    bench.now_s += 19
    await bench.step(uid, times=3)
    assert bench.api.verbs().count("create") == 2, "the pauses grow"


async def test_a_final_status_is_stored_before_the_pod_goes(bench: Bench) -> None:
    uid = bench.apply()
    await bench.step(uid)
    bench.show(bench.pod())
    await bench.step(uid)
    bench.api.calls.clear()

    bench.sandbox()["spec"]["lifetime"] = {"shutdownTime": "2020-01-01T00:00:00Z"}
    bench.put_sandbox(bench.sandbox())
    await bench.step(uid, times=3)

    assert bench.api.verbs() == ["patch", "delete"]
    assert bench.status()["phase"] == "Succeeded"


async def test_a_lost_pod_is_replaced_at_once_and_the_next_lost_one_after_a_pause(bench: Bench) -> None:
    uid = bench.apply()
    await bench.step(uid)
    for _ in range(2):
        bench.show(bench.pod())
        await bench.step(uid)
        bench.pod_goes()
        await bench.step(uid, times=3)

    assert bench.api.verbs().count("create") == 2
    bench.now_s += 2
    await bench.step(uid)
    assert bench.api.verbs().count("create") == 3
    assert bench.status()["placement"]["attempt"] == 3


async def test_a_sandbox_deleted_while_its_create_is_unknown_is_followed_to_the_answer(bench: Bench) -> None:
    uid = bench.apply()
    bench.api.refusals = [LOST_ANSWER]
    await bench.step(uid)

    bench.delete()
    await bench.step(uid)  # sends the same create again, and learns that its Pod is there
    bench.show(bench.pod())
    await bench.step(uid, times=2)

    assert bench.api.verbs() == ["create", "create", "delete"]
    bench.pod_goes()
    await bench.step(uid)
    assert uid not in bench.state.tracks


async def test_a_pod_that_was_set_free_meanwhile_is_not_deleted_with_its_sandbox(bench: Bench) -> None:
    uid = bench.apply()
    await bench.step(uid)
    bench.show(bench.pod())
    bench.pod()["metadata"] |= {"ownerReferences": [], "resourceVersion": bench.api.next_version()}

    bench.delete()
    await bench.step(uid)

    (_, options) = bench.api.calls[-1]
    assert options["resourceVersion"] != int(bench.pod()["metadata"]["resourceVersion"]), "the server refuses this one"
    shown = bench.state.streams.pods.get(bench.pod()["metadata"]["uid"])
    assert shown is not None
    assert shown.owner_uid is None


async def test_errors_in_a_row_have_growing_pauses_and_a_success_forgets_them(bench: Bench) -> None:
    refused = ApiError(403, "Forbidden", "no")
    unclear = ApiError(500, "InternalError", "no")

    refusals = [bench.reconciler._pause_after("a", refused) for _ in range(10)]
    unclears = [bench.reconciler._pause_after("b", unclear) for _ in range(10)]

    assert refusals[0] < 1
    assert refusals[-1] > 40
    assert 3 < unclears[-1] < 5
    assert bench.reconciler._pause_after("b", ApiError(429, "TooManyRequests", "", retry_after_seconds=30)) == 30
    await bench.step("a")
    assert "a" not in bench.reconciler._errors


async def test_a_pod_of_a_later_generation_says_that_the_sandbox_is_not_the_newest_and_stays(bench: Bench) -> None:
    uid = bench.apply()
    await bench.step(uid)
    pod = bench.pod()
    pod["metadata"]["annotations"]["sandberth.dev/generation"] = "2"
    pod["metadata"]["resourceVersion"] = bench.api.next_version()
    bench.sandbox()["status"] = {}
    bench.put_sandbox(bench.sandbox())
    bench.show(pod)

    await bench.step(uid)

    assert "delete" not in bench.api.verbs()


async def test_a_finished_sandbox_is_deleted_in_the_version_that_was_looked_at_and_read_again_where_it_changed(
    bench: Bench,
) -> None:
    uid = bench.apply(lifetime={"ttlSecondsAfterFinished": 0})
    status = {"phase": "Succeeded", "finishedAt": "2020-01-01T00:00:00Z", "nodeName": "node-a"}
    bench.put_sandbox(bench.sandbox() | {"status": status})
    stored = bench.sandbox()
    stored["spec"]["lifetime"] = {"ttlSecondsAfterFinished": 2**31 - 1}
    stored["metadata"]["resourceVersion"] = bench.api.next_version()

    await bench.step(uid, times=2)

    deletes = [body for verb, body in bench.api.calls if verb == "delete sandbox"]
    assert len(deletes) == 1, "it was read again and has time now"
    assert deletes[0]["resourceVersion"] != int(stored["metadata"]["resourceVersion"])
