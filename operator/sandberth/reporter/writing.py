"""Writing reports so that their order can be trusted: epochs taken by compare-and-swap, sequences never used twice.

Each NodeCapacity object (by UID) has one history. Its first report here takes the next epoch: a merge patch that
carries the resourceVersion of the object as read, so of two reporters that start together one is refused. Later ones
are JSON patches that first test UID and epoch: an object of another UID, or one whose epoch another reporter has
taken, is never touched.

On the status of a custom resource the API server ignores a metadata.uid inside a merge patch, but it does check the
resourceVersion (which no two objects share), and a JSON patch may test both.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from sandberth.kube.errors import ApiError
from sandberth.kube.paths import JSON, JSON_PATCH, MERGE_PATCH, capacity_path
from sandberth.reporter.capacity import Capacity, decode_capacity

LOG = logging.getLogger(__name__)
Body = dict[str, Any]
Make = Callable[[int, int], Body]  # (epoch, sequence) -> status.report, from the newest snapshot there is
# (method, path, body, content type) -> the answer; raises ApiError and Unreachable
Send = Callable[[str, str, Any, str], Awaitable[bytes]]

_ATTEMPTS = 5
_OPTIONAL = ("capacity", "used")  # a merge patch leaves in place what it does not name


class ReportApi(Protocol):
    """The two requests that reporting needs, each raising ApiError and Unreachable."""

    async def patch_status(self, name: str, body: Any, content_type: str) -> None:
        """Patch the status of the NodeCapacity of that name."""

    async def read(self, name: str) -> Capacity | None:
        """Return the NodeCapacity of that name by a consistent read, None if there is none."""


class Outcome(StrEnum):
    """What became of one report."""

    WRITTEN = "written"
    OUTDONE = "outdone"  # another reporter has a higher epoch: this object is no longer ours to report
    GONE = "gone"  # the object is no more, or another one has its name: the stream will tell


@dataclass(slots=True)
class History:
    """Our reports of one NodeCapacity object; epoch 0 is none taken yet."""

    epoch: int = 0
    sequence: int = 0
    highest: int = 0  # the highest epoch ever seen, whoever took it
    outdone: bool = False


class Writer:
    """Sends reports; one call at a time for each object."""

    def __init__(self, api: ReportApi) -> None:
        self._api = api
        self._histories: dict[str, History] = {}  # UID of a NodeCapacity -> what we reported there

    def knows(self, uid: str) -> bool:
        """Return whether a report to the object of that UID was ever tried."""
        return uid in self._histories

    def is_outdone(self, uid: str) -> bool:
        """Return whether another reporter has taken that object over."""
        history = self._histories.get(uid)
        return history is not None and history.outdone

    def forget(self, uid: str) -> None:
        """Drop the history of an object that is gone; UIDs never come back."""
        self._histories.pop(uid, None)

    async def write(self, seen: Capacity, make: Make) -> Outcome:
        """Report once to this object.

        Raises ApiError and Unreachable where the report did not get through; the next call goes on from there.
        """
        history = self._histories.setdefault(seen.uid, History())
        history.highest = max(history.highest, seen.epoch)
        current: Capacity | None = seen
        for attempt in range(1, _ATTEMPTS + 1):
            if current is None or current.uid != seen.uid:
                return Outcome.GONE
            if history.outdone or self._is_overtaken(history, current):
                return Outcome.OUTDONE
            try:
                if history.epoch:
                    await self._continue(history, current, make)
                else:
                    await self._begin(history, current, make)
            except ApiError as error:
                if error.not_found:
                    return Outcome.GONE
                # A failed test and a report that schema or policy refuse are both 422 Invalid: the object tells which.
                is_test = bool(history.epoch) and error.status == 422
                if attempt == _ATTEMPTS or not (is_test or error.conflict):
                    raise
                current = await self._api.read(seen.name)
                if is_test and current is not None and current.uid == seen.uid and not self._is_lost(history, current):
                    raise
            else:
                return Outcome.WRITTEN
        raise AssertionError("the last attempt returns or raises")

    async def _begin(self, history: History, current: Capacity, make: Make) -> None:
        """Take the next epoch with our first report."""
        epoch = max(history.highest, current.epoch) + 1
        report = {**dict.fromkeys(_OPTIONAL), **make(epoch, 1)}
        version = {"uid": current.uid, "resourceVersion": str(current.resource_version)}
        await self._api.patch_status(current.name, {"metadata": version, "status": {"report": report}}, MERGE_PATCH)
        history.epoch = history.highest = epoch
        history.sequence = 1

    async def _continue(self, history: History, current: Capacity, make: Make) -> None:
        """Send the next report of our epoch; its number is spent even if no answer comes."""
        history.sequence += 1
        tests = (("/metadata/uid", current.uid), ("/status/report/epoch", history.epoch))
        patch = [{"op": "test", "path": path, "value": value} for path, value in tests]
        report = make(history.epoch, history.sequence)
        await self._api.patch_status(
            current.name, [*patch, {"op": "replace", "path": "/status/report", "value": report}], JSON_PATCH
        )

    def _is_overtaken(self, history: History, current: Capacity) -> bool:
        if not history.epoch or current.epoch <= history.epoch:
            return False
        history.outdone = True
        LOG.warning(
            "Another reporter has taken over node %s (epoch %d, ours was %d); this one leaves the node to it.",
            current.name,
            current.epoch,
            history.epoch,
        )
        return True

    def _is_lost(self, history: History, current: Capacity) -> bool:
        """Return whether the object no longer holds our epoch; a lower one than ours is to be taken anew."""
        history.highest = max(history.highest, current.epoch)
        if current.epoch < history.epoch:
            LOG.warning("The report of node %s has vanished or gone back; taking its epoch anew.", current.name)
            history.epoch = 0
            return True
        return current.epoch > history.epoch


class HttpReportApi:
    """`ReportApi` through whatever sends requests; the answers to writes are not decoded."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def patch_status(self, name: str, body: Any, content_type: str) -> None:
        """Patch the status of the NodeCapacity of that name."""
        await self._send("PATCH", capacity_path(name, "status"), body, content_type)

    async def read(self, name: str) -> Capacity | None:
        """Return the NodeCapacity of that name by a consistent read, None if there is none."""
        try:
            content = await self._send("GET", capacity_path(name), None, JSON)
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return decode_capacity(content)
