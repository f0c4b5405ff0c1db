"""What the API server holds after a burst, counted from the Pods and held against the Sandboxes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandberth.core.quantity import cpu_millicores
from sandberth.kube import names

Object = Mapping[str, Any]
_TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Tally:
    """Sandboxes per node and CPU per node, by the node's name; `faults` is empty when each runs exactly once."""

    counts: Mapping[str, int]
    allocated_fractions: Mapping[str, float]
    running: int
    faults: tuple[str, ...]


def tally(nodes: Iterable[Object], sandboxes: Sequence[Object], pods: Sequence[Object]) -> Tally:
    """Return what these objects say; `pods` are those of all namespaces."""
    owned = [(pod, uid) for pod in pods if (uid := _sandbox_uid(pod)) is not None]
    counts: Counter[str] = Counter()
    millicores: Counter[str] = Counter()
    for pod in pods:
        if pod["status"].get("phase") in _TERMINAL:
            continue
        node = pod["spec"].get("nodeName", "")
        nominal = pod["metadata"].get("annotations", {}).get(names.NOMINAL_CPU_ANNOTATION)
        if _sandbox_uid(pod) is not None:
            counts[node] += 1
        millicores[node] += _requested_millicores(pod) if nominal is None else cpu_millicores(nominal)
    sizes = {node["metadata"]["name"]: cpu_millicores(node["status"]["allocatable"]["cpu"]) for node in nodes}
    return Tally(
        counts={name: counts[name] for name in sizes},
        allocated_fractions={name: millicores[name] / size if size else 0.0 for name, size in sizes.items()},
        running=sum(sandbox.get("status", {}).get("phase") == names.Phase.RUNNING for sandbox in sandboxes),
        faults=tuple(_faults(sandboxes, owned)),
    )


def _faults(sandboxes: Sequence[Object], owned: Sequence[tuple[Object, str]]) -> list[str]:
    pods: defaultdict[str, list[Object]] = defaultdict(list)
    for pod, uid in owned:
        pods[uid].append(pod)
    lost, doubled, elsewhere = [], [], []
    for sandbox in sandboxes:
        name = sandbox["metadata"]["name"]
        own = pods.pop(sandbox["metadata"]["uid"], [])
        if not own:
            lost.append(name)
        elif len(own) > 1:
            doubled.append(name)
        elif own[0]["status"].get("phase") != "Running":
            lost.append(name)
        elif own[0]["spec"].get("nodeName") != sandbox.get("status", {}).get("nodeName"):
            elsewhere.append(name)
    orphans = [pod["metadata"]["name"] for left in pods.values() for pod in left]
    found = {
        "have no running Pod": lost,
        "have more than one Pod": doubled,
        "are not on the node that their status names": elsewhere,
        "are Pods without their Sandbox": orphans,
    }
    return [f"{len(these)} {what}, {min(these)} first" for what, these in found.items() if these]


def _sandbox_uid(pod: Object) -> str | None:
    owners = pod["metadata"].get("ownerReferences", [])
    return next((owner["uid"] for owner in owners if owner["kind"] == names.SANDBOX_KIND), None)


def _requested_millicores(pod: Object) -> int:
    """Return the sum over the containers: the demo's foreign pods have nothing else that counts."""
    requests = (each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"])
    return sum(cpu_millicores(each["cpu"]) for each in requests if "cpu" in each)
