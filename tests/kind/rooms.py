"""How much room the nodes have, by what kubectl shows, and Pods of others that take it."""

from collections.abc import Mapping, Sequence
from typing import Any

from sandberth.core.quantity import cpu_millicores, whole_bytes
from sandberth.core.resources import Resources
from sandberth.kube import names
from tests.kind.bed import IMAGE, KindBed, Object

# A shell and a sleep: a few hundred of them fit into a machine. It ends at SIGTERM, see FOREVER.
SLEEPING = ("sh", "-c", "trap 'exit 0' TERM; sleep 86400 & wait")


def a_container(
    name: str = "main", requests: Mapping[str, Any] | None = None, command: Sequence[str] = SLEEPING, **fields: Any
) -> Object:
    """Return a container that runs until it is told to end."""
    resources = {"resources": {"requests": dict(requests)}} if requests else {}
    return {"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": list(command), **resources, **fields}


def a_templated_sandbox(name: str, *containers: Object, fields: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    """Return a Sandbox of a whole pod spec; `fields` add to that, and `spec` to the Sandbox's own."""
    pod_spec = {"containers": list(containers or [a_container()]), **(fields or {})}
    body = {"podTemplate": {"spec": pod_spec}, **spec}
    return {"apiVersion": names.API_VERSION, "kind": names.SANDBOX_KIND, "metadata": {"name": name}, "spec": body}


def a_pod(name: str, node: str, *containers: Object, **fields: Any) -> Object:
    """Return a Pod of somebody else, bound to a node."""
    spec = {"nodeName": node, "containers": list(containers or [a_container()]), **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def a_deployment(name: str, node: str, replicas: int, requests: Mapping[str, Any]) -> Object:
    """Return a Deployment whose Pods kube-scheduler binds to this node."""
    labels = {"app": name}
    spec = {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [a_container(requests=requests)]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def described(bed: KindBed, node: str) -> Resources:
    """Return the requests that `kubectl describe node` adds up."""
    text = bed.kubectl("describe", "node", node).stdout.partition("Allocated resources:")[2]
    rows = {words[0]: words[1] for words in map(str.split, text.splitlines()) if len(words) > 1}
    return Resources(cpu_millicores(rows["cpu"]), whole_bytes(rows["memory"]))


def allocatable(bed: KindBed, node: str) -> Resources:
    """Return what Pods may request on a node."""
    found = bed.get("Node", node)
    assert found is not None
    amounts = found["status"]["allocatable"]
    return Resources(cpu_millicores(amounts["cpu"]), whole_bytes(amounts["memory"]))


def free(bed: KindBed, node: str) -> Resources:
    """Return what a node has beyond the requests of its Pods."""
    return allocatable(bed, node) - described(bed, node)


def wait_until_quiet(bed: KindBed, namespace: str) -> None:
    """Wait until the Pods of other tests are gone: what they hold would be room a moment later."""

    def others() -> list[str]:
        spaces = (pod["metadata"]["namespace"] for pod in bed.list("Pod"))
        return [space for space in spaces if space.startswith("t-") and space != namespace]

    bed.wait(lambda: not others(), "the Pods of other tests are gone", 180)


def settled(bed: KindBed, node: str) -> Resources:
    """Return what a node has free, once that is the same twice: a Pod that just ended may still count."""
    seen: list[Resources] = []

    def is_settled() -> bool:
        seen.append(free(bed, node))
        return len(seen) > 1 and seen[-1] == seen[-2]

    bed.wait(is_settled, f"the requests on {node} rest", 60)
    return seen[-1]


def condition_of(thing: Object, kind: str) -> Object:
    """Return a condition of an object, empty where it has none of that type."""
    conditions: list[Object] = thing.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})
