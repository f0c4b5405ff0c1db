"""Builders of Sandboxes as the API gives them."""

from typing import Any

from sandberth.kube.sandbox import Sandbox


def a_sandbox(spec: dict[str, Any], **metadata: Any) -> Sandbox:
    return Sandbox.from_object(
        {
            "metadata": {
                "name": "box",
                "namespace": "home",
                "uid": "u-1",
                "generation": 3,
                "resourceVersion": "7",
                **metadata,
            },
            "spec": spec,
        }
    )


def an_image(cpu: str = "1", memory: str = "1Gi", **fields: Any) -> dict[str, Any]:
    resources = {"cpu": cpu, "memory": memory, **fields.pop("resources", {})}
    return {"image": "busybox", "resources": resources, **fields}


def a_template(container: dict[str, Any] | None = None, **pod: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "busybox", **(container or {})}], **pod}}}
