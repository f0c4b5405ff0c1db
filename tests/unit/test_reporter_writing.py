"""The order of reports against an API server that checks what the real one was seen to check."""

from typing import Any

import orjson
import pytest

from sandberth.kube.errors import ApiError, Unreachable
from sandberth.reporter.capacity import Capacity, decode_capacity
from sandberth.reporter.writing import Outcome, Writer
from tests.unit.report_server import ReportServer


def make(epoch: int, sequence: int) -> dict[str, Any]:
    return {"epoch": epoch, "sequence": sequence}


def no_answer() -> Unreachable:
    return Unreachable("PATCH", "/x", TimeoutError())


async def test_the_first_report_takes_the_next_epoch_and_the_sequence_grows() -> None:
    server = ReportServer()
    server.report = {"epoch": 4, "sequence": 99}
    writer = Writer(server)

    outcomes = [await writer.write(server.capacity(), make) for _ in range(3)]

    assert outcomes == [Outcome.WRITTEN] * 3
    assert server.accepted == [(5, 1), (5, 2), (5, 3)]


async def test_the_first_report_clears_what_it_leaves_out() -> None:
    server = ReportServer()
    server.report = {"epoch": 4, "sequence": 1, "used": {"cpu": "1"}}
    sent: list[Any] = []
    patch = server.patch_status

    async def watched(name: str, body: Any, content_type: str) -> None:
        sent.append(body)
        await patch(name, body, content_type)

    server.patch_status = watched  # type: ignore[method-assign]

    await Writer(server).write(server.capacity(), make)

    assert sent[0]["status"]["report"]["used"] is None
    assert server.report == {"epoch": 5, "sequence": 1}


async def test_a_stale_view_of_the_object_costs_one_more_try() -> None:
    server = ReportServer()
    stale = server.capacity()
    server.version += 5
    server.report = {"epoch": 2, "sequence": 1}

    assert await Writer(server).write(stale, make) is Outcome.WRITTEN
    assert server.accepted == [(3, 1)]


async def test_of_two_reporters_the_older_stops() -> None:
    server = ReportServer()
    older, younger = Writer(server), Writer(server)
    seen = server.capacity()
    await older.write(seen, make)

    await younger.write(server.capacity(), make)

    assert await older.write(seen, make) is Outcome.OUTDONE
    assert older.is_outdone("uid-1")
    assert await younger.write(server.capacity(), make) is Outcome.WRITTEN
    assert server.accepted == [(1, 1), (2, 1), (2, 2)]


async def test_a_higher_epoch_in_the_stream_stops_without_a_write() -> None:
    server = ReportServer()
    writer = Writer(server)
    await writer.write(server.capacity(), make)

    assert await writer.write(replace_epoch(server.capacity(), 7), make) is Outcome.OUTDONE
    assert server.sent == [(1, 1)]


async def test_two_that_start_together_get_different_epochs() -> None:
    server = ReportServer()
    first, second = Writer(server), Writer(server)
    seen = server.capacity()

    await first.write(seen, make)
    await second.write(seen, make)

    assert server.accepted == [(1, 1), (2, 1)]


async def test_another_object_of_that_name_is_not_touched_and_has_a_new_history() -> None:
    server = ReportServer()
    writer = Writer(server)
    seen = server.capacity()
    await writer.write(seen, make)
    await writer.write(seen, make)
    server.replace_object("uid-2")

    assert await writer.write(seen, make) is Outcome.GONE
    assert server.report is None
    assert await writer.write(server.capacity(), make) is Outcome.WRITTEN
    assert server.accepted[-1] == (1, 1)


async def test_a_stopped_reporter_goes_on_with_a_new_object() -> None:
    server = ReportServer()
    writer = Writer(server)
    await writer.write(server.capacity(), make)
    server.report = {"epoch": 9, "sequence": 1}
    await writer.write(server.capacity(), make)

    server.replace_object("uid-2")

    assert await writer.write(server.capacity(), make) is Outcome.WRITTEN


async def test_a_report_that_vanished_is_begun_anew_above_every_epoch_seen() -> None:
    server = ReportServer()
    server.report = {"epoch": 6, "sequence": 1}
    writer = Writer(server)
    seen = server.capacity()
    await writer.write(seen, make)
    server.report = None
    server.version += 1

    assert await writer.write(seen, make) is Outcome.WRITTEN
    assert server.accepted == [(7, 1), (8, 1)]


async def test_a_sequence_that_was_not_answered_is_never_used_again() -> None:
    server = ReportServer()
    writer = Writer(server)
    await writer.write(server.capacity(), make)
    server.before.append(no_answer())

    with pytest.raises(Unreachable):
        await writer.write(server.capacity(), make)
    await writer.write(server.capacity(), make)

    assert server.sent == [(1, 1), (1, 2), (1, 3)]
    assert server.accepted == [(1, 1), (1, 3)]


async def test_an_epoch_taken_without_an_answer_is_left_behind() -> None:
    server = ReportServer()
    writer = Writer(server)
    server.after.append(no_answer())
    seen = server.capacity()

    with pytest.raises(Unreachable):
        await writer.write(seen, make)
    await writer.write(seen, make)

    assert server.accepted == [(1, 1), (2, 1)]


async def test_a_report_that_is_itself_refused_is_an_error_and_the_epoch_stays() -> None:
    server = ReportServer()
    writer = Writer(server)
    await writer.write(server.capacity(), make)
    server.before.append(ApiError(422, "Invalid", "intervalSeconds: too small"))

    with pytest.raises(ApiError):
        await writer.write(server.capacity(), make)

    assert await writer.write(server.capacity(), make) is Outcome.WRITTEN
    assert server.accepted == [(1, 1), (1, 3)]


async def test_a_conflict_is_tried_again_with_a_number_of_its_own() -> None:
    server = ReportServer()
    writer = Writer(server)
    await writer.write(server.capacity(), make)
    server.before.append(ApiError(409, "Conflict", "busy"))

    assert await writer.write(server.capacity(), make) is Outcome.WRITTEN
    assert server.accepted == [(1, 1), (1, 3)]


async def test_endless_conflicts_end_as_an_error() -> None:
    server = ReportServer()
    server.before.extend(ApiError(409, "Conflict", "busy") for _ in range(50))

    with pytest.raises(ApiError):
        await Writer(server).write(server.capacity(), make)

    assert len(server.sent) < 10


async def test_an_object_that_is_gone_is_no_error() -> None:
    server = ReportServer()
    writer = Writer(server)
    seen = server.capacity()
    server.is_there = False

    assert await writer.write(seen, make) is Outcome.GONE

    writer.forget(seen.uid)
    assert not writer.knows(seen.uid)


def replace_epoch(capacity: Capacity, epoch: int) -> Capacity:
    return Capacity(capacity.uid, capacity.name, capacity.resource_version, capacity.node_uid, epoch, 1)


def test_what_is_kept_of_a_node_capacity() -> None:
    document: dict[str, Any] = {
        "metadata": {
            "name": "node-1",
            "uid": "u",
            "resourceVersion": "12",
            "ownerReferences": [{"kind": "Lease", "uid": "no"}, {"kind": "Node", "uid": "node-uid"}],
        },
        "spec": {},
        "status": {"report": {"epoch": 3, "sequence": 8, "sandboxes": ["a 1 1"]}, "view": {}},
    }

    full = decode_capacity(orjson.dumps(document))
    bare = decode_capacity(orjson.dumps({"metadata": {"name": "node-1", "uid": "u", "resourceVersion": "1"}}))

    assert full == Capacity("u", "node-1", 12, "node-uid", 3, 8)
    assert (bare.node_uid, bare.epoch, bare.sequence) == (None, 0, 0)
