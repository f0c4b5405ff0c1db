"""One process that reports many nodes, from the API server's own view of their pods.

For clusters where nobody may run a DaemonSet, and for test beds without kubelets. It knows what the API knows: a pod
that a kubelet still runs after a forced deletion is not in these reports.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any

from sandberth.core.errors import SandberthError
from sandberth.core.node import NodeFacts
from sandberth.core.resources import Resources
from sandberth.kube.client import Client
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.informer import Informer
from sandberth.kube.nodes import Node, decode_node, node_facts, node_key
from sandberth.kube.paths import capacity_path, node_path, pod_path
from sandberth.kube.pods import PodFacts, decode_pod
from sandberth.kube.store import Store
from sandberth.reporter.capacity import Capacity, capacity_key, decode_capacity
from sandberth.reporter.probes import exposition
from sandberth.reporter.schedule import Schedule, slot_of
from sandberth.reporter.settings import ReporterSettings, UsageSource
from sandberth.reporter.snapshot import NodeDescription, PodsByNode, report_body, take_snapshot
from sandberth.reporter.usage import NodeMetrics
from sandberth.reporter.writing import HttpReportApi, Outcome, Writer

LOG = logging.getLogger(__name__)
_CONCURRENCY = 16
_LONGEST_REQUEST_SECONDS = 10.0
_SILENT_SECONDS = 120.0  # a living watch of the API server is never silent for so long: bookmarks come every minute
_DEAD_SECONDS = 300.0


class ApiReporter:
    """Reports every node whose NodeCapacity belongs to it, once an interval; `run` ends only when cancelled."""

    def __init__(
        self, client: Client, settings: ReporterSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        request_seconds = min(_LONGEST_REQUEST_SECONDS, max(1.0, settings.interval_seconds))
        self.settings = settings
        self.pods: Informer[PodFacts] = Informer(client, pod_path(), Store(), decode_pod)
        self.nodes: Informer[Node] = Informer(client, node_path(), Store(node_key), decode_node)
        self.capacities: Informer[Capacity] = Informer(client, capacity_path(), Store(capacity_key), decode_capacity)
        self.writer = Writer(HttpReportApi(self._send))
        self.written = 0
        self.failed = 0
        self.schedule = Schedule(settings.interval_seconds, settings.phase, clock)
        self._pods_by_node = PodsByNode(self.pods.store)
        self._client = client
        self._request_seconds = request_seconds
        self._metrics = NodeMetrics(client, request_seconds)
        self._places = asyncio.Semaphore(_CONCURRENCY)
        self._failing: dict[str, str] = {}  # node -> why its last report did not get through
        self._is_held_back = False
        self.capacities.store.subscribe(self._capacity_changed)
        self.nodes.store.subscribe(self._node_changed)

    def not_alive(self) -> str | None:
        """Return why only a restart would help: the stream of pods is silent for too long."""
        silence = self.pods.seconds_since_activity()
        return f"the stream of pods has been silent for {silence:.0f} s" if silence > _DEAD_SECONDS else None

    def not_ready(self) -> str | None:
        """Return why nothing is reported yet."""
        return None if self.is_synced else "Pods, Nodes and NodeCapacities are not listed yet"

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        return exposition(written=self.written, failed=self.failed, pods=len(self.pods.store))

    @property
    def is_synced(self) -> bool:
        """Whether Pods, Nodes and NodeCapacities have been listed: before, nothing is reported."""
        return self.pods.is_synced and self.nodes.is_synced and self.capacities.is_synced

    def trigger(self) -> None:
        """Report all nodes now, and start the interval anew from there."""
        self.schedule.trigger()

    async def run(self) -> None:
        """Follow the streams and report; the first tick comes right after the first lists."""
        streams = (self.pods, self.nodes, self.capacities)
        async with asyncio.TaskGroup() as tasks:
            for stream in streams:
                tasks.create_task(stream.run())
            await asyncio.gather(*(stream.synced() for stream in streams))
            LOG.info(
                "Reporting %d of %d nodes every %g s (%s), usage from %s; %d pods known.",
                len(self._reportable()),
                len(self.nodes.store),
                self.settings.interval_seconds,
                self.settings.phase,
                self.settings.usage,
                len(self.pods.store),
            )
            await self.schedule.run(self._tick)

    async def _send(self, method: str, path: str, body: Any, content_type: str) -> bytes:
        return await self._client.request(
            method, path, body=body, content_type=content_type, timeout_seconds=self._request_seconds, raw=True
        )

    def _capacity_changed(self, old: Capacity | None, new: Capacity | None) -> None:
        if new is None and old is not None:
            self.writer.forget(old.uid)
            self._failing.pop(old.name, None)
        elif old is None:
            self.schedule.wake()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None and new is not None:
            self.schedule.wake()

    def _reportable(self) -> list[tuple[Capacity, Node]]:
        """Return each NodeCapacity that belongs to the Node that has its name now, and is ours to report."""
        found = []
        for capacity in self.capacities.store:
            node = self.nodes.store.by_name("", capacity.name)
            if node is not None and capacity.node_uid == node.metadata.uid and not self.writer.is_outdone(capacity.uid):
                found.append((capacity, node))
        return found

    async def _tick(self, slots: frozenset[int] | None) -> None:
        """Report the nodes of these slots (None: of all), and those that were never reported."""
        if self._holds_back():
            return
        due = [
            (capacity, node)
            for capacity, node in self._reportable()
            if slots is None
            or slot_of(capacity.name, self.schedule.slots) in slots
            or not self.writer.knows(capacity.uid)
        ]
        if not due:
            return
        if self.settings.usage is UsageSource.METRICS and (slots is None or 0 in slots):
            await self._metrics.refresh()  # once an interval, also where the nodes are spread over it
        before = dict(self._failing)
        await _all(self._report(capacity, node) for capacity, node in due)
        self._tell_changes(before)

    async def _report(self, capacity: Capacity, node: Node) -> None:
        facts = node_facts(node)

        def make(epoch: int, sequence: int) -> dict[str, Any]:
            return self._body(facts, epoch, sequence)

        async with self._places:
            try:
                outcome = await self.writer.write(capacity, make)
            except SandberthError as error:
                self.failed += 1
                self._failing[capacity.name] = _cause(error)
            except Exception as error:
                LOG.exception("A fault of the reporter kept node %s from being reported.", capacity.name)
                self.failed += 1
                self._failing[capacity.name] = repr(error)
            else:
                self.written += outcome is Outcome.WRITTEN
                self._failing.pop(capacity.name, None)

    def _body(self, node: NodeFacts, epoch: int, sequence: int) -> dict[str, Any]:
        """Return the report of this instant. No `await` in here: list and totals are one snapshot."""
        snapshot = take_snapshot(self._pods_by_node.on(node.name))
        capacity = Resources(node.allocatable.cpu_millicores, node.allocatable.memory_bytes)
        used = None
        if self.settings.usage is UsageSource.METRICS:
            used = self._metrics.of(node.name)
        elif self.settings.usage is UsageSource.REQUESTS:
            used = snapshot.requested
        return report_body(
            NodeDescription(node.uid, capacity, used),
            snapshot,
            epoch=epoch,
            sequence=sequence,
            interval_seconds=self.settings.interval_seconds,
            now=datetime.now(UTC),
        )

    def _holds_back(self) -> bool:
        """Return whether the pods known are too old: a report that is late says more than one that is wrong."""
        silence = self.pods.seconds_since_activity()
        held_back = silence > _SILENT_SECONDS
        if held_back and not self._is_held_back:
            LOG.warning("No reports: the stream of pods has been silent for %.0f s.", silence)
        elif self._is_held_back and not held_back:
            LOG.info("The stream of pods is back; reporting goes on.")
        self._is_held_back = held_back
        return held_back

    def _tell_changes(self, before: dict[str, str]) -> None:
        """Log which nodes began to fail and which are well again, in one line each."""
        fallen = [name for name in self._failing if name not in before]
        risen = [name for name in before if name not in self._failing]
        if fallen:
            LOG.warning("%s cannot be reported: %s", _names(fallen), self._failing[fallen[0]])
        if risen:
            LOG.info("%s reported again.", _names(risen))


async def _all(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for job in jobs:
            tasks.create_task(job)


def _cause(error: SandberthError) -> str:
    if isinstance(error, ApiError):
        return str(error)
    return f"no answer ({error})" if isinstance(error, Unreachable) else repr(error)


def _names(nodes: list[str]) -> str:
    first = ", ".join(sorted(nodes)[:3])
    return f"{len(nodes)} nodes ({first}, ...)" if len(nodes) > 3 else first
