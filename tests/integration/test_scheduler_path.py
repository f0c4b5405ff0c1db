"""What only kube-scheduler can do, on the node that Best-of-K chose where that is possible, and elsewhere where not."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from tests.integration.applying import a_sandbox, a_template_spec
from tests.integration.bed import AuditLog, Object, Objects, OperatorProgram, wait_for
from tests.integration.berths import Berths, a_sized_template, berths_in, condition, pod_creates
from tests.integration.boxes import Boxes, attempt_of, plays, ready_pod, views_are_the_pods
from tests.integration.conftest import Kubectl

pytestmark = pytest.mark.integration

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
LABELS = {"example.com/app": "web"}


@pytest.fixture
def boxes(objects: Objects, home: str, operator: OperatorProgram) -> Boxes:
    return Boxes(objects, home)


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, home: str, operator: OperatorProgram) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as berths:
        yield berths


@contextmanager
def no_scheduler(cluster: LocalCluster) -> Iterator[None]:
    """Stop kube-scheduler, so that Pods stay unbound."""
    cluster.stop_program("kube-scheduler", crash=True)
    try:
        yield
    finally:
        cluster.start_program("kube-scheduler")


def near(kind: str, labels: dict[str, str] | None = None, topology: str = HOSTNAME) -> Object:
    """Return an affinity: podAffinity or podAntiAffinity to what carries these labels."""
    term = {"labelSelector": {"matchLabels": labels or LABELS}, "topologyKey": topology}
    return {kind: {REQUIRED: [term]}}


def scheduled(**pod_fields: Any) -> Object:
    """Return a small template that any node will do for and that kube-scheduler must bind."""
    requests = {"cpu": "100m", "memory": "64Mi"}
    alone = near("podAntiAffinity", {"example.com/app": "no-such"})
    return a_sized_template(requests, **{"affinity": alone, **pod_fields})


def on(node: str, spec: Object) -> Object:
    return {**spec, "placement": {"preferredNode": node}}


def unbound_pod(boxes: Boxes, name: str = "box") -> Object:
    """Wait until a Sandbox has a Pod that is not bound and stands in its status; return the Pod."""
    boxes.has_phase("Starting", name)
    pod = boxes.pod(name)
    assert pod is not None
    assert "nodeName" not in pod["spec"]
    return pod


def chosen_node(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][names.NODE_NAME_ANNOTATION])


def is_unschedulable(boxes: Boxes, text: str) -> bool:
    """Return whether the Sandbox is Pending because of kube-scheduler, with these words of it."""
    status = boxes.status()
    placed = condition(status, "Placed")
    return status.get("phase") == "Pending" and placed["reason"] == "Unschedulable" and text in placed["message"]


def names_of_nodes(objects: Objects) -> list[str]:
    return [node["metadata"]["name"] for node in objects.list("Node")]


# --- volumes ---


@pytest.fixture
def storage(objects: Objects, home: str) -> Iterator[str]:
    """A StorageClass whose volumes are bound only when a Pod that claims them is; each node has one volume."""
    name = f"local-{home}"
    objects.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    volumes = [a_volume(f"{name}-{node}", name, node) for node in names_of_nodes(objects)]
    for volume in volumes:
        objects.create(volume)
    yield name
    for volume in volumes:
        objects.delete("PersistentVolume", volume["metadata"]["name"])
    objects.delete("StorageClass", name)


def a_volume(name: str, storage: str, node: str) -> Object:
    here = {"key": HOSTNAME, "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": storage,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def a_claim(namespace: str, storage: str, name: str = "data") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def claiming(name: str = "data") -> Object:
    return a_template_spec(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])


def test_a_volume_that_waits_for_its_first_consumer_is_bound_on_the_node_that_was_chosen(
    boxes: Boxes, objects: Objects, storage: str, audit: AuditLog
) -> None:
    objects.create(a_claim(boxes.namespace, storage))
    since = audit.position()

    boxes.apply(spec=claiming())
    pod = ready_pod(boxes)

    status = boxes.status()
    assert pod["spec"]["nodeName"] == chosen_node(pod) == status["nodeName"] == status["placement"]["node"]
    assert status["placement"]["score"] is not None
    assert "bound by kube-scheduler: volumes[0].persistentVolumeClaim" in boxes.message("Placed")
    claim = objects.get("PersistentVolumeClaim", "data", boxes.namespace) or {}
    assert claim["spec"]["volumeName"] == f"{storage}-{status['nodeName']}"
    writes = Counter((w.verb, w.resource) for w in audit.writes(since) if w.namespace == boxes.namespace)
    assert writes["create", "pods"] == 1
    assert writes["patch", "sandboxes/status"] <= 2
    assert sum(writes.values()) <= 3


def test_a_sandbox_that_claims_a_volume_again_is_placed_where_the_volume_is(
    boxes: Boxes, objects: Objects, storage: str
) -> None:
    objects.create(a_claim(boxes.namespace, storage))
    boxes.apply("first", claiming())
    node = boxes.has_phase("Running", "first")["nodeName"]
    boxes.delete("first")
    wait_for(lambda: boxes.pod("first") is None, what="the first is gone")

    boxes.apply("again", claiming())

    status = boxes.has_phase("Running", "again")
    assert (status["nodeName"], status["placement"]["attempt"]) == (node, 1)
    boxes.delete_pod("again")
    wait_for(lambda: boxes.status("again").get("placement", {}).get("attempt") == 2, what="the next attempt")
    assert boxes.has_phase("Running", "again")["nodeName"] == node


def test_a_claim_that_does_not_exist_is_named_and_the_sandbox_runs_once_it_does(
    boxes: Boxes, objects: Objects, storage: str
) -> None:
    boxes.apply(spec=claiming("late"))

    wait_for(lambda: '"late" not found' in boxes.message("Ready"), 10, "the scheduler's words")
    wait_for(lambda: is_unschedulable(boxes, '"late" not found'), 20, "it rests")
    objects.create(a_claim(boxes.namespace, storage, "late"))

    boxes.has_phase("Running", seconds=30)


# --- affinity and spread ---


def test_two_sandboxes_that_shun_each_other_land_on_two_nodes_the_second_after_a_try(
    boxes: Boxes, berths: Berths
) -> None:
    first_node, second_node = berths.add_nodes(2)
    spec = on(first_node, scheduled(affinity=near("podAntiAffinity")))
    berths.apply("first", spec, labels=LABELS)
    assert boxes.has_phase("Running", "first")["nodeName"] == first_node

    berths.apply("second", spec, labels=LABELS)

    wait_for(lambda: "anti-affinity" in boxes.message("Ready", "second"), what="the scheduler's words")
    status = boxes.has_phase("Running", "second")
    assert status["nodeName"] == second_node
    assert status["placement"]["attempt"] == 2
    assert f"the preferred node {first_node} was not eligible: RefusedEarlier" in boxes.message("Placed", "second")
    assert chosen_node(boxes.pod("second") or {}) == second_node
    assert boxes.one_pod_each()


def test_sandboxes_spread_over_all_nodes_although_each_is_pinned(boxes: Boxes, objects: Objects) -> None:
    node = names_of_nodes(objects)[0]
    spread = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": LABELS},
    }
    spec = on(node, scheduled(topologySpreadConstraints=[spread]))

    for number in range(3):
        boxes.apply(f"box-{number}", spec, metadata={"labels": LABELS})
        boxes.has_phase("Running", f"box-{number}", 30)

    assert boxes.status("box-0")["nodeName"] == node
    assert len({boxes.status(f"box-{number}")["nodeName"] for number in range(3)}) == 3
    assert boxes.one_pod_each()


def test_sandboxes_spread_over_the_nodes_that_they_select(boxes: Boxes, berths: Berths, objects: Objects) -> None:
    nodes = berths.add_nodes(2)
    spread = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": LABELS},
    }
    spec = on(nodes[0], scheduled(topologySpreadConstraints=[spread]))

    for number in range(4):
        berths.apply(f"box-{number}", spec, labels=LABELS)
        boxes.has_phase("Running", f"box-{number}", 30)

    assert boxes.status("box-0")["nodeName"] == nodes[0], "as preferred, where nothing speaks against it"
    assert Counter(boxes.status(f"box-{number}")["nodeName"] for number in range(4)) == dict.fromkeys(nodes, 2)
    assert boxes.one_pod_each()
    views_are_the_pods(objects)


def test_affinity_to_a_pod_that_does_not_exist_waits_with_the_schedulers_words_and_few_tries(
    boxes: Boxes, berths: Berths, audit: AuditLog, objects: Objects
) -> None:
    nodes = berths.add_nodes(2)
    since = audit.position()
    berths.apply("box", scheduled(affinity=near("podAffinity")))

    wait_for(
        lambda: boxes.status().get("phase") == "Pending" and "2 RefusedEarlier" in boxes.message("Placed"),
        20,
        "both nodes were tried",
    )
    assert boxes.reason("Placed") == "Unschedulable"
    assert "didn't match pod affinity rules" in boxes.message("Placed")
    assert "nodeName" not in boxes.status()
    assert pod_creates(audit, boxes.namespace, since) == [201, 201]
    assert boxes.pod() is None

    friend = berths.foreign_pod("friend", nodes[1], {"cpu": "1m"})
    objects.patch("Pod", "friend", {"metadata": {"labels": LABELS}}, boxes.namespace)
    assert friend
    status = boxes.has_phase("Running", seconds=40)
    assert status["nodeName"] == nodes[1]


# --- unbound Pods ---


def test_an_unbound_pod_holds_its_room_over_a_kill_and_is_the_only_one(
    boxes: Boxes, berths: Berths, cluster: LocalCluster, operator: OperatorProgram
) -> None:
    node = berths.add_node(cpu="1", memory="4Gi")
    with no_scheduler(cluster):
        berths.apply("box", a_sized_template({"cpu": "600m", "memory": "1Gi"}, affinity=near("podAntiAffinity")))
        pod = unbound_pod(boxes)
        operator.kill()
        operator.restart()

        berths.apply("other", a_sized_template({"cpu": "600m", "memory": "1Gi"}))
        berths.refused("other", text="1 InsufficientCpu")
        assert chosen_node(pod) == node
        wait_for(lambda: berths.view(node).get("accounted") == {"cpu": "600m", "memory": "1Gi"}, 25, "the view")

    running = ready_pod(boxes)
    assert running["metadata"]["uid"] == pod["metadata"]["uid"]
    assert attempt_of(running) == 1
    assert berths.view(node)["accounted"] == {"cpu": "600m", "memory": "1Gi"}
    boxes.delete()
    boxes.has_phase("Running", "other")


def test_a_sandbox_deleted_while_its_pod_is_unbound_leaves_neither_pod_nor_room(
    boxes: Boxes, berths: Berths, cluster: LocalCluster
) -> None:
    berths.add_node(cpu="1", memory="4Gi")
    with no_scheduler(cluster):
        berths.apply("box", a_sized_template({"cpu": "600m", "memory": "1Gi"}, affinity=near("podAntiAffinity")))
        unbound_pod(boxes)

        boxes.delete()

        wait_for(lambda: boxes.pod() is None, 5, "its Pod is gone")
        berths.apply("other", a_sized_template({"cpu": "600m", "memory": "1Gi"}))
        boxes.has_phase("Running", "other", 5)


def test_a_pod_that_somebody_binds_to_another_node_counts_there(
    boxes: Boxes, berths: Berths, cluster: LocalCluster, kubectl: Kubectl, objects: Objects
) -> None:
    nodes = berths.add_nodes(2)
    with no_scheduler(cluster):
        berths.apply("box", scheduled())
        pod = unbound_pod(boxes)
        (other,) = {*nodes} - {chosen_node(pod)}
        target = {"apiVersion": "v1", "kind": "Node", "name": other}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "box"}, "target": target}
        path = f"/api/v1/namespaces/{boxes.namespace}/pods/box/binding"
        kubectl("create", "--raw", path, "-f", "-", input=json.dumps(binding))

        status = boxes.has_phase("Running")

    assert status["nodeName"] == status["placement"]["node"] == other
    assert boxes.one_pod_each()
    views_are_the_pods(objects)


def test_a_taint_that_comes_after_the_choice_sends_the_sandbox_to_another_node(
    boxes: Boxes, berths: Berths, cluster: LocalCluster
) -> None:
    first_node, second_node = berths.add_nodes(2)
    with no_scheduler(cluster):
        berths.apply("box", on(first_node, scheduled()))
        unbound_pod(boxes)
        berths.set_node(first_node, taints=[{"key": "example.com/away", "effect": "NoSchedule"}])

    assert boxes.has_phase("Running")["nodeName"] == second_node
    assert boxes.status()["placement"]["attempt"] == 2
    tolerant = scheduled(tolerations=[{"key": "example.com/away", "operator": "Exists"}])
    berths.apply("tolerant", on(first_node, tolerant))
    assert boxes.has_phase("Running", "tolerant")["nodeName"] == first_node


def test_a_kubelet_that_refuses_a_pod_that_the_scheduler_bound_is_passed_over(
    boxes: Boxes, berths: Berths, audit: AuditLog
) -> None:
    berths.add_nodes(2)
    since = audit.position()

    berths.apply("box", scheduled(), annotations=plays(fail_reason="OutOfpods"))

    boxes.has_reason("Placed", "NodesRefused")
    wait_for(lambda: "2 RefusedEarlier" in boxes.message("Placed"), what="both refused it")
    assert "OutOfpods" in boxes.message("Placed")
    assert len(pod_creates(audit, boxes.namespace, since)) <= 3


# --- without a node for long ---


@pytest.fixture
def handing_over(operator: OperatorProgram) -> Iterator[None]:
    """The operator as one that leaves a Sandbox without a node to kube-scheduler after a second."""
    usual = operator.command
    operator.kill()
    operator.command = [*usual, "--scheduler-after", "1"]
    operator.restart()
    yield
    operator.kill()
    operator.command = usual
    operator.restart()


def test_a_sandbox_without_a_node_is_left_to_kube_scheduler_where_an_autoscaler_sees_it(
    boxes: Boxes, berths: Berths, handing_over: None, operator: OperatorProgram, objects: Objects
) -> None:
    berths.apply("box")
    boxes.has_reason("Placed", "NoEligibleNode")
    wait_for(boxes.pod, what="a Pod that an autoscaler sees")

    conditions: list[Object] = wait_for(
        lambda: ((boxes.pod() or {}).get("status") or {}).get("conditions") or [], what="a verdict"
    )
    pod = boxes.pod() or {}
    assert [(item["type"], item["reason"]) for item in conditions] == [("PodScheduled", "Unschedulable")]
    assert boxes.status()["phase"] == "Pending"
    operator.kill()
    operator.restart()
    node = berths.add_node()

    status = boxes.has_phase("Running")
    assert (status["nodeName"], status["placement"]["attempt"]) == (node, 1)
    assert (boxes.pod() or {})["metadata"]["uid"] == pod["metadata"]["uid"]
    views_are_the_pods(objects)


# --- many ---


def apply_many(boxes: Boxes, kubectl: Kubectl, count: int) -> None:
    items = [json.loads(a_sandbox(boxes.namespace, scheduled(), f"box-{number}")) for number in range(count)]
    kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def test_a_hundred_sandboxes_through_the_scheduler_stay_within_the_budget_of_writes(
    boxes: Boxes, audit: AuditLog, kubectl: Kubectl, objects: Objects
) -> None:
    since = audit.position()

    apply_many(boxes, kubectl, 100)
    boxes.all_run(100, 60)

    own = [write for write in audit.writes(since) if write.namespace == boxes.namespace]
    counts = Counter((write.verb, write.resource) for write in own)
    patches = Counter(write.name for write in own if write.resource == "sandboxes/status")
    print(f"100 Sandboxes through kube-scheduler: {dict(counts)}")
    assert set(counts) == {("create", "pods"), ("patch", "sandboxes/status")}
    assert counts["create", "pods"] == 100
    assert max(patches.values()) <= 2
    pods = objects.list("Pod", boxes.namespace)
    assert all(pod["spec"]["nodeName"] == chosen_node(pod) for pod in pods)
    views_are_the_pods(objects)


def test_an_operator_killed_again_and_again_makes_one_pod_for_each_sandbox_of_the_schedulers(
    boxes: Boxes, operator: OperatorProgram, kubectl: Kubectl, objects: Objects
) -> None:
    rng = random.Random(5)
    apply_many(boxes, kubectl, 120)

    for _ in range(4):
        time.sleep(rng.uniform(0.05, 0.5))  # the moment of the kill, not a wait for anything
        operator.kill()
        operator.restart()

    boxes.all_run(120, 60)
    assert boxes.one_pod_each()
    assert [attempt_of(pod) for pod in objects.list("Pod", boxes.namespace)] == [1] * 120
    views_are_the_pods(objects)


def test_room_is_never_given_twice_to_pods_that_wait_to_be_bound(
    boxes: Boxes, berths: Berths, cluster: LocalCluster, kubectl: Kubectl
) -> None:
    nodes = berths.add_nodes(2, cpu="1", memory="4Gi")
    spec = a_sized_template(
        {"cpu": "400m", "memory": "64Mi"}, affinity=near("podAntiAffinity", {"example.com/app": "no"})
    )
    with no_scheduler(cluster):
        for number in range(6):
            berths.apply(f"box-{number}", spec)
        wait_for(lambda: boxes.phases() == {"Starting": 4, "Pending": 2}, 20, "two fit on each node")
        pods = objects_of(boxes)
        assert Counter(map(chosen_node, pods)) == dict.fromkeys(nodes, 2)

    wait_for(lambda: boxes.phases() == {"Running": 4, "Pending": 2}, 20, "they run where they were pinned")
    assert all(pod["spec"]["nodeName"] == chosen_node(pod) for pod in objects_of(boxes))
    waiting = [name for name in (f"box-{n}" for n in range(6)) if boxes.status(name)["phase"] == "Pending"]
    assert {condition(boxes.status(name), "Placed")["reason"] for name in waiting} == {"NoEligibleNode"}


def objects_of(boxes: Boxes) -> list[Object]:
    return boxes.objects.list("Pod", boxes.namespace)
