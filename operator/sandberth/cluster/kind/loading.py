"""Images from this machine's Docker into the nodes of a bed."""

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sandberth.cluster.errors import ClusterError
from sandberth.cluster.kind.docker import Docker
from sandberth.cluster.progress import Progress

_CTR = ("ctr", "--namespace=k8s.io", "images")
_DEFAULT_REGISTRY = "docker.io"


def load_images(docker: Docker, nodes: Sequence[str], images: Sequence[str], progress: Progress) -> None:
    """Load each image into each node that does not have this very one yet. Raises ClusterError."""
    for image in images:
        if not docker.has_image(image):
            raise ClusterError(f"Docker has no image {image}; build it, or docker pull it, first")
        identity = docker.run("image", "inspect", "--format", "{{.Id}}", image).strip()
        with ThreadPoolExecutor(len(nodes)) as pool:
            listings = list(pool.map(lambda node: docker.run("exec", node, *_CTR, "list"), nodes))
        lacking = [
            node
            for node, listing in zip(nodes, listings, strict=True)
            if not holds(listing, full_name(image), identity)
        ]
        if not lacking:
            continue
        with progress.step(f"loading {image} into {len(lacking)} nodes"), tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "image.tar"
            docker.run("save", "--output", str(archive), image)
            with ThreadPoolExecutor(len(lacking)) as pool:
                for load in [pool.submit(_import, docker, node, archive) for node in lacking]:
                    load.result()


def holds(listing: str, name: str, identity: str) -> bool:
    """Tell from `ctr images list` whether `name` is the image `identity`.

    The runtime files each image under its names and under its identity ("sha256:..."), all with one digest.
    """
    digests = {words[0]: words[2] for words in map(str.split, listing.splitlines()) if len(words) > 2}
    found = digests.get(name)
    return found is not None and found in (identity, digests.get(identity))


def full_name(image: str) -> str:
    """Return the name as a container runtime files it: with a registry, a folder and a tag."""
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"library/{image}"
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        image = f"{_DEFAULT_REGISTRY}/{image}"
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"


def _import(docker: Docker, node: str, archive: Path) -> None:
    with archive.open("rb") as content:
        docker.run("exec", "--interactive", node, *_CTR, "import", "--digests", "-", stdin=content)
