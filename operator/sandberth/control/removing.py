"""Deleting Pods: by UID, once each, and never on the word of a stale cache."""

from sandberth.control.backoff import pause_seconds
from sandberth.control.queue import WorkQueue
from sandberth.control.reading import Reader
from sandberth.control.state import State
from sandberth.control.tracks import Track
from sandberth.control.work import Work
from sandberth.kube.paths import pod_path
from sandberth.kube.pods import PodFacts, convert_pod


class Remover:
    """Removes the Pods of Sandboxes. The room of a Pod is free when it is gone, not at the delete's answer."""

    def __init__(self, state: State, reader: Reader, queue: WorkQueue[str]) -> None:
        self._state = state
        self._reader = reader
        self._queue = queue

    async def remove(self, work: Work, pod: PodFacts) -> None:
        """Delete the Pod of a Sandbox, if that is still as it was seen."""
        if pod.deleting or work.track.delete_sent == pod.uid:
            return
        if not await self._reader.is_current(work):
            self._queue.add(work.uid)
            return
        await self._state.api.delete_pod(pod.namespace, pod.name, pod.uid)
        self._is_sent(work.track, pod)

    async def remove_unbound(self, work: Work, pod: PodFacts) -> None:
        """Delete a Pod that was not bound, unless it changed since it was seen: it may have been bound just now."""
        if pod.deleting or work.track.delete_sent == pod.uid:
            return
        if await self._reader.is_current(work):
            await self._delete_as_seen(work.uid, pod)
        else:
            self._queue.add(work.uid)

    async def remove_left_behind(self, uid: str, pod: PodFacts) -> None:
        """Delete the Pod of a Sandbox that is gone, unless it was set free (`--cascade=orphan`) since it was seen."""
        if not pod.deleting and self._state.track(uid).delete_sent != pod.uid:
            await self._delete_as_seen(uid, pod)

    async def _delete_as_seen(self, uid: str, pod: PodFacts) -> None:
        """Delete this version of a Pod; another one is read, and looked at again."""
        if not await self._state.api.delete_pod(pod.namespace, pod.name, pod.uid, pod.resource_version):
            found = await self._state.api.get(pod_path(pod.namespace, pod.name))
            if found is not None and found["metadata"]["uid"] == pod.uid:
                self._state.streams.pods.observe(convert_pod(found), in_stream=False)
                self._queue.add_after(uid, pause_seconds(1, self._state.rng, first=0.1))
                return
        self._is_sent(self._state.track(uid), pod)

    def _is_sent(self, track: Track, pod: PodFacts) -> None:
        track.delete_sent = pod.uid
        if pod.attempt_id is not None:
            self._state.ledger.delete_answered(pod.attempt_id)
