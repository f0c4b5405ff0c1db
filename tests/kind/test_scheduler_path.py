"""What only kube-scheduler can do, on real kubelets: volumes that wait for their consumer, anti-affinity, spread."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from sandberth.kube import names
from tests.kind.bed import KindBed, Object
from tests.kind.rooms import a_container, a_templated_sandbox, condition_of

FOLDER = "/var/local-volumes"  # on the workers
HOSTNAME = "kubernetes.io/hostname"
WORK = [{"name": "work", "mountPath": "/data"}]
BINDING_SECONDS = 150  # with a node that is given up after 30 s


def a_class(name: str, provisioner: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def a_claim(name: str, storage_class: str) -> Object:
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "16Mi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def with_claim(name: str, claim: str, *, fields: Object | None = None, **spec: Any) -> Object:
    volumes = [{"name": "work", "persistentVolumeClaim": {"claimName": claim}}]
    container = a_container(requests={"cpu": "50m", "memory": "16Mi"}, volumeMounts=WORK)
    return a_templated_sandbox(name, container, fields={"volumes": volumes, **(fields or {})}, **spec)


def node_of_pod(bed: KindBed, name: str, namespace: str) -> str:
    pod = bed.get("Pod", name, namespace)
    assert pod is not None
    return str(pod["spec"]["nodeName"])


@pytest.fixture
def local_class(bed: KindBed, namespace: str) -> Iterator[str]:
    """A StorageClass with one local volume on each worker, as disks of a node are."""
    folder = f"{FOLDER}/{namespace}"
    volumes: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{node}-{namespace}"},
            "spec": {
                "capacity": {"storage": "16Mi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": namespace,
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": folder},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
                        ]
                    }
                },
            },
        }
        for node in bed.workers
    ]
    for node in bed.workers:
        bed.on_node(node, "mkdir", "--parents", "--mode=777", folder)
    bed.apply([a_class(namespace, "kubernetes.io/no-provisioner"), *volumes])
    yield namespace
    bed.kubectl("delete", "sandboxes.sandberth.dev,persistentvolumeclaims", "--all", "--namespace", namespace)
    bed.kubectl("delete", "storageclass", namespace)
    bed.kubectl("delete", "persistentvolume", *(volume["metadata"]["name"] for volume in volumes))
    for node in bed.workers:
        bed.on_node(node, "rm", "-rf", folder)


def test_a_volume_is_bound_on_the_chosen_node_and_keeps_its_data_for_the_next_sandbox(
    bed: KindBed, namespace: str, local_class: str
) -> None:
    chosen, other = bed.workers[1], bed.workers[0]
    bed.apply(
        [a_claim("work", local_class), with_claim("first", "work", placement={"preferredNode": chosen})], namespace
    )
    first = bed.wait_for_phase("first", namespace=namespace, seconds=BINDING_SECONDS)

    assert first["status"]["nodeName"] == chosen
    assert first["status"]["placement"]["node"] == node_of_pod(bed, "first", namespace) == chosen
    assert first["status"]["placement"]["attempt"] == 1
    assert "persistentVolumeClaim" in condition_of(first, "Placed")["message"]
    claim = bed.get("PersistentVolumeClaim", "work", namespace)
    assert claim is not None
    assert claim["spec"]["volumeName"] == f"{chosen}-{namespace}"
    bed.exec("first", "sh", "-c", "echo kept > /data/note", namespace=namespace)
    assert bed.on_node(chosen, "cat", f"{FOLDER}/{namespace}/note").stdout == "kept\n"

    bed.kubectl("delete", "sandbox", "first", "--namespace", namespace)
    bed.apply(with_claim("second", "work", placement={"preferredNode": other}), namespace)
    second = bed.wait_for_phase("second", namespace=namespace, seconds=BINDING_SECONDS)
    assert second["status"]["nodeName"] == chosen, "that is where the volume is"
    assert bed.exec("second", "cat", "/data/note", namespace=namespace) == "kept\n"


def test_a_volume_that_is_made_on_demand_leaves_the_choice_to_best_of_k(bed: KindBed, namespace: str) -> None:
    bed.apply(a_class(namespace, "kubernetes.io/host-path"))
    try:
        bed.apply([a_claim("work", namespace), with_claim("box", "work")], namespace)
        box = bed.wait_for_phase("box", namespace=namespace, seconds=BINDING_SECONDS)

        assert box["status"]["placement"]["node"] == node_of_pod(bed, "box", namespace)
        assert box["status"]["placement"]["attempt"] == 1
        assert box["status"]["placement"]["sampled"] == len(bed.workers)
        bed.kubectl("delete", "sandbox", "box", "--namespace", namespace)
        bed.kubectl("delete", "persistentvolumeclaim", "work", "--namespace", namespace)
    finally:
        bed.kubectl("delete", "storageclass", namespace)


def labelled(sandbox: Object, app: str) -> Object:
    template = sandbox["spec"]["podTemplate"] | {"metadata": {"labels": {"app": app}}}
    return sandbox | {"spec": sandbox["spec"] | {"podTemplate": template}}


def test_two_that_keep_apart_run_on_two_nodes_although_both_prefer_one(bed: KindBed, namespace: str) -> None:
    preferred, other = bed.workers
    term = {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": HOSTNAME}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    container = a_container(requests={"cpu": "50m", "memory": "16Mi"})
    placement = {"preferredNode": preferred}

    for name in ("first", "second"):
        bed.apply(labelled(a_templated_sandbox(name, container, fields=apart, placement=placement), "apart"), namespace)
        bed.wait_for_phase(name, namespace=namespace, seconds=BINDING_SECONDS)

    assert bed.node_of("first", namespace) == preferred
    assert bed.node_of("second", namespace) == other == node_of_pod(bed, "second", namespace)
    second = bed.get(names.SANDBOX_KIND, "second", namespace) or {}
    assert second["status"]["placement"]["attempt"] == 2, "the node that Best-of-K chose was tried first"


def test_a_topology_spread_is_kept(bed: KindBed, namespace: str) -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",  # else the control plane, which takes no Pods, counts as a node with none
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    fields = {"topologySpreadConstraints": [spread]}
    container = a_container(requests={"cpu": "50m", "memory": "16Mi"})
    bed.apply(
        [labelled(a_templated_sandbox(f"box-{number}", container, fields=fields), "spread") for number in range(4)],
        namespace,
    )

    for number in range(4):
        bed.wait_for_phase(f"box-{number}", namespace=namespace, seconds=BINDING_SECONDS)

    counts = Counter(node_of_pod(bed, f"box-{number}", namespace) for number in range(4))
    assert counts == dict.fromkeys(bed.workers, 2)
    for number in range(4):
        assert bed.node_of(f"box-{number}", namespace) == node_of_pod(bed, f"box-{number}", namespace)
