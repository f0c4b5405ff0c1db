"""One NodeCapacity as an API server keeps it, for the order of reports."""

from collections.abc import Callable
from typing import Any

from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.paths import JSON_PATCH, MERGE_PATCH
from sandberth.reporter.capacity import Capacity

NODE = "node-1"


class ReportServer:
    """Checks what the real one was seen to check; faults are raised before (or after) the next writes."""

    def __init__(self, uid: str = "uid-1") -> None:
        self.uid = uid
        self.version = 10
        self.report: dict[str, Any] | None = None
        self.node_uid: str | None = "node-uid"
        self.is_there = True
        self.reads: list[ApiError | Unreachable] = []  # what the next reads end in
        self.reads_served = 0
        self.accepted: list[tuple[int, int]] = []
        self.sent: list[tuple[int, int]] = []
        self.before: list[ApiError | Unreachable | Callable[[], None]] = []
        self.after: list[Unreachable] = []

    def capacity(self) -> Capacity:
        report = self.report or {"epoch": 0, "sequence": 0}
        return Capacity(self.uid, NODE, self.version, self.node_uid, report["epoch"], report["sequence"])

    def replace_object(self, uid: str) -> None:
        self.uid, self.report = uid, None
        self.version += 1

    async def read(self, name: str) -> Capacity | None:
        assert name == NODE
        self.reads_served += 1
        if self.reads:
            raise self.reads.pop(0)
        return self.capacity() if self.is_there else None

    async def patch_status(self, name: str, body: Any, content_type: str) -> None:
        assert name == NODE
        report = body["status"]["report"] if content_type == MERGE_PATCH else body[-1]["value"]
        self.sent.append((report["epoch"], report["sequence"]))
        if self.before:
            event = self.before.pop(0)
            if not callable(event):
                raise event
            event()
        if not self.is_there:
            raise ApiError(404, "NotFound", "not found")
        if content_type == MERGE_PATCH:
            if body["metadata"]["resourceVersion"] != str(self.version):
                raise ApiError(409, "Conflict", "the object has been modified")
        else:
            assert content_type == JSON_PATCH
            held = {"/metadata/uid": self.uid, "/status/report/epoch": (self.report or {}).get("epoch")}
            if any(held[item["path"]] != item["value"] for item in body if item["op"] == "test"):
                raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request")
        self.report = {key: value for key, value in report.items() if value is not None}
        self.version += 1
        self.accepted.append((report["epoch"], report["sequence"]))
        if self.after:
            raise self.after.pop(0)
