"""The reporter of one node: what its kubelet holds, straight from the kubelet.

It knows what the API does not: a pod that was force-deleted is gone from the kubelet's list once it is gone, static
pods are there before their mirrors, and a partition between API server and kubelet shows as a report that grows old.

The UID of the Node comes from the NodeCapacity's owner, which the operator writes, and its allocatable size from the
pod's own environment: so this needs no right to read Nodes, which would be all of them.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any, Final, Protocol

from sandberth.core.errors import SandberthError
from sandberth.core.resources import Resources
from sandberth.kube.errors import ApiError
from sandberth.reporter.capacity import Capacity
from sandberth.reporter.kubelet import KubeletError, KubeletPods
from sandberth.reporter.probes import exposition
from sandberth.reporter.schedule import Schedule
from sandberth.reporter.settings import KubeletSettings, UsageSource
from sandberth.reporter.snapshot import NodeDescription, Snapshot, report_body, take_snapshot
from sandberth.reporter.troubles import Trouble
from sandberth.reporter.writing import Outcome, ReportApi, Writer

LOG = logging.getLogger(__name__)
_FIRST_RETRY_SECONDS: Final = 1.0
_SILENT_SECONDS: Final = 300.0


class KubeletApi(Protocol):
    """What a report needs of the kubelet; both raise KubeletError."""

    async def pods(self) -> KubeletPods:
        """Return every pod that the kubelet holds."""

    async def usage(self) -> Resources | None:
        """Return what the node uses."""


class NotYetError(SandberthError):
    """There is nothing to report to; `cause` is the kind of trouble, the same each time."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class KubeletReporter:
    """Reports one node, once an interval; `run` ends only when cancelled."""

    def __init__(
        self,
        kubelet: KubeletApi,
        api: ReportApi,
        settings: KubeletSettings,
        *,
        rng: Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.writer = Writer(api)
        self.written = 0
        self.failed = 0
        self.schedule = Schedule(
            settings.interval_seconds, clock=clock, early_seconds=rng.uniform(0, settings.interval_seconds)
        )
        self._kubelet = kubelet
        self._api = api
        self._rng = rng
        self._clock = clock
        self._seen: Capacity | None = None  # the object that is reported to; None: to be read
        self._unready: str | None = "no report is written yet"
        self._pods = 0
        self._failures = 0  # in a row
        self._retry: asyncio.TimerHandle | None = None
        self._ticked_at = clock()
        self._reports = Trouble(LOG, f"Node {settings.node_name} is reported.")
        self._stats = Trouble(LOG, "The kubelet's stats are back; reports hold usage.")
        self._lists = Trouble(LOG, "All pods of the kubelet can be read again.")

    def trigger(self) -> None:
        """Report now, and start the interval anew from there."""
        self.schedule.trigger()

    async def run(self) -> None:
        """Report at once, then on time."""
        LOG.info(
            "Reporting node %s every %g s from the kubelet at %s:%d, usage: %s.",
            self.settings.node_name,
            self.settings.interval_seconds,
            self.settings.address,
            self.settings.port,
            self.settings.usage,
        )
        try:
            await self.schedule.run(self._tick)
        finally:
            self._cancel_retry()

    def not_alive(self) -> str | None:
        """Return why only a restart would help: no try to report, good or bad, has ended for long."""
        silence = self._clock() - self._ticked_at
        if silence <= max(_SILENT_SECONDS, 3 * self.settings.interval_seconds):
            return None
        return f"no try to report has ended for {silence:.0f} s"

    def not_ready(self) -> str | None:
        """Return why the node is not reported from here."""
        return self._unready

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        return exposition(written=self.written, failed=self.failed, pods=self._pods)

    async def _tick(self, _: frozenset[int] | None) -> None:
        """Report once; after a failure again before the next interval, later and later."""
        self._cancel_retry()
        try:
            await self._report()
        except SandberthError as error:
            self._fail(error)
        except Exception as error:
            LOG.exception("A fault of the reporter kept node %s from being reported.", self.settings.node_name)
            self._fail(error)
        else:
            self._failures = 0
        self._ticked_at = self._clock()

    async def _report(self) -> None:
        capacity = self._seen or await self._find()
        if self.writer.is_outdone(capacity.uid):
            return  # until the NodeCapacity is made anew
        used = await self._usage()
        snapshot = await self._snapshot()
        self._pods = snapshot.pods
        if self.settings.usage is UsageSource.REQUESTS:
            used = snapshot.requested
        node = NodeDescription(capacity.node_uid or "", self.settings.allocatable, used)

        def make(epoch: int, sequence: int) -> dict[str, Any]:
            return report_body(
                node,
                snapshot,
                epoch=epoch,
                sequence=sequence,
                interval_seconds=self.settings.interval_seconds,
                now=taken_at,
            )

        taken_at = datetime.now(UTC)
        outcome = await self.writer.write(capacity, make)
        if outcome is Outcome.WRITTEN:
            self._seen, self._unready = capacity, None
            self.written += 1
            self._reports.end()
            return
        self._seen = None
        if outcome is Outcome.OUTDONE:
            self._unready = "another reporter has taken over this node"
            return
        self.writer.forget(capacity.uid)
        raise NotYetError("gone", "its NodeCapacity has been removed or made anew")

    async def _find(self) -> Capacity:
        """Return the NodeCapacity of this node. Raises NotYetError where there is none that can be reported to."""
        name = self.settings.node_name
        capacity = await self._api.read(name)
        if capacity is None:
            raise NotYetError("absent", f"there is no NodeCapacity {name} yet; the operator makes one for each Node")
        if capacity.node_uid is None:
            raise NotYetError("unowned", f"NodeCapacity {name} belongs to no Node; the operator makes it anew")
        return capacity

    async def _usage(self) -> Resources | None:
        """Return what the node uses; None where that is not wanted or not known."""
        if self.settings.usage is not UsageSource.METRICS:
            return None
        try:
            used = await self._kubelet.usage()
        except KubeletError as error:
            self._stats.begin(error.cause, f"Reports leave usage out: {error}")
            return None
        self._stats.end()
        return used

    async def _snapshot(self) -> Snapshot:
        """Return what the node holds. A list that could not be read to its end is not complete."""
        pods, unreadable = await self._kubelet.pods()
        snapshot = take_snapshot(pods)
        if not unreadable:
            self._lists.end()
            return snapshot
        self._lists.begin("pods", f"{len(unreadable)} pods are left out: they cannot be read ({unreadable[0]})")
        return replace(snapshot, complete=False)

    def _fail(self, error: Exception) -> None:
        """Log a new trouble, and try again in a second, then two, four, at most an interval; all of it jittered."""
        self.failed += 1
        self._reports.begin(_cause(error), f"Node {self.settings.node_name} cannot be reported: {error}")
        pause = min(self.settings.interval_seconds, _FIRST_RETRY_SECONDS * 2 ** min(self._failures, 20))
        pause *= self._rng.uniform(0.5, 1.0)
        if isinstance(error, ApiError) and error.retry_after_seconds is not None:
            pause = max(pause, error.retry_after_seconds)
        self._failures += 1
        self._retry = asyncio.get_running_loop().call_later(pause, self.schedule.wake)

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None


def _cause(error: Exception) -> str:
    if isinstance(error, (KubeletError, NotYetError)):
        return error.cause
    return f"{error.status} {error.reason}" if isinstance(error, ApiError) else type(error).__name__
