"""The paths of the resources that Sandberth reads and writes, and the content types of what it sends."""

from typing import Final
from urllib.parse import quote

from sandberth.kube import names

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"


def path_of(
    group: str,
    version: str,
    plural: str,
    *,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Return the URL path of a collection or an object; group "" is the core group, no namespace means all."""
    parts = ["apis", group, version] if group else ["api", version]
    if namespace:
        parts += ["namespaces", namespace]
    parts.append(plural)
    if name:
        parts.append(name)
        if subresource:
            parts.append(subresource)
    return "/" + "/".join(quote(part, safe="") for part in parts)


def sandbox_path(namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
    """Return the path of all Sandboxes, or of one."""
    return path_of(names.GROUP, names.VERSION, names.SANDBOXES, namespace=namespace, name=name, subresource=subresource)


def capacity_path(name: str | None = None, subresource: str | None = None) -> str:
    """Return the path of all NodeCapacities, or of one."""
    return path_of(names.GROUP, names.VERSION, names.NODECAPACITIES, name=name, subresource=subresource)


def pod_path(namespace: str | None = None, name: str | None = None) -> str:
    """Return the path of all Pods, of a namespace's Pods, or of one."""
    return path_of("", "v1", "pods", namespace=namespace, name=name)


def node_path(name: str | None = None) -> str:
    """Return the path of all Nodes, or of one."""
    return path_of("", "v1", "nodes", name=name)


def namespace_path(name: str) -> str:
    """Return the path of a Namespace."""
    return path_of("", "v1", "namespaces", name=name)


def configmap_path(namespace: str, name: str | None = None) -> str:
    """Return the path of a ConfigMap."""
    return path_of("", "v1", "configmaps", namespace=namespace, name=name)


def claim_path(namespace: str, name: str) -> str:
    """Return the path of a PersistentVolumeClaim."""
    return path_of("", "v1", "persistentvolumeclaims", namespace=namespace, name=name)


def volume_path(name: str) -> str:
    """Return the path of a PersistentVolume."""
    return path_of("", "v1", "persistentvolumes", name=name)


def runtime_class_path(name: str) -> str:
    """Return the path of a RuntimeClass."""
    return path_of("node.k8s.io", "v1", "runtimeclasses", name=name)


def lease_path(namespace: str, name: str | None = None) -> str:
    """Return the path of a Lease."""
    return path_of("coordination.k8s.io", "v1", "leases", namespace=namespace, name=name)
