"""What `make kind` applies, as far as it can be told without a cluster."""

from pathlib import Path
from typing import Any

import yaml

from sandberth.cluster.kind.image import DEFAULT_TAG
from sandberth.kube import names
from sandberth.kube.sandbox import Sandbox

ROOT = Path(__file__).parents[2]


def documents(path: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((ROOT / path).read_text()) if document]


def test_the_overlay_is_the_base_with_an_image_that_is_never_pulled() -> None:
    (overlay,) = documents("manifests/overlays/kind/kustomization.yaml")
    first = overlay["patches"][0]

    assert overlay["resources"] == ["../../base"]
    assert first["target"]["kind"] == "Deployment|DaemonSet"
    assert yaml.safe_load(first["patch"]) == [
        {"op": "add", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "Never"}
    ]


def test_the_base_asks_for_the_image_that_is_built_and_loaded() -> None:
    (base,) = documents("manifests/base/kustomization.yaml")

    assert [f"{image['name']}:{image['newTag']}" for image in base["images"]] == [DEFAULT_TAG]


def test_the_samples_are_sandboxes_of_the_image_that_is_on_every_node() -> None:
    samples = documents("manifests/examples/kind/samples.yaml")

    assert len({Sandbox.from_object(sample).name for sample in samples}) == 6
    assert {sample["spec"]["image"] for sample in samples} == {DEFAULT_TAG}
    assert {sample["apiVersion"] for sample in samples} == {names.API_VERSION}
