"""Pods as the cache keeps them, with defaults: a test names only what it is about."""

from dataclasses import replace
from typing import Any

from sandberth.kube.pods import PodFacts, convert_pod

_BODY = {
    "metadata": {
        "name": "box",
        "namespace": "team",
        "uid": "pod-uid",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"sandberth.dev/attempt": "box-uid.1"},
        "annotations": {
            "sandberth.dev/nominal-cpu": "2",
            "sandberth.dev/nominal-memory": "1Gi",
            "sandberth.dev/node-uid": "node-uid",
            "sandberth.dev/generation": "1",
        },
        "ownerReferences": [
            {
                "apiVersion": "sandberth.dev/v1alpha1",
                "kind": "Sandbox",
                "name": "box",
                "uid": "box-uid",
                "controller": True,
            }
        ],
    },
    "spec": {"nodeName": "node-1", "containers": [{"name": "sandbox"}]},
    "status": {"phase": "Pending"},
}


def a_pod(**changes: Any) -> PodFacts:
    """Return a Pending Pod of attempt 1 on node-1."""
    return replace(convert_pod(_BODY), **changes)


def a_running_pod(**changes: Any) -> PodFacts:
    """Return a Pod that runs, is ready and has an address."""
    running = {
        "phase": "Running",
        "ready": True,
        "ran": True,
        "pod_ip": "10.0.0.1",
        "started_at": "2026-01-02T03:04:06Z",
    }
    return a_pod(**(running | changes))


def a_failed_pod(**changes: Any) -> PodFacts:
    """Return a Pod whose program ended with exit code 1."""
    failed = {"phase": "Failed", "ready": False, "exit_code": 1, "exit_reason": "Error"}
    return a_running_pod(**(failed | changes))
