"""The paths of the resources that Sandberth reads and writes."""

from sandberth.kube import names
from sandberth.kube.client import path_of


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


def configmap_path(namespace: str, name: str | None = None) -> str:
    """Return the path of a ConfigMap."""
    return path_of("", "v1", "configmaps", namespace=namespace, name=name)


def runtime_class_path(name: str) -> str:
    """Return the path of a RuntimeClass."""
    return path_of("node.k8s.io", "v1", "runtimeclasses", name=name)


def lease_path(namespace: str, name: str | None = None) -> str:
    """Return the path of a Lease."""
    return path_of("coordination.k8s.io", "v1", "leases", namespace=namespace, name=name)
