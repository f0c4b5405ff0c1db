"""Takes part in the election: reads and writes the Lease as the candidate decides, and gives it up at the end.

Its requests have a client of their own, with short limits, so that they neither queue behind the work nor hang.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from math import ceil
from typing import Any
from uuid import uuid4

from sandberth.control.leadership import Leadership, clock
from sandberth.control.lease import Candidate, Leave, Read, Record, Timing, Wait, Write
from sandberth.control.metrics import Metrics
from sandberth.control.watchdog import leave_at_once, watch
from sandberth.core.errors import SandberthError
from sandberth.kube import names
from sandberth.kube.client import Client
from sandberth.kube.errors import ApiError
from sandberth.kube.paths import lease_path

LOG = logging.getLogger(__name__)
_API_VERSION = "coordination.k8s.io/v1"
_RELEASED_SECONDS = 1  # the API takes no 0; nobody waits for it, the holder being empty
_RELEASES = 3


def new_identity() -> str:
    """Return a name for this process that no other one has, nor this machine's next: it begins with the host's."""
    return f"{socket.gethostname()}_{uuid4()}"


class Election:
    """One process's part in it. `trouble` says why the server refuses it the Lease, None while it does not."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        leadership: Leadership,
        timing: Timing,
        metrics: Metrics,
        *,
        identity: str | None = None,
        leave: Callable[[str], None] = leave_at_once,
        now_s: Callable[[], float] = clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.candidate = Candidate(identity or new_identity(), timing)
        self.trouble: str | None = "the Lease has not been read yet"
        self._client = client
        self._namespace = namespace
        self._path = lease_path(namespace, names.OPERATOR_LEASE)
        self._leadership = leadership
        self._metrics = metrics
        self._leave = leave
        self._now_s = now_s
        self._sleep = sleep
        self._body: dict[str, Any] = {}  # the Lease as last answered: what others wrote into it stays
        self._holder: str | None = None  # whom the log named last
        self._is_failing = False
        self._sent_at_s = 0.0
        self._sent_time = ""  # the renewTime of our newest write, by which a read recognises it; "" before the first
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Take part until cancelled. The process ends where leadership is lost."""
        self._task = asyncio.current_task()
        while True:
            step = self.candidate.next(self._now_s())
            try:
                match step:
                    case Wait(seconds):
                        await self._sleep(seconds)
                    case Read():
                        await self._read()
                    case Write(over):
                        await self._write(over)
                    case Leave(reason):
                        self._leave(reason)
                        return
            except SandberthError as error:
                self._failed(error)

    async def release(self) -> None:
        """Give the Lease up, so that the next one need not wait; call it when nothing is written any more."""
        if self._task is not None:
            self._task.cancel()  # a renewal under way would cross this
        if not self._sent_time:
            return
        try:
            for attempt in range(1, _RELEASES + 1):
                await self._read()
                if self._holder_now() != self.candidate.identity:
                    return
                try:
                    await self._send(self._spec("", _RELEASED_SECONDS), create=False)
                except ApiError as error:
                    if not error.conflict or attempt == _RELEASES:
                        raise
                    continue  # the cancelled renewal was carried out in between
                LOG.info("The Lease is given up.")
                return
        except SandberthError as error:
            LOG.warning("The Lease was not given up, so others wait until it expires: %s", error)

    async def _read(self) -> None:
        try:
            body: dict[str, Any] = await self._client.get(self._path)
        except ApiError as error:
            if not error.not_found:
                raise
            body = {}
        self._body = body
        self._is_failing = False
        self.trouble = None
        self.candidate.seen(_record(body, self.candidate.timing) if body else None, self._now_s())
        holder = self._holder_now()
        if holder == self.candidate.identity and body["spec"].get("renewTime") == self._sent_time:
            self._is_written()  # its answer was lost
        if holder != self._holder and not self.candidate.leads:
            self._holder = holder
            LOG.info("Standing by: the Lease is held by %s.", holder or "nobody")

    async def _write(self, over: Record | None) -> None:
        spec = self._spec(self.candidate.identity, ceil(self.candidate.timing.duration_seconds))
        self._sent_at_s, self._sent_time = self._now_s(), spec["renewTime"]
        await self._send(spec, create=over is None)
        self._is_written()

    def _is_written(self) -> None:
        was_leading = self.candidate.leads
        self.candidate.written(_record(self._body, self.candidate.timing), self._sent_at_s)
        self.trouble = None
        self._is_failing = False
        self._leadership.extend(self.candidate.valid_until_s)
        if not was_leading:
            LOG.info("Leading as %s.", self.candidate.identity)
            watch(self._leadership)

    async def _send(self, spec: dict[str, Any], *, create: bool) -> None:
        if create:
            metadata = {"name": names.OPERATOR_LEASE, "namespace": self._namespace}
            body = {"apiVersion": _API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}
            self._body = await self._client.post(lease_path(self._namespace), body)
        else:
            self._body = await self._client.put(self._path, {**self._body, "spec": spec})

    def _spec(self, holder: str, seconds: int) -> dict[str, Any]:
        """Return the Lease's spec with this holder; the times in it are for people, nobody compares them."""
        old = self._body.get("spec") or {}
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = {**old, "holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": now}
        if holder != old.get("holderIdentity") and holder:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = old.get("leaseTransitions", -1) + 1
        return spec

    def _holder_now(self) -> str:
        return (self._body.get("spec") or {}).get("holderIdentity") or ""

    def _failed(self, error: SandberthError) -> None:
        self.candidate.failed(self._now_s())
        if isinstance(error, ApiError) and (error.conflict or error.already_exists):
            return  # another was faster: the next look shows who
        self._metrics.lease_errors.inc()
        if isinstance(error, ApiError) and error.status in {401, 403}:
            self.trouble = f"the Lease {names.OPERATOR_LEASE} is refused: {error}"
        level = logging.DEBUG if self._is_failing else logging.WARNING
        self._is_failing = True
        LOG.log(level, "The Lease %s/%s: %s", self._namespace, names.OPERATOR_LEASE, error)


def _record(body: dict[str, Any], timing: Timing) -> Record:
    spec = body.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds") or timing.duration_seconds
    return Record(str(body["metadata"]["resourceVersion"]), spec.get("holderIdentity") or "", float(seconds))
