"""The reporter of one node: when it reports, what a fault costs, and when it leaves a node to another."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from sandberth.core.resources import Resources
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.pods import PodFacts
from sandberth.reporter.kubelet import KubeletError, KubeletPods
from sandberth.reporter.kubelet_source import KubeletReporter
from sandberth.reporter.settings import KubeletSettings, UsageSource
from tests.unit.pods import a_pod
from tests.unit.report_server import NODE, ReportServer

DEADLINE_SECONDS = 10.0
LONG = 3600.0
SETTINGS = KubeletSettings(node_name=NODE, address="10.0.0.7", interval_seconds=LONG)
MIB = 2**20


class KubeletFake:
    """A kubelet whose answers a test sets; `faults` are raised by the next calls, one each."""

    def __init__(self) -> None:
        self.held: tuple[PodFacts, ...] = (a_pod(),)
        self.unreadable: tuple[str, ...] = ()
        self.used: Resources | None = Resources(1500, 2**30)
        self.faults: list[Exception] = []
        self.stats_fault: KubeletError | None = None
        self.asked = 0

    async def pods(self) -> KubeletPods:
        self.asked += 1
        await asyncio.sleep(0)
        if self.faults:
            raise self.faults.pop(0)
        return KubeletPods(self.held, self.unreadable)

    async def usage(self) -> Resources | None:
        await asyncio.sleep(0)
        if self.stats_fault is not None:
            raise self.stats_fault
        return self.used


class Bench:
    """A reporter between a kubelet and an API server; its retries come at once, their pauses are kept."""

    def __init__(self, settings: KubeletSettings = SETTINGS) -> None:
        self.kubelet = KubeletFake()
        self.server = ReportServer()
        self.now_s = 1000.0
        self.reporter = KubeletReporter(
            self.kubelet, self.server, settings, rng=Random(1), clock=lambda: self.now_s + asyncio_time()
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[KubeletReporter]:
        task = asyncio.create_task(self.reporter.run())
        try:
            yield self.reporter
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def until_written(self, count: int = 1) -> dict[str, Any]:
        """Return the report that the server holds once so many were accepted."""
        await until(lambda: len(self.server.accepted) >= count)
        assert self.server.report is not None
        return self.server.report

    async def tick(self) -> None:
        await self.reporter._tick(None)


def asyncio_time() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


async def until(claim: Any) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not claim():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


def no_answer() -> Unreachable:
    return Unreachable("PATCH", "/x", TimeoutError())


async def test_the_report_says_what_kubelet_owner_and_environment_say() -> None:
    bench = Bench(replace(SETTINGS, allocatable=Resources(1930, 2**33)))

    async with bench.running():
        report = await bench.until_written()

    assert (report["epoch"], report["sequence"], report["intervalSeconds"]) == (1, 1, LONG)
    assert report["nodeUID"] == "node-uid"
    assert report["capacity"] == {"cpu": "1930m", "memory": "8Gi"}
    assert report["used"] == {"cpu": "1500m", "memory": "1Gi"}
    assert report["allocated"] == {"cpu": "2", "memory": "1Gi"}
    assert report["requested"] == {"cpu": "0", "memory": "0"}
    assert list(report["sandboxes"]) == [f"box-uid.1 2000 {2**30}"]
    assert report["complete"]


async def test_what_is_not_known_is_left_out() -> None:
    bench = Bench()
    bench.kubelet.used = None

    await bench.tick()

    assert bench.server.report is not None
    assert not {"capacity", "used"} & bench.server.report.keys()


@pytest.mark.parametrize(
    ("usage", "used"), [(UsageSource.NONE, None), (UsageSource.REQUESTS, {"cpu": "0", "memory": "0"})]
)
async def test_usage_is_as_told(usage: UsageSource, used: dict[str, str] | None) -> None:
    bench = Bench(replace(SETTINGS, usage=usage))
    bench.kubelet.stats_fault = KubeletError("x", "nobody should ask")

    await bench.tick()

    assert bench.server.report is not None
    assert bench.server.report.get("used") == used


async def test_without_stats_the_rest_is_reported_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    bench.kubelet.stats_fault = KubeletError("/stats 403", "403, it lacks the right")

    for _ in range(3):
        await bench.tick()
    bench.kubelet.stats_fault = None
    await bench.tick()

    assert bench.server.accepted == [(1, number) for number in (1, 2, 3, 4)]
    assert caplog.text.count("Reports leave usage out: the kubelet: 403, it lacks the right") == 1
    assert caplog.text.count("The kubelet's stats are back") == 1


async def test_one_write_a_report_and_one_read_in_all() -> None:
    bench = Bench()

    for _ in range(5):
        await bench.tick()

    assert bench.server.reads_served == 1
    assert bench.server.sent == bench.server.accepted == [(1, number) for number in range(1, 6)]


async def test_reports_come_once_an_interval() -> None:
    bench = Bench(replace(SETTINGS, interval_seconds=0.1))
    began = asyncio_time()

    async with bench.running():
        await bench.until_written(6)

    assert asyncio_time() - began >= 0.4


def test_processes_that_start_together_do_not_stay_together() -> None:
    shifts = {
        KubeletReporter(KubeletFake(), ReportServer(), SETTINGS, rng=Random(seed)).schedule._early_seconds
        for seed in range(10)
    }

    assert len(shifts) == 10
    assert all(0 <= shift <= LONG for shift in shifts)


# --- faults ---


async def test_a_kubelet_that_is_down_is_asked_again_soon_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    bench.kubelet.faults = [KubeletError("ConnectionRefusedError", "no answer (refused)") for _ in range(2)]

    async with bench.running():
        await bench.until_written()

    assert bench.kubelet.asked == 3
    assert bench.reporter.failed == 2
    assert caplog.text.count("Node node-1 cannot be reported: the kubelet: no answer (refused)") == 1
    assert caplog.text.count("Node node-1 is reported.") == 1


async def test_an_api_server_that_is_down_is_asked_again_and_no_number_is_used_twice() -> None:
    bench = Bench()
    await bench.tick()
    bench.server.before = [no_answer(), ApiError(503, "ServiceUnavailable", "not now")]

    for _ in range(3):
        await bench.tick()

    assert bench.server.sent == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert bench.server.accepted == [(1, 1), (1, 4)]


async def test_another_cause_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.kubelet.faults = [KubeletError("/pods 403", "403, no right"), KubeletError("TimeoutError", "no answer")]

    await bench.tick()
    await bench.tick()
    bench.reporter._cancel_retry()

    assert "403, no right" in caplog.text
    assert "no answer" in caplog.text


async def test_pauses_grow_to_the_interval_and_are_jittered(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(replace(SETTINGS, interval_seconds=20.0))
    pauses: list[float] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda pause, _: pauses.append(pause))

    for _ in range(40):
        bench.kubelet.faults = [KubeletError("x", "down")]
        await bench.tick()
        bench.reporter._retry = None

    assert 0.5 <= pauses[0] <= 1
    assert all(10 <= pause <= 20 for pause in pauses[6:])
    assert len(set(pauses)) == 40


async def test_the_servers_wish_for_a_pause_is_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    pauses: list[float] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda pause, _: pauses.append(pause))
    bench.server.reads = [ApiError(429, "TooManyRequests", "busy", retry_after_seconds=17)]

    await bench.tick()

    assert pauses == [17]
    bench.reporter._retry = None


async def test_a_fault_of_our_own_is_logged_and_the_next_report_comes(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.kubelet.faults = [RuntimeError("a bug")]

    await bench.tick()
    await bench.tick()

    assert "A fault of the reporter" in caplog.text
    assert bench.server.accepted == [(1, 1)]


async def test_a_list_that_could_not_be_read_to_its_end_is_not_complete(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.kubelet.unreadable = ("'plenty' is not a quantity",)

    for _ in range(2):
        await bench.tick()

    assert bench.server.report is not None
    assert not bench.server.report["complete"]
    assert caplog.text.count("1 pods are left out: they cannot be read ('plenty' is not a quantity)") == 1


# --- whose node it is ---


async def test_a_node_capacity_that_is_not_there_yet_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.server.is_there = False

    async with bench.running() as reporter:
        await until(lambda: bench.server.reads_served >= 2)
        assert reporter.not_ready() == "no report is written yet"
        assert bench.kubelet.asked == 0
        bench.server.is_there = True
        await bench.until_written()

    assert reporter.not_ready() is None
    assert caplog.text.count("there is no NodeCapacity node-1 yet; the operator makes one for each Node") == 1


async def test_one_that_belongs_to_no_node_is_left_alone() -> None:
    bench = Bench()
    bench.server.node_uid = None

    await bench.tick()
    bench.reporter._cancel_retry()

    assert bench.server.sent == []


async def test_a_node_that_comes_back_is_reported_to_its_new_object_under_its_new_uid() -> None:
    bench = Bench()
    await bench.tick()
    bench.server.replace_object("uid-2")
    bench.server.node_uid = "node-uid-2"

    async with bench.running():
        report = await bench.until_written(2)

    assert (report["nodeUID"], report["epoch"], report["sequence"]) == ("node-uid-2", 1, 1)


async def test_a_reporter_that_is_outdone_stops_for_good(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    await bench.tick()
    bench.server.report = {"epoch": 5, "sequence": 1}

    for _ in range(3):
        await bench.tick()

    assert bench.server.accepted == [(1, 1)]
    assert bench.kubelet.asked == 2
    assert bench.reporter.not_ready() == "another reporter has taken over this node"
    assert bench.reporter.not_alive() is None
    assert caplog.text.count("has taken over node node-1") == 1


async def test_one_that_was_outdone_reports_again_to_a_new_object() -> None:
    bench = Bench()
    await bench.tick()
    bench.server.report = {"epoch": 5, "sequence": 1}
    await bench.tick()
    bench.server.replace_object("uid-2")

    await bench.tick()

    assert bench.server.accepted == [(1, 1), (1, 1)]
    assert bench.reporter.not_ready() is None


# --- probes ---


async def test_it_lives_while_tries_end_whatever_their_end() -> None:
    bench = Bench(replace(SETTINGS, interval_seconds=20))
    bench.now_s += 299
    assert bench.reporter.not_alive() is None
    bench.now_s += 2
    assert "no try to report has ended for" in (bench.reporter.not_alive() or "")

    bench.kubelet.faults = [KubeletError("x", "down")]
    await bench.tick()
    bench.reporter._cancel_retry()

    assert bench.reporter.not_alive() is None


async def test_metrics_count_reports_and_pods() -> None:
    bench = Bench()
    bench.kubelet.faults = [KubeletError("x", "down")]
    for _ in range(3):
        await bench.tick()

    text = bench.reporter.metrics()

    assert 'sandberth_reporter_reports_total{outcome="written"} 2\n' in text
    assert 'sandberth_reporter_reports_total{outcome="failed"} 1\n' in text
    assert "sandberth_reporter_pods 1\n" in text
