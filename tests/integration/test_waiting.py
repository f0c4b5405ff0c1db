"""Sandboxes without a node: they say why, cost little, and get their place when room comes."""

import time
from collections.abc import Callable, Iterator

import pytest

from sandberth.cluster.local import LocalCluster
from tests.integration.applying import an_image_spec
from tests.integration.bed import AuditLog, Objects, OperatorProgram, wait_for
from tests.integration.berths import PENDING, Berths, berths_in, pod_creates
from tests.integration.conftest import NODES

pytestmark = pytest.mark.integration
Flags = Callable[..., None]


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, operator: OperatorProgram, home: str) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as made:
        yield made


def _let_start(berths: Berths, objects: Objects, name: str) -> None:
    """Let a Pod that was told to stay Pending go on."""
    objects.patch("Pod", name, {"metadata": {"annotations": dict.fromkeys(PENDING)}}, berths.namespace)


def test_a_sandbox_without_a_node_says_why_within_two_seconds(berths: Berths) -> None:
    berths.add_nodes(2)
    berths.add_node(taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
    began = time.monotonic()

    berths.apply("box", an_image_spec(memory="17Gi"))
    message = berths.refused("box")

    assert time.monotonic() - began < 2
    total = NODES + 3
    assert message == f"0 of {total} nodes are eligible: {NODES} NodeSelectorMismatch, 2 InsufficientMemory, 1 Tainted"
    record = berths.status("box")["placement"]
    assert record["rejected"] == {"NodeSelectorMismatch": NODES, "InsufficientMemory": 2, "Tainted": 1}
    assert record["sampled"] == 0
    assert "node" not in record


def test_a_preferred_node_that_does_not_exist_is_named_while_waiting(berths: Berths) -> None:
    berths.apply("box", an_image_spec(placement={"preferredNode": "no-such-node"}))

    assert berths.refused("box").endswith("; the preferred node no-such-node does not exist")


def test_waiting_costs_no_write_while_others_come_and_go(berths: Berths, audit: AuditLog) -> None:
    node = berths.add_node(memory="2Gi")
    berths.foreign_pod("filler", node, {"memory": "1536Mi"})
    wait_for(lambda: berths.nodes_of(phases=["Running"]) == {node: 1}, what="the other pod runs")
    position = audit.position()
    waiting = [f"box-{number}" for number in range(5)]
    for name in waiting:
        berths.apply(name)
    for name in waiting:
        berths.refused(name, text="1 InsufficientMemory")

    for number in range(15):
        berths.foreign_pod(f"other-{number}", node, {"cpu": "100m"})
    wait_for(lambda: berths.nodes_of(phases=["Running"]) == {node: 16}, what="the other pods run")
    for number in range(15):
        berths.delete(f"other-{number}", "Pod")
    wait_for(lambda: berths.nodes_of() == {node: 1}, what="the other pods have gone")
    berths.apply("last", an_image_spec(memory="512Mi"))
    berths.running("last")

    writes = [write for write in audit.writes(position) if write.name in waiting]
    assert len(writes) == len(waiting), writes


def test_room_that_a_sandbox_leaves_goes_to_the_one_that_waits(berths: Berths) -> None:
    berths.add_node(memory="1Gi")
    berths.apply("first")
    berths.running("first")
    berths.apply("second")
    berths.refused("second", text="1 InsufficientMemory")

    berths.delete("first")

    berths.running("second")


def test_room_for_many_that_appears_at_once_is_taken_by_as_many(berths: Berths) -> None:
    node = berths.add_node()
    berths.set_capacity(node, maxSandboxes=0)
    for number in range(12):
        berths.apply(f"box-{number}")
    wait_for(lambda: berths.phases() == {"Pending": 12}, what="all wait")

    berths.set_capacity(node, maxSandboxes=10)

    wait_for(lambda: berths.phases() == {"Running": 10, "Pending": 2}, what="ten run")
    assert berths.nodes_of() == {node: 10}


def test_a_sandbox_that_waits_may_be_made_smaller(berths: Berths) -> None:
    berths.add_node(memory="1Gi")
    berths.apply("box", an_image_spec(memory="2Gi"))
    berths.refused("box", text="1 InsufficientMemory")

    berths.correct("box", resources={"memory": "512Mi"})

    assert berths.running("box")["resources"] == {"cpu": "1", "memory": "512Mi"}


def test_one_that_waits_for_much_does_not_stop_those_that_ask_for_little(berths: Berths) -> None:
    berths.add_node(memory="2Gi")
    berths.apply("large", an_image_spec(memory="3Gi"))
    berths.refused("large", text="1 InsufficientMemory")

    berths.apply("small")

    berths.running("small")


def test_sixty_that_wait_are_placed_as_room_appears_and_never_overfill_the_node(
    berths: Berths, audit: AuditLog
) -> None:
    node = berths.add_node(cpu="1")  # 4 at a time
    ends = {"kwok.sandberth.test/exit": "0", "kwok.sandberth.test/exit-after": "20ms"}
    position = audit.position()
    for number in range(4):
        berths.apply(f"first-{number}")
    berths.running(*(f"first-{number}" for number in range(4)))
    for number in range(60):
        berths.apply(f"box-{number}", annotations=ends)
    wait_for(lambda: berths.phases() == {"Running": 4, "Pending": 60}, what="sixty wait")
    most = 0

    def all_done() -> bool:
        nonlocal most
        most = max(most, berths.nodes_of()[node])
        return berths.phases() == {"Succeeded": 60}

    for number in range(4):
        berths.delete(f"first-{number}")
    wait_for(all_done, 60, "all sixty have run")

    assert most == 4
    assert pod_creates(audit, berths.namespace, position) == [201] * 64


# --- the cap on starting ---


def test_no_more_sandboxes_start_on_a_node_at_once_than_the_cap(berths: Berths, objects: Objects, flags: Flags) -> None:
    flags(best_of_k_too_many_starting="true", max_starting_instances_per_node="2")
    node = berths.add_node()
    for name in ("one", "two"):
        berths.apply(name, annotations=PENDING)
        wait_for(lambda name=name: berths.status(name).get("phase") == "Starting", what=f"{name} starts")  # type: ignore[misc]
    berths.apply("three")
    berths.refused("three", text="1 TooManyStarting")

    _let_start(berths, objects, "one")

    assert berths.running("three")["nodeName"] == node
    assert berths.status("two")["phase"] == "Starting"


def test_a_node_has_a_starting_cap_of_its_own(berths: Berths, flags: Flags) -> None:
    flags(best_of_k_too_many_starting="true", max_starting_instances_per_node="5")
    node = berths.add_node()
    berths.set_capacity(node, maxStarting=1)
    berths.apply("one", annotations=PENDING)
    berths.placed("one")
    berths.apply("two", annotations=PENDING)
    berths.refused("two", text="1 TooManyStarting")

    berths.set_capacity(node, maxStarting=2)

    berths.placed("two")


def test_a_starting_cap_that_is_switched_off_holds_nobody_back(berths: Berths, flags: Flags) -> None:
    flags(best_of_k_too_many_starting="true", max_starting_instances_per_node="1")
    node = berths.add_node()
    berths.set_capacity(node, maxStarting=1)
    berths.apply("one", annotations=PENDING)
    berths.placed("one")
    berths.apply("two", annotations=PENDING)
    berths.refused("two", text="1 TooManyStarting")

    flags(best_of_k_too_many_starting="false")

    berths.placed("two")
