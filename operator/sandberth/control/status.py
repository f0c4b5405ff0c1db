"""From what is known of a Sandbox to its status, and from two statuses to the smallest patch between them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sandberth.control.endings import UNSEEN_EXITS
from sandberth.core.constraints import Toleration
from sandberth.core.fit import Ask
from sandberth.core.node import NodeFacts
from sandberth.core.placement import Decision, Parameters
from sandberth.core.quantity import format_bytes, format_cpu
from sandberth.core.resources import Resources
from sandberth.kube.names import (
    Phase,
    PlacedReason,
    ReadyReason,
    SandboxCondition,
)
from sandberth.kube.objects import Condition
from sandberth.kube.pods import PodFacts
from sandberth.kube.sandbox import MAX_CANDIDATES, Candidate, DecisionFlags, NominalSize, SandboxStatus
from sandberth.kube.sandbox import Decision as DecisionStatus

_PULL_FAILURES = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
)
_ORDINARY_WAITS = frozenset({"", "ContainerCreating", "PodInitializing"})
_MESSAGE_LIMIT = 1024
SCHEDULER_SAYS = "kube-scheduler: "
_ORDER: dict[str, int] = {condition: position for position, condition in enumerate(SandboxCondition)}


def with_condition(
    status: SandboxStatus,
    kind: SandboxCondition,
    value: bool,
    reason: str,
    message: str,
    *,
    generation: int,
    now: datetime,
) -> SandboxStatus:
    """Return the status with one condition set; its transition time moves only when its value changes."""
    text = "True" if value else "False"
    old = status.condition(kind)
    changed_at = old.last_transition_time if old is not None and old.status == text else now
    condition = Condition(
        type=kind,
        status="True" if value else "False",
        reason=reason,
        message=shortened(message),
        last_transition_time=changed_at,
        observed_generation=generation,
    )
    others = [item for item in status.conditions if item.type != kind]
    conditions = sorted([*others, condition], key=lambda item: _ORDER.get(item.type, len(_ORDER)))
    return status.model_copy(update={"conditions": tuple(conditions)})


def shortened(message: str) -> str:
    """Return a message that fits into a condition."""
    return message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"


def nominal_size(nominal: Resources) -> NominalSize:
    """Return a size in the spelling of the columns."""
    return NominalSize(cpu=format_cpu(nominal.cpu_millicores), memory=format_bytes(nominal.memory_bytes))


# --- states ---


def waiting_status(
    status: SandboxStatus,
    reason: str,
    message: str,
    *,
    generation: int,
    now: datetime,
    record: DecisionStatus | None = None,
    ask: Ask | None = None,
) -> SandboxStatus:
    """Return the status of a Sandbox that has no node: Pending, with why; an unchanged reason keeps its text."""
    update: dict[str, Any] = {
        "phase": Phase.PENDING,
        "node_name": None,
        "pod_name": None,
        "pod_ip": None,
        "observed_generation": generation,
    }
    if record is not None:
        update["placement"] = record
    if ask is not None:
        update["resources"] = nominal_size(ask.nominal)
    status = status.model_copy(update=update)
    status = with_condition(status, SandboxCondition.PLACED, False, reason, message, generation=generation, now=now)
    if status.condition(SandboxCondition.READY) is not None:
        lost = reason == PlacedReason.POD_LOST
        why = ReadyReason.POD_LOST if lost else ReadyReason.STARTING
        text = message if lost else "waits for a node"
        status = with_condition(status, SandboxCondition.READY, False, why, text, generation=generation, now=now)
    return status


def pod_status(
    status: SandboxStatus,
    pod: PodFacts,
    *,
    attempt: int,
    generation: int,
    now: datetime,
    node_ready: bool,
    placed_message: str,
    record: DecisionStatus | None,
) -> SandboxStatus:
    """Return the status of a Sandbox whose Pod lives: Starting, Running or Terminating."""
    phase = Phase.RUNNING if pod.phase in {"Running", "Unknown"} else Phase.STARTING
    if pod.deleting:
        phase = Phase.TERMINATING
    placement, old_node = _placement_of(status, pod, attempt, record), status.node_name
    started_at = moment(pod.started_at) if pod.started_at and phase is not Phase.STARTING else None
    if status.started_at is not None and status.placement is not None and status.placement.attempt == attempt:
        started_at = status.started_at  # a container's restart moves its own start, not the Sandbox's
    status = status.model_copy(
        update={
            "phase": phase,
            "node_name": pod.node_name or None,
            "pod_name": pod.name,
            "pod_ip": pod.pod_ip or None if phase is not Phase.STARTING else None,  # early, it would cost a write
            "observed_generation": generation,
            "started_at": started_at,
            "finished_at": None,
            "restarts": pod.restarts,
            "resources": nominal_size(pod.nominal),
            "placement": placement,
        }
    )
    placed = status.condition(SandboxCondition.PLACED)
    moved = old_node not in {None, pod.node_name}  # kube-scheduler bound it elsewhere
    if placed is None or placed.status != "True" or placed.observed_generation != generation or moved:
        is_placed = placed is not None and placed.status == "True" and not moved
        message = placed_message or (placed.message if placed is not None and is_placed else "")
        status = with_condition(
            status,
            SandboxCondition.PLACED,
            True,
            PlacedReason.PLACED,
            message or f"runs on {pod.node_name}",
            generation=generation,
            now=now,
        )
    value, reason, message = _readiness(pod, node_ready=node_ready)
    return with_condition(status, SandboxCondition.READY, value, reason, message, generation=generation, now=now)


def _placement_of(status: SandboxStatus, pod: PodFacts, attempt: int, record: DecisionStatus | None) -> DecisionStatus:
    placement = record or status.placement
    if placement is not None and placement.attempt == attempt and placement.node == (pod.node_name or None):
        return placement
    # The Pod was found, not made by this process: how its node was chosen is not known any more.
    return DecisionStatus(attempt=attempt, node=pod.node_name or None)


def finished_status(
    status: SandboxStatus,
    phase: Phase,
    reason: str,
    message: str,
    *,
    generation: int,
    now: datetime,
    pod: PodFacts | None = None,
    attempt: int = 0,
    record: DecisionStatus | None = None,
) -> SandboxStatus:
    """Return the final status: Succeeded or Failed, with why; what was known of the place stays.

    `attempt` and `record` tell about the Pod, where there is one.
    """
    update: dict[str, Any] = {"phase": phase, "observed_generation": generation, "finished_at": now}
    if pod is not None:
        update |= {
            "node_name": pod.node_name or None,
            "pod_name": pod.name,
            "restarts": pod.restarts,
            "finished_at": moment(pod.finished_at) if pod.finished_at else now,
            "placement": _placement_of(status, pod, attempt, record),
        }
        if pod.started_at and pod.ran:
            update["started_at"] = moment(pod.started_at)
        if pod.pod_ip:
            update["pod_ip"] = pod.pod_ip
    status = status.model_copy(update=update)
    status = with_condition(status, SandboxCondition.FINISHED, True, reason, message, generation=generation, now=now)
    ready = ReadyReason.FINISHED
    return with_condition(status, SandboxCondition.READY, False, ready, message, generation=generation, now=now)


def _readiness(pod: PodFacts, *, node_ready: bool) -> tuple[bool, ReadyReason, str]:
    if not pod.bound and not pod.deleting:  # nothing is said while kube-scheduler is at work: that would cost a write
        return False, ReadyReason.STARTING, SCHEDULER_SAYS + pod.unschedulable if pod.unschedulable else ""
    if not node_ready:
        return False, ReadyReason.NODE_UNREACHABLE, f"node {pod.node_name} is not ready; the Pod counts as alive"
    if pod.deleting:
        why = f": {pod.disruption}" if pod.disruption else ""
        return False, ReadyReason.POD_LOST, f"the Pod is being deleted{why}"
    if pod.phase == "Running":
        message = "" if pod.ready else "the program runs and is not ready yet"
        return pod.ready, ReadyReason.POD_READY if pod.ready else ReadyReason.STARTING, message
    if pod.waiting_reason in _ORDINARY_WAITS:
        return False, ReadyReason.STARTING, ""
    reason = ReadyReason.IMAGE_PULL_FAILED if pod.waiting_reason in _PULL_FAILURES else ReadyReason.STARTING
    return False, reason, f"{pod.waiting_reason}: {pod.waiting_message}".rstrip(": ")


def exit_message(pod: PodFacts) -> str:
    """Return how the program of a terminal Pod ended, in words."""
    if pod.phase == "Succeeded":
        return "the program ended with exit code 0"
    parts = [f"{pod.reason}: {pod.message}".strip(": ")]
    if pod.exit_code is not None:
        parts.append(f"exit code {pod.exit_code}")
        parts += [part for part in (pod.exit_reason, pod.exit_message) if part]
    return "; ".join(part for part in parts if part) or "the Pod failed"


def loss_message(pod: PodFacts) -> str:
    """Return what ended a terminal Pod whose program did not end by itself: how that exited says little then."""
    if pod.reason:
        return exit_message(pod)
    if pod.disruption:
        return pod.disruption
    if pod.deleting:
        return "it was deleted"
    return (
        "its program ended unseen, as when its node restarts" if pod.exit_reason in UNSEEN_EXITS else exit_message(pod)
    )


# --- decisions ---


def decision_record(decision: Decision, attempt: int, parameters: Parameters, now: datetime) -> DecisionStatus:
    """Return a decision as it stands in the status."""
    chosen = decision.chosen
    k = "all" if parameters.sample_size is None else str(parameters.sample_size)
    overcommit = parameters.overcommit_percent
    if chosen is not None:
        overcommit = chosen.node.overcommit_percent(overcommit)
    return DecisionStatus(
        attempt=attempt,
        node=chosen.node.facts.name if chosen else None,
        score=round(chosen.score, 6) if chosen else None,
        view=parameters.view.value,
        flags=DecisionFlags(
            k=k, overcommit_percent=overcommit, alpha=parameters.alpha_percent, sampler=parameters.sampler.value
        ),
        sampled=decision.compared,
        candidates=tuple(
            Candidate(
                node=candidate.node.facts.name,
                score=round(candidate.score, 6),
                accounted=format_cpu(candidate.accounted_cpu),
                in_progress=candidate.in_progress,
                report_age_seconds=None
                if candidate.report_age_seconds is None
                else max(0, int(candidate.report_age_seconds)),
            )
            for candidate in decision.candidates[:MAX_CANDIDATES]
        ),
        rejected={str(why): count for why, count in sorted(decision.rejected.items())},
        decided_at=now,
    )


def placed_message(
    decision: Decision, parameters: Parameters, ask: Ask, ignored: Sequence[str], left_to_scheduler: Sequence[str] = ()
) -> str:
    """Return why this node, in a sentence or two, and what leaves the binding to kube-scheduler."""
    chosen = decision.chosen
    if chosen is None:
        return ""
    name = chosen.node.facts.name
    if decision.preferred:
        parts = [f"{name} is the preferred node and has room"]
    else:
        count = decision.compared
        tied = sum(candidate.score == chosen.score for candidate in decision.candidates)
        how = "lowest load" if tied == 1 else f"lowest load (as {tied - 1} more, chosen by chance)"
        parts = [f"{name} has the {how} of {count} compared: score {chosen.score:.4f}, {parameters.view} view"]
    if decision.preferred is False:
        why = decision.preferred_rejection or "there is no such node"
        parts.append(f"the preferred node {ask.preferred_node} was not eligible: {why}")
    if decision.second_choice:
        parts.append("it has no fresh report, and no node that has one was eligible")
    if left_to_scheduler:
        parts.append(f"bound by kube-scheduler: {', '.join(left_to_scheduler)}")
    wishes = [*ignored, *_untolerated_preferences(chosen.node.facts, ask.constraints.tolerations)]
    if wishes:
        parts.append(f"not scored: {', '.join(wishes)}")
    return "; ".join(parts)


def no_node_message(decision: Decision, node_count: int, preferred_node: str | None) -> str:
    """Return why no node could take a Sandbox, by counts."""
    if node_count == 0:
        return "the cluster has no nodes"
    counts = sorted(decision.rejected.items(), key=lambda item: (-item[1], item[0]))
    text = ", ".join(f"{count} {why}" for why, count in counts)
    message = f"0 of {node_count} nodes are eligible: {text}"
    if decision.preferred is False and decision.preferred_rejection is None:
        message += f"; the preferred node {preferred_node} does not exist"
    return message


def _untolerated_preferences(facts: NodeFacts, tolerations: Iterable[Toleration]) -> list[str]:
    return [
        f"taint {taint.key}:PreferNoSchedule"
        for taint in facts.taints
        if taint.effect == "PreferNoSchedule" and not any(toleration.tolerates(taint) for toleration in tolerations)
    ]


# --- patches ---


def moment(text: str) -> datetime:
    """Return an instant from the API's text."""
    return datetime.fromisoformat(text)


def utc(seconds: float) -> datetime:
    """Return an instant from seconds since the epoch, to the second as the API stores it."""
    return datetime.fromtimestamp(int(seconds), UTC)


def status_patch(old: SandboxStatus, new: SandboxStatus) -> dict[str, Any] | None:
    """Return the merge patch that turns one status into the other, None where nothing differs."""
    difference = merge_patch(old.to_api(), new.to_api())
    return {"status": difference} if difference else None


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) from one object to another; empty where they are equal."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            inner = merge_patch(before, value)
            if inner:
                patch[key] = inner
        elif key not in old or before != value:
            patch[key] = value
    return patch
