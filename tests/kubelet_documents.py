"""What a kubelet answers, as large and as detailed as real ones are: pods, and the summary of its stats."""

from typing import Any

Document = dict[str, Any]


def a_pod_document(
    name: str,
    *,
    cpu: str = "250m",
    memory: str = "16Mi",
    sandbox_uid: str = "",
    nominal: tuple[str, str] = ("1", "16Mi"),
    phase: str = "Running",
    spec: Document | None = None,
    annotations: dict[str, str] | None = None,
    status: Document | None = None,
) -> Document:
    """Return a running pod of about 6 KB, with `sandbox_uid` the first attempt of that Sandbox."""
    amounts = {"cpu": cpu, "memory": memory}
    metadata: Document = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "resourceVersion": "4711",
        "creationTimestamp": "2026-11-30T08:00:00Z",
        "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "something"},
        "annotations": {"kubernetes.io/config.seen": "2026-11-30T08:00:00.1Z", "kubernetes.io/config.source": "api"}
        | (annotations or {}),
        "managedFields": [
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {f"f:field-{number}": {"f:of": {}, "f:the": {}, "f:object": {}} for number in range(30)},
            }
            for manager in ("sandberth", "kubelet")
        ],
    }
    if sandbox_uid:
        owner = {"apiVersion": "sandberth.dev/v1alpha1", "kind": "Sandbox", "name": name, "uid": sandbox_uid}
        metadata["labels"]["sandberth.dev/attempt"] = f"{sandbox_uid}.1"
        metadata["annotations"] |= {
            "sandberth.dev/nominal-cpu": nominal[0],
            "sandberth.dev/nominal-memory": nominal[1],
        }
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    container = {
        "name": "main",
        "image": "docker.io/library/python:3.12-slim",
        "command": ["sleep", "3600"],
        "env": [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(10)],
        "resources": {"requests": amounts, "limits": amounts},
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    container_status = {
        "name": "main",
        "state": {"running": {"startedAt": "2026-11-30T08:00:01Z"}},
        "ready": True,
        "restartCount": 0,
        "image": "docker.io/library/python:3.12-slim",
        "imageID": "sha256:" + "0" * 64,
        "containerID": "containerd://" + "1" * 64,
        "started": True,
        "allocatedResources": amounts,
        "resources": {"requests": amounts, "limits": amounts},
    }
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": "node-1",
            "restartPolicy": "Never",
            "serviceAccountName": "default",
            "containers": [container],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
            ],
            **(spec or {}),
        },
        "status": {
            "phase": phase,
            "conditions": [
                {"type": condition, "status": "True", "lastTransitionTime": "2026-11-30T08:00:01Z"}
                for condition in conditions
            ],
            "hostIP": "10.0.0.7",
            "podIP": "10.244.1.17",
            "startTime": "2026-11-30T08:00:00Z",
            "containerStatuses": [container_status],
            "qosClass": "Burstable",
            **(status or {}),
        },
    }


def a_pod_list(*pods: Document) -> Document:
    """Return the answer to /pods."""
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(pods) or None}


def a_summary(
    nano_cores: int | None = 1_234_567_890, working_set_bytes: int | None = 2**30, *, pods: int = 0
) -> Document:
    """Return the answer to /stats/summary, of a node that runs that many pods of one container."""
    cpu = {"time": "2026-11-30T08:00:10Z", "usageNanoCores": nano_cores, "usageCoreNanoSeconds": 10**15}
    memory = {"time": "2026-11-30T08:00:10Z", "workingSetBytes": working_set_bytes, "usageBytes": 2**31}
    stats: Document = {
        "cpu": {key: value for key, value in cpu.items() if value is not None},
        "memory": {key: value for key, value in memory.items() if value is not None},
    }
    return {
        "node": {"nodeName": "node-1", "startTime": "2026-11-30T07:00:00Z", **stats},
        "pods": [
            {
                "podRef": {"name": f"pod-{number}", "namespace": "team", "uid": f"uid-pod-{number}"},
                "startTime": "2026-11-30T08:00:00Z",
                "containers": [{"name": "main", "startTime": "2026-11-30T08:00:00Z", **stats}],
                **stats,
            }
            for number in range(pods)
        ],
    }
