"""What the models accept, refuse and write back; what a template may not hold."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from sandberth.kube.nodecapacity import NodeCapacity
from sandberth.kube.objects import MAX_MESSAGE_LENGTH, Condition, describe
from sandberth.kube.reportlines import format_line, parse_line
from sandberth.kube.sandbox import Decision, Sandbox, SandboxSpec, SandboxStatus
from sandberth.kube.template import (
    ignored_preferences,
    parse_host_features,
    refusals,
    sandbox_refusals,
    scheduler_features,
)

MOMENT = datetime(2030, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def a_sandbox(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "box", "namespace": "lab", "uid": "u-1", "generation": 2, **metadata},
        "spec": spec or an_image_spec(),
    }


def an_image_spec(**fields: Any) -> dict[str, Any]:
    return {"image": "busybox:1.36", "resources": {"cpu": 1, "memory": "1Gi"}, **fields}


def a_template(**pod_fields: Any) -> SandboxSpec:
    return SandboxSpec.model_validate({"podTemplate": {"spec": {"containers": [{"name": "main"}], **pod_fields}}})


def refusal_of(spec: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        Sandbox.from_object(a_sandbox(spec))
    return describe(caught.value)


def test_sandbox_is_read_with_its_defaults() -> None:
    sandbox = Sandbox.from_object(a_sandbox(labels={"team": "x"}, resourceVersion="7"))

    assert (sandbox.name, sandbox.namespace, sandbox.uid) == ("box", "lab", "u-1")
    assert (sandbox.generation, sandbox.resource_version, sandbox.labels) == (2, "7", {"team": "x"})
    assert sandbox.attempt_id(3) == "u-1.3"
    assert sandbox.deletion_timestamp is None
    assert sandbox.spec.recovery == "Recreate"
    assert sandbox.spec.lifetime.start_deadline_seconds == 600
    assert sandbox.status == SandboxStatus()


@pytest.mark.parametrize(
    ("given", "kept"), [(1, "1"), (2.0, "2"), (0.5, "0.5"), ("0.5", "0.5"), ("1e3", "1e3"), ("12e-3", "12e-3")]
)
def test_cpu_is_kept_as_the_text_of_a_quantity(given: object, kept: str) -> None:
    sandbox = Sandbox.from_object(a_sandbox({"image": "b", "resources": {"cpu": given, "memory": "1Gi"}}))

    assert sandbox.spec.resources.cpu == kept


@pytest.mark.parametrize("cpu", ["", "-1", -1, 0, "0", "1GiB", "1.5e", "abc", "1E", "100k", "129e6", True, None, []])
def test_bad_cpu_is_named(cpu: object) -> None:
    assert "resources.cpu" in refusal_of({"image": "b", "resources": {"cpu": cpu, "memory": "1Gi"}})


@pytest.mark.parametrize("memory", ["", "-1", 0, "1GiB", "1.5e", "1E", "1Pi", 1000, float("nan"), float("inf")])
def test_bad_memory_is_named(memory: object) -> None:
    assert "spec.resources.memory: " in refusal_of({"image": "b", "resources": {"cpu": 1, "memory": memory}})


@pytest.mark.parametrize("memory", ["129e6", "128974848000m", "1Mi", "1023Ti", 2**30])
def test_every_legal_spelling_of_memory_is_read(memory: object) -> None:
    sandbox = Sandbox.from_object(a_sandbox({"image": "b", "resources": {"cpu": 1, "memory": memory}}))

    assert sandbox.spec.resources.memory == str(memory)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"recovery": "Never"}, "spec: exactly one of image and podTemplate must be set"),
        (
            an_image_spec(podTemplate={"spec": {"containers": [{}]}}),
            "spec: exactly one of image and podTemplate must be set",
        ),
        ({"image": "b"}, "spec: resources.cpu and resources.memory are required with image"),
        ({"podTemplate": {"spec": {"containers": []}}}, "spec.podTemplate.spec: containers must list at least one"),
        ({"podTemplate": {"spec": {"containers": [{}]}}, "args": ["a"]}, "belong to image"),
        (an_image_spec(resources={"cpu": 1, "memory": "1Gi", "extended": {"gpu": 1}}), "spec.resources.extended: an"),
        (
            an_image_spec(resources={"cpu": 1, "memory": "1Gi", "extended": {"a.b/c": "0.5"}}),
            "spec.resources.extended.a.b/c: an extended resource must be a whole number",
        ),
        (an_image_spec(lifetime={"shutdownTime": "2030-01-01T00:00:00"}), "spec.lifetime.shutdownTime: "),
        (an_image_spec(ports=[{"containerPort": 0}]), "spec.ports.0.containerPort: "),
    ],
)
def test_bad_spec_is_refused_with_the_name_of_the_field(spec: dict[str, Any], message: str) -> None:
    assert message in refusal_of(spec)


def test_several_faults_stand_in_one_line() -> None:
    text = refusal_of({"image": "b", "resources": {"cpu": 0, "memory": 0}})

    assert "spec.resources.cpu: " in text
    assert "; spec.resources.memory: " in text
    assert "\n" not in text


def test_unknown_fields_are_ignored() -> None:
    obj = {**a_sandbox({**an_image_spec(), "later": 1}), "status": {"phase": "Running", "later": {"a": 1}}}

    assert Sandbox.from_object(obj).status.phase == "Running"


def test_status_reads_back_what_it_wrote() -> None:
    status = SandboxStatus(
        phase="Running",
        pod_ip="10.0.0.1",
        started_at=MOMENT,
        conditions=(Condition(type="Ready", status="True", reason="PodReady", last_transition_time=MOMENT),),
        placement=Decision(attempt=1, node="node-1", score=0.25, rejected={"Cordoned": 2}, decided_at=MOMENT),
    )

    written = status.to_api()

    assert (written["podIP"], written["startedAt"]) == ("10.0.0.1", "2030-01-02T03:04:05Z")
    assert "finishedAt" not in written
    assert SandboxStatus.model_validate(written) == status


def test_a_message_longer_than_the_schema_allows_is_cut() -> None:
    long = "x" * (MAX_MESSAGE_LENGTH + 1)

    condition = Condition(type="Placed", status="False", reason="InvalidPod", message=long, last_transition_time=MOMENT)

    assert len(condition.message) == MAX_MESSAGE_LENGTH


def test_node_capacity_names_the_node_that_owns_it() -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "n-1"}

    owned = NodeCapacity.from_object({"metadata": {"name": "node-1", "ownerReferences": [owner]}})
    orphan = NodeCapacity.from_object({"metadata": {"name": "node-1"}})

    assert (owned.owner_node_uid, orphan.owner_node_uid) == ("n-1", None)
    assert owned.spec.unschedulable is False


def test_report_uses_the_names_of_the_api() -> None:
    report = {
        "epoch": 3,
        "sequence": 4,
        "intervalSeconds": 20,
        "reportedAt": "2030-01-01T00:00:00Z",
        "nodeUID": "n-1",
        "allocated": {"cpu": "1", "memory": "1Gi"},
        "sandboxes": ["u-1.1 1000 1073741824"],
    }

    read = NodeCapacity.from_object({"metadata": {"name": "n"}, "status": {"report": report}}).status.report

    assert read is not None
    assert (read.version, read.node_uid, read.complete, read.used) == ((3, 4), "n-1", True, None)
    assert read.to_api() == {**report, "complete": True, "pods": 0}


def test_a_line_reads_back_what_was_formatted() -> None:
    assert parse_line(format_line("u-1.2", 500, 1024)) == ("u-1.2", 500, 1024)


@pytest.mark.parametrize("line", ["", "a", "a 1", "a 1 2 3", "a 1m 2", "a -1 2", " 1 2", "a  1 2", "a ² 2"])
def test_a_bad_line_is_refused_with_its_text(line: str) -> None:
    with pytest.raises(ValueError, match="not `<attempt id>") as caught:
        parse_line(line)

    assert repr(line) in str(caught.value)


PRIVILEGED = {"name": "evil", "securityContext": {"privileged": True}}


@pytest.mark.parametrize(
    ("pod_fields", "refusal"),
    [
        ({"hostNetwork": True}, "hostNetwork is not allowed in a Sandbox"),
        ({"hostPID": True}, "hostPID is not allowed in a Sandbox"),
        ({"hostIPC": True}, "hostIPC is not allowed in a Sandbox"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "hostPath is not allowed in a Sandbox"),
        ({"containers": [PRIVILEGED]}, "privileged is not allowed in a Sandbox"),
        ({"initContainers": [PRIVILEGED]}, "privileged is not allowed in a Sandbox"),
        ({"nodeName": ""}, "nodeName is chosen by Sandberth; use spec.placement.preferredNode"),
        ({"schedulerName": "other"}, "schedulerName is not supported; Sandberth chooses the node"),
        (
            {"schedulingGates": [{"name": "a"}]},
            "schedulingGates are not supported; apply the Sandbox when it may start",
        ),
        (
            {"ephemeralContainers": [{"name": "a"}]},
            "ephemeralContainers cannot be part of a new Pod; use kubectl debug",
        ),
    ],
)
def test_forbidden_template_field_is_refused(pod_fields: dict[str, Any], refusal: str) -> None:
    assert refusals(a_template(**pod_fields), frozenset()) == [refusal]


def test_privileged_ephemeral_container_is_refused_twice() -> None:
    found = refusals(a_template(ephemeralContainers=[PRIVILEGED]), frozenset())

    assert len(found) == 2


def test_allowed_host_feature_passes_and_the_others_do_not() -> None:
    spec = a_template(hostPID=True, hostIPC=True)

    assert refusals(spec, parse_host_features(" hostPID , ")) == ["hostIPC is not allowed in a Sandbox"]


@pytest.mark.parametrize(
    "pod_fields",
    [
        {"hostNetwork": False, "schedulerName": "default-scheduler", "nodeName": None},
        {"volumes": "not a list", "initContainers": [None, "x"], "affinity": 3},
        {"containers": [{"name": "a", "securityContext": {"privileged": False}}]},
    ],
)
def test_harmless_or_malformed_template_is_left_to_the_server(pod_fields: dict[str, Any]) -> None:
    spec = a_template(**pod_fields)

    assert refusals(spec, frozenset()) == []
    assert scheduler_features(spec) == []
    assert ignored_preferences(spec) == []


def test_our_prefix_is_refused_wherever_it_stands() -> None:
    template = {
        "metadata": {"labels": {"sandberth.dev/attempt": "x"}, "annotations": {"sandberth.dev/a": "b", "ok": "y"}},
        "spec": {"containers": [{"name": "main"}]},
    }
    sandbox = Sandbox.from_object(a_sandbox({"podTemplate": template}, annotations={"sandberth.dev/node-uid": "n"}))

    assert [line.split(":")[0] for line in sandbox_refusals(sandbox)] == [
        "podTemplate.metadata.labels[sandberth.dev/attempt]",
        "podTemplate.metadata.annotations[sandberth.dev/a]",
        "metadata.annotations[sandberth.dev/node-uid]",
    ]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("pod_fields", "field"),
    [
        ({"volumes": [{"emptyDir": {}}, {"persistentVolumeClaim": {}}]}, "volumes[1].persistentVolumeClaim"),
        ({"volumes": [{"ephemeral": {}}]}, "volumes[0].ephemeral"),
        ({"affinity": {"podAffinity": {REQUIRED: [{}]}}}, "affinity.podAffinity"),
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{}]}}}, "affinity.podAntiAffinity"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "topologySpreadConstraints[0]"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
    ],
)
def test_what_only_the_scheduler_can_do_is_named(pod_fields: dict[str, Any], field: str) -> None:
    spec = a_template(**pod_fields)

    assert scheduler_features(spec) == [field]
    assert refusals(spec) == []


def test_preferences_are_listed_and_need_no_scheduler() -> None:
    spec = a_template(
        affinity={
            "nodeAffinity": {PREFERRED: [{}], REQUIRED: {"nodeSelectorTerms": []}},
            "podAntiAffinity": {PREFERRED: [{}]},
        },
        topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}],
    )

    assert scheduler_features(spec) == []
    assert ignored_preferences(spec) == [
        "preferred nodeAffinity",
        "preferred podAntiAffinity",
        "topologySpreadConstraints with ScheduleAnyway",
    ]


def test_image_needs_no_judgement_of_a_template() -> None:
    spec = SandboxSpec.model_validate(an_image_spec())

    assert (refusals(spec, frozenset()), scheduler_features(spec), ignored_preferences(spec)) == ([], [], [])
