"""Static Pods of a worker: the kubelet runs them from a file, and everybody counts them once."""

import json
from collections.abc import Iterator

import pytest

from sandberth.core.quantity import cpu_millicores, whole_bytes
from sandberth.core.resources import Resources
from sandberth.kube import names
from tests.kind.bed import KindBed
from tests.kind.installation import report_now, report_of
from tests.kind.rooms import a_container, a_templated_sandbox, condition_of, described, free, settled, wait_until_quiet

OWN = Resources(700, 123_456_789)


@pytest.fixture
def static_pod(bed: KindBed, namespace: str) -> Iterator[str]:
    """A static Pod on the second worker; returns the Pod's name."""
    wait_until_quiet(bed, namespace)
    node, file = bed.workers[1], f"/etc/kubernetes/manifests/{namespace}.json"
    requests = {"cpu": f"{OWN.cpu_millicores}m", "memory": str(OWN.memory_bytes)}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [a_container(requests=requests)]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static", "namespace": namespace}, "spec": spec}
    name = f"static-{node}"

    settled(bed, node)
    bed.on_node(node, "sh", "-c", f"cat > {file} <<'END'\n{json.dumps(pod)}\nEND")
    bed.wait(lambda: (bed.get("Pod", name, namespace) or {}).get("status", {}).get("phase") == "Running", name, 120)
    yield name
    bed.on_node(node, "rm", "-f", file)
    bed.wait(lambda: bed.get("Pod", name, namespace) is None, f"{name} is gone", 120)


def test_a_static_pod_counts_once_in_the_report_and_in_the_fit(bed: KindBed, namespace: str, static_pod: str) -> None:
    node = bed.workers[1]
    report_now(bed, node)
    report = report_of(bed, node)

    assert report.requested is not None
    reported = Resources(cpu_millicores(report.requested.cpu), whole_bytes(report.requested.memory))
    assert reported == described(bed, node)
    on = {"nodeSelector": {"kubernetes.io/hostname": node}}
    more = a_container(requests={"cpu": f"{free(bed, node).cpu_millicores + 1}m"})
    bed.apply(a_templated_sandbox("more", more, fields=on), namespace)
    waiting = bed.wait_for_phase("more", names.Phase.PENDING, namespace)
    assert "InsufficientCpu" in condition_of(waiting, "Placed")["message"]
