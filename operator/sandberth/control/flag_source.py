"""The ConfigMap `sandberth-flags`: read at each change, swapped as a whole, and complained about where it is wrong."""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from sandberth.control.state import State
from sandberth.core.errors import SandberthError
from sandberth.flags import KEYS, Flags, Reading, read
from sandberth.kube import names
from sandberth.kube.errors import ApiError

LOG = logging.getLogger(__name__)
_VALUE_LIMIT = 200
_UNKNOWN_SHOWN = 5
_PENDING_LIMIT = 100
_PENDING_SECONDS = 60.0  # so long an Event may wait: for a leader that has just begun, or for the next turn


class FlagSource:
    """Takes in versions of the ConfigMap; `changed` is called when the flags in force differ from before."""

    def __init__(self, state: State, changed: Callable[[], None]) -> None:
        self._state = state
        self._changed = changed
        self.version = 0  # the newest resourceVersion that was taken in
        self._told: frozenset[tuple[str, str]] = frozenset()
        self._pending: deque[tuple[float, dict[str, Any]]] = deque(maxlen=_PENDING_LIMIT)  # since when, Event
        self.is_read = False
        self._show(state.flags)

    def observe(self, body: Mapping[str, Any] | None) -> None:
        """Take in the ConfigMap as it is now, None where it does not exist; older versions have no effect."""
        if body is not None:
            metadata = body["metadata"]
            if metadata["name"] != names.FLAGS_CONFIGMAP or metadata["namespace"] != self._state.settings.namespace:
                return
            version = int(metadata["resourceVersion"])
            if version <= self.version:
                return
            self.version = version
        reading = read(None if body is None else body.get("data") or {}, self._state.flags)
        self.is_read = True
        self._tell(body, reading)
        if reading.flags != self._state.flags:
            LOG.info("Flags in force: %s", reading.flags.by_key())
            self._state.flags = reading.flags
            self._show(reading.flags)
            self._changed()

    def deleted(self, body: Mapping[str, Any]) -> None:
        """The ConfigMap is gone: every key returns to its default. News that comes after a newer map has no effect."""
        metadata = body["metadata"]
        version = int(metadata["resourceVersion"])
        if metadata["name"] != names.FLAGS_CONFIGMAP or metadata["namespace"] != self._state.settings.namespace:
            return
        if version >= self.version:
            self.version = version
            self.observe(None)

    async def post_events(self) -> None:
        """Send the Warning events that are due; one that cannot be sent is logged and dropped.

        What a standby saw long ago was told by the leader of that time.
        """
        pending = list(self._pending)
        self._pending.clear()
        for since_s, event in pending:
            if self._state.now_s() - since_s > _PENDING_SECONDS:
                continue
            try:
                await self._state.api.create_event(self._state.settings.namespace, event)
            except SandberthError as error:
                if isinstance(error, ApiError) and error.already_exists:
                    continue  # told by the leader before us
                LOG.warning("The event %r could not be sent: %s", event["message"], error)

    def _tell(self, body: Mapping[str, Any] | None, reading: Reading) -> None:
        in_force = self._state.flags.by_key()
        complaints = [
            ("InvalidFlag", p.key, f"{p.key}={_short(p.value)}: {p.message}; it stays at {in_force[p.key]}")
            for p in reading.problems
        ]
        if reading.unknown:
            shown = ", ".join(_short(key) for key in reading.unknown[:_UNKNOWN_SHOWN])
            more = len(reading.unknown) - _UNKNOWN_SHOWN
            text = f"{shown} and {more} more" if more > 0 else shown
            complaints.append(("UnknownFlag", "", f"no flag that Sandberth knows, and nothing reads it: {text}"))
        complaints += [
            ("FlagReturnedToDefault", key, f"{key} is not set any more and is back at {reading.flags.by_key()[key]}")
            for key in reading.returned
        ]
        told = frozenset((reason, message) for reason, _, message in complaints)
        for reason, key, message in complaints:
            if (reason, message) in self._told:
                continue
            LOG.warning("ConfigMap %s: %s", names.FLAGS_CONFIGMAP, message)
            self._state.metrics.flag_problems.labels(key if key in KEYS else "other", reason).inc()
            self._pending.append((self._state.now_s(), self._event(body, reason, message)))
        self._told = told

    def _event(self, body: Mapping[str, Any] | None, reason: str, message: str) -> dict[str, Any]:
        namespace = self._state.settings.namespace
        involved = {"apiVersion": "v1", "kind": "ConfigMap", "name": names.FLAGS_CONFIGMAP, "namespace": namespace}
        if body is not None:
            involved["uid"] = body["metadata"]["uid"]
        # The name says what is told of which version: another operator that tells the same finds it told.
        told = f"{involved.get('uid')} {self.version} {reason} {message}"
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{names.FLAGS_CONFIGMAP}.{sha256(told.encode()).hexdigest()[:16]}",
                "namespace": namespace,
            },
            "involvedObject": involved,
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": names.OPERATOR_SERVICE_ACCOUNT},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

    def _show(self, flags: Flags) -> None:
        self._state.metrics.flag.clear()
        for key, value in flags.by_key().items():
            self._state.metrics.flag.labels(key, value).set(1)


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= _VALUE_LIMIT else text[:_VALUE_LIMIT] + "…"
