"""The operator's whole state in one place: streams, fleet, flags, and what it remembers of each Sandbox."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from sandberth.control.api import Api
from sandberth.control.metrics import Metrics
from sandberth.control.settings import Settings
from sandberth.control.streams import Streams
from sandberth.control.tracks import Track
from sandberth.core.fleet import Fleet
from sandberth.core.ledger import Ledger
from sandberth.flags import Flags
from sandberth.kube.pods import PodFacts


@dataclass(slots=True)
class State:
    """What every part of the operator shares; `now_s` is our own monotonic clock, `wall_s` the wall clock."""

    settings: Settings
    api: Api
    metrics: Metrics
    streams: Streams = field(default_factory=Streams)
    fleet: Fleet = field(default_factory=lambda: Fleet(Ledger()))
    flags: Flags = field(default_factory=Flags)
    tracks: dict[str, Track] = field(default_factory=dict)  # Sandbox UID -> memory
    pods_of: dict[str, set[str]] = field(default_factory=dict)  # Sandbox UID -> UIDs of its Pods
    quiet: str | None = None  # UID of the Sandbox whose own write is being taken in: no reason to look at it again
    rng: Random = field(default_factory=Random)
    now_s: Callable[[], float] = time.monotonic
    wall_s: Callable[[], float] = time.time

    @contextmanager
    def quietly(self, uid: str) -> Iterator[None]:
        """Take the answer to an own write in, without having the Sandbox looked at again because of it."""
        self.quiet = uid
        try:
            yield
        finally:
            self.quiet = None

    @property
    def ledger(self) -> Ledger:
        """What every node holds."""
        return self.fleet.ledger

    def track(self, uid: str) -> Track:
        """Return the memory of a Sandbox, a fresh one at first sight."""
        track = self.tracks.get(uid)
        if track is None:
            track = self.tracks[uid] = Track(first_seen_s=self.now_s())
        return track

    def pod_of(self, uid: str) -> PodFacts | None:
        """Return the Pod of a Sandbox, None where the cache shows none."""
        pods = (self.streams.pods.get(pod_uid) for pod_uid in self.pods_of.get(uid, ()))
        return next((pod for pod in pods if pod is not None), None)
