"""Sandberth in a kind bed, the way its users run it: the image on the nodes, the manifests applied."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from sandberth.cluster.assets import assets_directory
from sandberth.cluster.errors import ClusterError
from sandberth.cluster.kind.cluster import KindCluster
from sandberth.cluster.kind.image import DEFAULT_TAG, build_image
from sandberth.cluster.kubectl import run_kubectl
from sandberth.cluster.progress import Progress
from sandberth.cluster.reported import unreported_nodes
from sandberth.kube import names

OVERLAY = "manifests/overlays/kind"
SAMPLES = "manifests/examples/kind/samples.yaml"
_IMAGE_ANNOTATION = f"{names.PREFIX}image-id"
_PROGRAMS = ("Deployment", "DaemonSet")
_READY_SECONDS = 120.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample Sandbox as it is now."""

    name: str
    phase: str
    node: str


def deploy(bed: KindCluster, progress: Progress, *, build: bool = True) -> None:
    """Build the image (or take it as it is), load it, apply the overlay; return when all nodes are reported.

    Raises ClusterError.
    """
    if build:
        build_image(bed.docker, progress)
    elif not bed.docker.has_image(DEFAULT_TAG):
        raise ClusterError(f"Docker has no image {DEFAULT_TAG}; leave out --no-build, or build it first")
    bed.load([DEFAULT_TAG], progress)
    identity = bed.docker.run("image", "inspect", "--format", "{{.Id}}", DEFAULT_TAG).strip()
    with progress.step("installing Sandberth"):
        programs = apply_overlay(bed, identity)
        for program in programs:
            timeout = f"--timeout={_READY_SECONDS:.0f}s"
            run_kubectl(bed, "--namespace", names.NAMESPACE, "rollout", "status", program, timeout)
        wait_until_reported(bed)


def apply_overlay(bed: KindCluster, image_identity: str) -> list[str]:
    """Apply the overlay and return its programs, such as "deployment/sandberth-operator".

    The tag of the image stays the same when the image changes; the annotation is what makes a new one roll out.
    """
    objects = list(yaml.safe_load_all(run_kubectl(bed, "kustomize", str(assets_directory() / OVERLAY))))
    programs = [each for each in objects if each["kind"] in _PROGRAMS]
    for program in programs:
        metadata = program["spec"]["template"].setdefault("metadata", {})
        metadata.setdefault("annotations", {})[_IMAGE_ANNOTATION] = image_identity
    definitions = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    run_kubectl(bed, "apply", "--filename=-", text=yaml.safe_dump_all(definitions))
    established = [f"customresourcedefinition/{each['metadata']['name']}" for each in definitions]
    run_kubectl(bed, "wait", "--for=condition=Established", "--timeout=30s", *established)
    run_kubectl(bed, "apply", "--filename=-", text=yaml.safe_dump_all(objects))
    return [f"{each['kind'].lower()}/{each['metadata']['name']}" for each in programs]


def wait_until_reported(bed: KindCluster) -> None:
    """Return when each Node has a NodeCapacity with a report of that very Node. Raises ClusterError in the end."""
    with bed.api() as api:
        if not _comes_true(lambda: not unreported_nodes(api)):
            late = ", ".join(unreported_nodes(api)[:3])
            raise ClusterError(f"nobody reports {late}; see the pods in {names.NAMESPACE}")


def apply_samples(bed: KindCluster, progress: Progress) -> list[Sample]:
    """Apply the sample Sandboxes and return them once they all run. Raises ClusterError."""
    file = assets_directory() / SAMPLES
    wanted = [each["metadata"]["name"] for each in yaml.safe_load_all(file.read_text())]
    with progress.step(f"starting {len(wanted)} sample Sandboxes"), bed.api() as api:
        run_kubectl(bed, "apply", "--namespace=default", "--filename", str(file))

        def samples() -> list[Sample]:
            items = api.get(f"/apis/{names.API_VERSION}/namespaces/default/{names.SANDBOXES}")["items"]
            return [_sample(each) for each in items if each["metadata"]["name"] in wanted]

        if not _comes_true(lambda: all(each.phase == names.Phase.RUNNING for each in samples())):
            late = ", ".join(f"{each.name} is {each.phase}" for each in samples() if each.phase != names.Phase.RUNNING)
            raise ClusterError(f"not all sample Sandboxes run: {late}; see kubectl describe sandbox")
        return samples()


def _sample(sandbox: dict[str, Any]) -> Sample:
    status = sandbox.get("status", {})
    return Sample(sandbox["metadata"]["name"], status.get("phase", "new"), status.get("nodeName", ""))


def _comes_true(claim: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _READY_SECONDS
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
