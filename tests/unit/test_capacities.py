"""Remaking a NodeCapacity: only for the Node that is there now, never on the word of a cache."""

import pytest

from sandberth.control.capacities import Capacities
from sandberth.kube import names
from sandberth.kube.paths import node_path
from tests.unit.fake_api import Bench, Object


class CapacityApi:
    """The Node as the server has it, and what was written."""

    def __init__(self, node_uid: str | None) -> None:
        self.node_uid = node_uid
        self.calls: list[str] = []

    async def get(self, path: str) -> Object | None:
        assert path == node_path("node-a")
        return None if self.node_uid is None else {"metadata": {"uid": self.node_uid}}

    async def delete_capacity(self, _: str, uid: str) -> bool:
        self.calls.append(f"delete {uid}")
        return True

    async def create_capacity(self, body: Object) -> Object:
        self.calls.append("create")
        return {**body, "metadata": {**body["metadata"], "uid": "made", "resourceVersion": "9"}}


@pytest.mark.parametrize(
    ("node_uid", "expected"),
    [
        pytest.param("ours", ["delete of-another-node", "create"], id="the Node is the one that we know"),
        pytest.param("another", [], id="the Node is another by now"),
        pytest.param(None, [], id="the Node is gone"),
    ],
)
async def test_a_capacity_of_another_node_is_remade_for_the_node_that_is_there(
    node_uid: str | None, expected: list[str]
) -> None:
    bench = Bench()
    node = bench.state.fleet.by_name("node-a")
    assert node is not None
    api = CapacityApi(node.facts.uid if node_uid == "ours" else node_uid)
    bench.state.api = api  # type: ignore[assignment]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "another"}
    metadata = {"name": "node-a", "uid": "of-another-node", "resourceVersion": "5", "ownerReferences": [owner]}
    body = {"apiVersion": names.API_VERSION, "kind": names.NODECAPACITY_KIND, "metadata": metadata, "spec": {}}
    bench.state.streams.observe_capacity(body)

    await Capacities(bench.state).ensure("node-a")

    assert api.calls == expected
