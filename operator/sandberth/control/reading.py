"""Consistent reads before what cannot be undone: caches may be behind, the API server is not.

What a read finds enters the streams like anything else, so the next look sees it.
"""

from sandberth.control.state import State
from sandberth.control.work import Work
from sandberth.kube.paths import node_path, pod_path, sandbox_path
from sandberth.kube.pods import PodFacts, convert_pod


class Reader:
    """Asks the API server where acting on a cache alone could do harm. All raise ApiError and Unreachable."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def is_current(self, work: Work) -> bool:
        """Read a Sandbox that only a list has shown again before the first create or delete; False if it changed."""
        if work.uid not in self._state.streams.unverified:
            return True
        await self.reread(work)
        self._state.streams.unverified.discard(work.uid)
        newest = self._state.streams.sandboxes.get(work.uid)
        return newest is not None and newest.resource_version == work.seen.resource_version

    async def reread(self, work: Work) -> None:
        """Learn what a Sandbox is now, or that it is gone."""
        current = await self._state.api.get(sandbox_path(work.seen.namespace, work.seen.name))
        if current is None or current["metadata"]["uid"] != work.uid:
            self._state.streams.sandboxes.observe(work.seen, deleted=True, in_stream=False)
        else:
            self._state.streams.observe_sandbox(current)

    async def sandbox_is_gone(self, uid: str, pod: PodFacts) -> bool:
        """Return whether a Pod's Sandbox, which no stream has shown, really does not exist."""
        current = await self._state.api.get(sandbox_path(pod.namespace, pod.name))
        if current is None or current["metadata"]["uid"] != uid:
            return True
        self._state.streams.observe_sandbox(current)
        return False

    async def pod_is_gone(self, work: Work) -> bool:
        """Return whether a Pod that the cache does not show really does not exist, before it is called lost."""
        found = await self._state.api.get(pod_path(work.sandbox.namespace, work.sandbox.name))
        pod = None if found is None else convert_pod(found)
        if pod is None or pod.owner_uid != work.uid:
            return True
        self._state.streams.pods.observe(pod, in_stream=False)
        return self._state.pod_of(work.uid) is None

    async def node_is_gone(self, pod: PodFacts) -> bool:
        """Return whether the Node that a Pod was made for is no more; an unknown one is asked for first."""
        node = self._state.fleet.by_name(pod.node_name)
        if node is not None and pod.node_uid in {"", node.facts.uid}:
            return False
        current = await self._state.api.get(node_path(pod.node_name))
        if current is not None:
            self._state.streams.observe_node(current)
        return current is None or pod.node_uid not in {"", current["metadata"]["uid"]}
