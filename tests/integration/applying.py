"""Applying Sandboxes to the bed's API server: builders with defaults and the waiting that every test needs."""

import json
import time
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

from sandberth.kube.names import API_VERSION

Kubectl = Callable[..., CompletedProcess[str]]

CONTAINERS: list[dict[str, Any]] = [{"name": "main", "image": "busybox:1.36"}]


def eventually(claim: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, f"not true within {seconds} s"
        time.sleep(0.05)


def a_sandbox(namespace: str, spec: dict[str, Any], name: str = "box", **metadata: Any) -> str:
    return json.dumps(
        {
            "apiVersion": API_VERSION,
            "kind": "Sandbox",
            "metadata": {"name": name, "namespace": namespace, **metadata},
            "spec": spec,
        }
    )


def an_image_spec(cpu: object = "1", memory: object = "1Gi", **fields: Any) -> dict[str, Any]:
    return {"image": "busybox:1.36", "resources": {"cpu": cpu, "memory": memory}, **fields}


def a_template_spec(**pod_fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"containers": CONTAINERS, **pod_fields}}}


def dry_run(kubectl: Kubectl, namespace: str, spec: dict[str, Any], **metadata: Any) -> CompletedProcess[str]:
    manifest = a_sandbox(namespace, spec, **metadata)
    return kubectl("create", "--dry-run=server", "-f", "-", input=manifest, check=False)


def settled(kubectl: Kubectl, namespace: str) -> str:
    """Return the namespace once it exists and the policies act; the API server compiles them in the background."""
    kubectl("create", "namespace", namespace, check=False)
    refused = (a_template_spec(hostNetwork=True), a_template_spec(nodeName="node-1"))
    eventually(lambda: all(dry_run(kubectl, namespace, spec).returncode for spec in refused))
    return namespace
