"""The API reporter against a cluster in memory: whom it reports, with which usage, and what one failure costs."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import pytest

from sandberth.kube.client import Client
from sandberth.kube.errors import ApiError
from sandberth.kube.paths import MERGE_PATCH, capacity_path, node_path, pod_path
from sandberth.reporter.api_source import ApiReporter
from sandberth.reporter.settings import Phase, ReporterSettings, UsageSource
from sandberth.reporter.usage import NODE_METRICS_PATH

DEADLINE_SECONDS = 10.0
LONG = 3600.0


class ClusterFake(Client):
    """A client of a cluster that is this object: lists, watches and report writes."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, dict[str, Any]]] = {pod_path(): {}, node_path(): {}, capacity_path(): {}}
        self.streams: dict[str, list[asyncio.Queue[bytes]]] = {path: [] for path in self.objects}
        self.metrics: bytes | ApiError = ApiError(404, "", "404 page not found")
        self.metrics_reads = 0
        self.broken: set[str] = set()  # names of nodes whose status cannot be written
        self.slow: set[str] = set()
        self.withheld: set[str] = set()  # paths that cannot be listed
        self.at_once = self.most_at_once = 0
        self._written = asyncio.Event()

    def keep(self, path: str, item: dict[str, Any], *, deleted: bool = False) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        if deleted:
            del self.objects[path][item["metadata"]["name"]]
        else:
            self.objects[path][item["metadata"]["name"]] = item
        line = orjson.dumps({"type": "DELETED" if deleted else "MODIFIED", "object": item})
        for stream in self.streams[path]:
            stream.put_nowait(line)

    def add_node(self, name: str, uid: str = "", *, owner: str = "") -> None:
        uid = uid or f"uid-{name}"
        status = {"allocatable": {"cpu": "8", "memory": "16Gi"}}
        self.keep(node_path(), {"metadata": {"name": name, "uid": uid}, "status": status})
        owners = [{"kind": "Node", "name": name, "uid": owner or uid}]
        self.keep(capacity_path(), {"metadata": {"name": name, "uid": f"nc-{uid}", "ownerReferences": owners}})

    def add_pod(self, name: str, node: str, cpu: str = "1") -> None:
        containers = [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
        metadata = {"name": name, "namespace": "team", "uid": f"pod-{name}"}
        spec = {"nodeName": node, "containers": containers}
        self.keep(pod_path(), {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})

    def report(self, node: str) -> dict[str, Any] | None:
        report: dict[str, Any] | None = self.objects[capacity_path()][node].get("status", {}).get("report")
        return report

    def sequence(self, node: str) -> int:
        report = self.report(node)
        return 0 if report is None else int(report["sequence"])

    async def until_reported(self, node: str, sequence: int = 1) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while self.sequence(node) < sequence:
                self._written.clear()
                await self._written.wait()
        report = self.report(node)
        assert report is not None
        return report

    async def list(self, path: str, *_: Any, **__: Any) -> bytes:
        await asyncio.sleep(0)
        if path in self.withheld:
            raise ApiError(503, "ServiceUnavailable", "not now")
        if path == NODE_METRICS_PATH:
            self.metrics_reads += 1
            if isinstance(self.metrics, ApiError):
                raise self.metrics
            return self.metrics
        if path not in self.objects:
            return orjson.dumps(self.objects[capacity_path()][path.rpartition("/")[2]])
        items = list(self.objects[path].values())
        return orjson.dumps({"metadata": {"resourceVersion": str(self.version)}, "items": items})

    async def watch_lines(self, path: str, *_: Any, **__: Any) -> AsyncGenerator[bytes, None]:
        stream: asyncio.Queue[bytes] = asyncio.Queue()
        self.streams[path].append(stream)
        while True:
            yield await stream.get()

    async def request(self, method: str, path: str, **options: Any) -> Any:
        if method == "GET":
            return await self.list(path)
        name = path.split("/")[-2]
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if name in self.broken:
            raise ApiError(503, "ServiceUnavailable", "broken")
        body = options["body"]
        report = body["status"]["report"] if options["content_type"] == MERGE_PATCH else body[-1]["value"]
        item = self.objects[capacity_path()][name]
        self.keep(capacity_path(), {**item, "metadata": dict(item["metadata"]), "status": {"report": report}})
        self._written.set()
        return b"{}"


@asynccontextmanager
async def running(
    cluster: ClusterFake, usage: UsageSource = UsageSource.NONE, interval: float = LONG, phase: Phase = Phase.SYNC
) -> AsyncIterator[ApiReporter]:
    reporter = ApiReporter(cluster, ReporterSettings(interval, usage, phase))
    task = asyncio.create_task(reporter.run())
    try:
        yield reporter
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def cluster() -> ClusterFake:
    cluster = ClusterFake()
    cluster.add_node("node-1")
    cluster.add_node("node-2")
    return cluster


async def test_every_node_is_reported_with_its_own_pods(cluster: ClusterFake) -> None:
    cluster.add_pod("a", "node-1")
    cluster.add_pod("b", "node-2", cpu="3")
    cluster.add_pod("c", "a node that nobody knows")

    async with running(cluster):
        first, second = await cluster.until_reported("node-1"), await cluster.until_reported("node-2")

    assert (first["allocated"]["cpu"], first["pods"], first["nodeUID"]) == ("1", 1, "uid-node-1")
    assert (second["allocated"]["cpu"], second["pods"], second["nodeUID"]) == ("3", 1, "uid-node-2")
    assert first["capacity"] == {"cpu": "8", "memory": "16Gi"}


async def test_nothing_is_reported_before_all_lists(cluster: ClusterFake) -> None:
    cluster.withheld.add(pod_path())

    async with running(cluster) as reporter:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await asyncio.gather(reporter.nodes.synced(), reporter.capacities.synced())
        assert not reporter.is_synced
        assert cluster.sequence("node-1") == 0
        cluster.add_pod("a", "node-1")
        cluster.withheld.clear()
        report = await cluster.until_reported("node-1")

    assert (report["sequence"], report["pods"]) == (1, 1)


async def test_a_new_node_is_reported_at_once(cluster: ClusterFake) -> None:
    async with running(cluster):
        await cluster.until_reported("node-2")
        cluster.add_node("node-3")
        await cluster.until_reported("node-3")

    assert cluster.sequence("node-1") == 1


async def test_an_object_of_another_node_uid_is_not_reported_until_it_is_remade(cluster: ClusterFake) -> None:
    cluster.add_node("node-3", "uid-new", owner="uid-old")

    async with running(cluster) as reporter:
        await cluster.until_reported("node-2")
        reporter.trigger()
        await cluster.until_reported("node-2", 2)
        assert cluster.report("node-3") is None
        cluster.keep(capacity_path(), cluster.objects[capacity_path()]["node-3"], deleted=True)
        cluster.add_node("node-3", "uid-newer")
        report = await cluster.until_reported("node-3")

    assert (report["nodeUID"], report["epoch"], report["sequence"]) == ("uid-newer", 1, 1)


async def test_a_failing_node_stops_no_other_and_is_told_once(
    cluster: ClusterFake, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.broken.add("node-1")
    caplog.set_level(logging.INFO)

    async with running(cluster) as reporter:
        for sequence in (1, 2, 3):
            await cluster.until_reported("node-2", sequence)
            reporter.trigger()
        cluster.broken.clear()
        await cluster.until_reported("node-1")
        reporter.trigger()
        await cluster.until_reported("node-1", 2)

    told = [message for message in caplog.messages if "node-1" in message]
    assert len(told) == 2
    assert "cannot be reported" in told[0]
    assert "again" in told[1]


async def test_a_node_whose_size_cannot_be_read_is_reported_all_the_same(cluster: ClusterFake) -> None:
    cluster.objects[node_path()]["node-1"]["status"]["allocatable"]["cpu"] = "-"

    async with running(cluster):
        report = await cluster.until_reported("node-1")

    assert report["capacity"]["cpu"] == "0"


async def test_no_more_than_sixteen_writes_at_once(cluster: ClusterFake) -> None:
    for number in range(3, 60):
        cluster.add_node(f"node-{number}")

    async with running(cluster):
        await cluster.until_reported("node-59")

    assert 1 < cluster.most_at_once <= 16


async def test_requests_stand_in_for_usage_where_asked(cluster: ClusterFake) -> None:
    cluster.add_pod("a", "node-1", cpu="250m")

    async with running(cluster, UsageSource.REQUESTS):
        report = await cluster.until_reported("node-1")

    assert report["used"] == report["requested"] == {"cpu": "250m", "memory": "1Gi"}


async def test_usage_is_left_out_where_not_wanted(cluster: ClusterFake) -> None:
    async with running(cluster, UsageSource.NONE):
        report = await cluster.until_reported("node-1")

    assert report.get("used") is None
    assert cluster.metrics_reads == 0


async def test_usage_comes_from_one_list_a_tick_and_changes_of_state_are_told_once(
    cluster: ClusterFake, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    usage = {"cpu": "123456789n", "memory": "1024Ki"}

    async with running(cluster, UsageSource.METRICS) as reporter:
        absent = await cluster.until_reported("node-1")
        reporter.trigger()
        await cluster.until_reported("node-2", 2)
        cluster.metrics = orjson.dumps({"items": [{"metadata": {"name": "node-1"}, "usage": usage}]})
        reporter.trigger()
        present = await cluster.until_reported("node-1", 3)
        unlisted = await cluster.until_reported("node-2", 3)
        cluster.metrics = ApiError(503, "ServiceUnavailable", "metrics-server is starting")
        reporter.trigger()
        lost = await cluster.until_reported("node-1", 4)

    assert absent.get("used") is None
    assert present["used"] == {"cpu": "124m", "memory": "1Mi"}
    assert unlisted.get("used") is None
    assert lost.get("used") is None
    assert cluster.metrics_reads == 4
    told = [message for message in caplog.messages if "metrics.k8s.io" in message]
    assert [("not served" in line, "fails" in line) for line in told] == [(True, False), (False, False), (False, True)]


async def test_reports_come_every_interval_also_staggered(cluster: ClusterFake) -> None:
    async with running(cluster, interval=0.2, phase=Phase.STAGGERED):
        for node in ("node-1", "node-2"):
            await cluster.until_reported(node, 3)


async def test_old_pods_hold_reports_back(cluster: ClusterFake, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(cluster) as reporter:
        await cluster.until_reported("node-2")
        monkeypatch.setattr(reporter.pods, "seconds_since_activity", lambda: 1000.0)
        reporter.trigger()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not reporter._is_held_back:  # noqa: ASYNC110 - it has nobody to tell
                await asyncio.sleep(0)
        assert cluster.sequence("node-1") == 1
        monkeypatch.undo()
        reporter.trigger()
        await cluster.until_reported("node-1", 2)
