"""One user's Sandbox must not stop the others', whatever the API server lets in."""

import json
from typing import Any

import pytest

from tests.integration.applying import Kubectl, a_template_spec, an_image_spec
from tests.integration.bed import Objects, OperatorProgram, wait_for

pytestmark = pytest.mark.integration


def _sandbox(namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "sandberth.dev/v1alpha1",
        "kind": "Sandbox",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _create_deep(kubectl: Kubectl, namespace: str, name: str, levels: int) -> None:
    """Create a Sandbox whose template is nested so deeply that no client's model could be used for it."""
    body = json.dumps(_sandbox(namespace, name, a_template_spec(x="HERE")))
    nested = '{"a":' * levels + "1" + "}" * levels
    path = f"/apis/sandberth.dev/v1alpha1/namespaces/{namespace}/sandboxes"
    kubectl("create", "--raw", path, "-f", "-", input=body.replace('"HERE"', nested))


def _placed_reason(objects: Objects, namespace: str, name: str) -> str | None:
    status = (objects.get("Sandbox", name, namespace) or {}).get("status") or {}
    return next((item["reason"] for item in status.get("conditions", ()) if item["type"] == "Placed"), None)


def _runs(objects: Objects, namespace: str, name: str) -> bool:
    objects.create(_sandbox(namespace, name, an_image_spec()))
    wait_for(lambda: ((objects.get("Sandbox", name, namespace) or {}).get("status") or {}).get("phase") == "Running")
    return True


@pytest.mark.parametrize("levels", [300, 1500])
def test_a_deeply_nested_template_stops_nobody_also_over_a_restart(
    operator: OperatorProgram, objects: Objects, home: str, kubectl: Kubectl, levels: int
) -> None:
    _create_deep(kubectl, home, "abyss", levels)

    try:
        assert _runs(objects, home, "good")
        if levels < 900:  # the official client cannot read the deeper one
            wait_for(lambda: _placed_reason(objects, home, "abyss") == "InvalidPod")
        operator.kill()
        operator.restart()
        assert _runs(objects, home, "better")
        assert operator.probe("livez") == 200
    finally:
        kubectl("-n", home, "delete", "sandboxes.sandberth.dev", "abyss", check=False)
