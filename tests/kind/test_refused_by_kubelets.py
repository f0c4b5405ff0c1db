"""A kubelet that refuses a Pod: the Pod goes, the room is given back, the Sandbox runs elsewhere.

What makes it refuse is a static Pod in a namespace that does not exist: the kubelet runs it and counts it, and the API
server never takes in its mirror. So the API shows room that the kubelet does not have.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from sandberth.kube import names
from tests.kind.bed import KindBed, Object
from tests.kind.installation import viewed_on
from tests.kind.rooms import a_container, a_templated_sandbox, condition_of, settled, wait_until_quiet
from tests.kind.watching import Recording

MANIFEST = "/etc/kubernetes/manifests/{name}.json"
HIDDEN = "hidden"
LEFT_MILLICORES = 100
ASKED_MILLICORES = 400

Hide = Callable[[str], None]


def runs_on(bed: KindBed, node: str, name: str) -> bool:
    pods = json.loads(bed.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/pods").stdout)["items"]
    return any(pod["metadata"]["name"] == f"{name}-{node}" for pod in pods)


def unhide(bed: KindBed, node: str, name: str) -> None:
    bed.on_node(node, "rm", "-f", MANIFEST.format(name=name))
    bed.wait(lambda: not runs_on(bed, node, name), f"the static Pod on {node} is gone", 120)


@pytest.fixture
def hide(bed: KindBed, namespace: str) -> Iterator[Hide]:
    """Take all but a little of a node's CPU in a way that only its kubelet knows of; called with the node."""
    wait_until_quiet(bed, namespace)
    with ExitStack() as stack:

        def take(node: str) -> None:
            millicores = settled(bed, node).cpu_millicores - LEFT_MILLICORES
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": HIDDEN, "namespace": f"{namespace}-nowhere"},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [a_container(requests={"cpu": f"{millicores}m"})],
                },
            }
            stack.callback(unhide, bed, node, HIDDEN)
            script = f"cat > {MANIFEST.format(name=HIDDEN)} <<'END'\n{json.dumps(pod)}\nEND"
            bed.on_node(node, "sh", "-c", script)
            bed.wait(lambda: runs_on(bed, node, HIDDEN), f"the static Pod on {node} runs", 120)

        yield take


def asking(name: str, preferred: str) -> Object:
    container = a_container(requests={"cpu": f"{ASKED_MILLICORES}m", "memory": "16Mi"})
    return a_templated_sandbox(name, container, placement={"preferredNode": preferred})


def attempts(pods: Recording) -> set[str]:
    return {pod["metadata"]["labels"][names.ATTEMPT_LABEL].rpartition(".")[2] for pod in pods.versions}


def test_a_pod_that_the_kubelet_finds_too_large_is_cleaned_up_and_placed_elsewhere(
    bed: KindBed, namespace: str, hide: Hide
) -> None:
    full, other = bed.workers
    before = viewed_on(bed, full)[0]
    hide(full)

    with (
        Recording(bed, "Pod", namespace) as pods,
        Recording(bed, names.SANDBOX_KIND, namespace) as sandboxes,
    ):
        bed.apply(asking("box", full), namespace)
        box = bed.wait_for_phase("box", namespace=namespace)

    assert box["status"]["nodeName"] == other
    assert box["status"]["placement"]["attempt"] == 2
    told = next(each for each in sandboxes.versions if condition_of(each, "Placed").get("reason") == "NodesRefused")
    assert f"refused by {full}: OutOfcpu" in condition_of(told, "Placed")["message"]
    first = [pod for pod in pods.versions if pod["spec"]["nodeName"] == full]
    assert next(pod["status"]["reason"] for pod in first if pod["status"]["phase"] == "Failed") == "OutOfcpu"
    assert first[-1].get("deleted")
    assert attempts(pods) == {"1", "2"}
    bed.wait(lambda: viewed_on(bed, full)[0] <= before, "the room is given back", 60)


def test_a_sandbox_that_every_kubelet_refuses_waits_with_few_tries_and_runs_once_there_is_room(
    bed: KindBed, namespace: str, hide: Hide
) -> None:
    for node in bed.workers:
        hide(node)

    with Recording(bed, "Pod", namespace) as pods:
        bed.apply(asking("box", bed.workers[0]), namespace)
        what = "every node was tried, and the Sandbox waits"
        bed.wait(lambda: _waiting_after(bed, namespace, 2) is not None, what, 90, namespace)
        waiting = bed.get(names.SANDBOX_KIND, "box", namespace) or {}
        assert "OutOfcpu" in condition_of(waiting, "Placed")["message"]
        with suppress(AssertionError):
            bed.wait(lambda: len(attempts(pods)) > 6, "many tries", 10)
        assert len(attempts(pods)) <= 6

        unhide(bed, bed.workers[1], HIDDEN)

        box = bed.wait_for_phase("box", namespace=namespace, seconds=240)
    assert box["status"]["nodeName"] == bed.workers[1]


def _waiting_after(bed: KindBed, namespace: str, tries: int) -> Object | None:
    box = bed.get(names.SANDBOX_KIND, "box", namespace) or {}
    status = box.get("status", {})
    is_refused = condition_of(box, "Placed").get("reason") == "NodesRefused" and status.get("phase") == "Pending"
    return box if is_refused and status["placement"]["attempt"] >= tries else None
