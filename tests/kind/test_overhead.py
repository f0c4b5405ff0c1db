"""What a RuntimeClass adds to a Pod, in every sum: kubectl's, the report's, and the operator's."""

from collections.abc import Iterator

import pytest

from sandberth.core.quantity import cpu_millicores, whole_bytes
from sandberth.core.resources import Resources
from sandberth.kube import names
from tests.kind.bed import KindBed
from tests.kind.installation import report_now, report_of, viewed_on
from tests.kind.rooms import a_container, a_templated_sandbox, described, settled, wait_until_quiet

OVERHEAD = Resources(40, 20_000_001)
OWN = Resources(60, 16 * 2**20)


@pytest.fixture
def runtime_class(bed: KindBed, namespace: str) -> Iterator[str]:
    name = f"heavy-{namespace}"
    amounts = {"cpu": f"{OVERHEAD.cpu_millicores}m", "memory": str(OVERHEAD.memory_bytes)}
    head = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
    bed.apply(head | {"handler": "runc", "overhead": {"podFixed": amounts}})
    yield name
    bed.kubectl("delete", "runtimeclass", name)


def test_the_overhead_of_a_runtime_class_is_part_of_every_sum(bed: KindBed, namespace: str, runtime_class: str) -> None:
    wait_until_quiet(bed, namespace)
    node = bed.workers[0]
    settled(bed, node)
    before = described(bed, node)
    own = a_container(requests={"cpu": f"{OWN.cpu_millicores}m", "memory": str(OWN.memory_bytes)})
    bed.apply(
        a_templated_sandbox("box", own, fields={"runtimeClassName": runtime_class}, placement={"preferredNode": node}),
        namespace,
    )
    box = bed.wait_for_phase("box", namespace=namespace)

    pod = bed.get("Pod", "box", namespace)
    assert pod is not None
    overhead = pod["spec"]["overhead"]
    assert Resources(cpu_millicores(overhead["cpu"]), whole_bytes(overhead["memory"])) == OVERHEAD
    assert described(bed, node) == before + OWN + OVERHEAD
    assert box["status"]["resources"]["cpu"] == "100m"
    report_now(bed, node)
    report, both = report_of(bed, node), OWN + OVERHEAD
    assert report.requested is not None
    assert Resources(cpu_millicores(report.requested.cpu), whole_bytes(report.requested.memory)) == before + both
    assert f"{box['metadata']['uid']}.1 {both.cpu_millicores} {both.memory_bytes}" in report.sandboxes
    bed.wait(lambda: viewed_on(bed, node)[1] == before + both, "the view counts it", 60, namespace)
    assert bed.phase("box", namespace) == names.Phase.RUNNING
