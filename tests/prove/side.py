"""The operator's side: a ledger, driven by the very code that drives it in production.

The Pod cache is the production store, a create goes through `Creator.send` (suspended wherever it waits for the
server), and a change of a Pod reaches the ledger through `Operator._pod_changed`. What is left out is everything that
never touches the ledger: statuses, queues, metrics, JSON.
"""

from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from sandberth.control import creating
from sandberth.control.application import Operator
from sandberth.control.creating import Creator, NameTaken, Refused, Unanswered
from sandberth.control.state import State
from sandberth.control.tracks import Attempt, Track
from sandberth.core.errors import SandberthError
from sandberth.core.ledger import Ledger
from sandberth.core.resources import Resources
from sandberth.kube.pods import PodFacts
from sandberth.kube.store import Store
from tests.prove.knowledge import Knowledge
from tests.prove.world import NAMESPACE, REQUESTS, Letter, Pod, Request


class _Wire:
    """Waits for the server: the coroutine that sends is suspended until the adversary delivers an answer."""

    def __init__(self, request: Request) -> None:
        self.request = request

    def __await__(self) -> Generator[Request, Any, Any]:
        return (yield self.request)


class _Uncounted:
    """Takes every metric and keeps none."""

    def __getattr__(self, _: str) -> "_Uncounted":
        return self

    def labels(self, *_: object) -> "_Uncounted":
        return self

    def inc(self) -> None:
        pass


@contextmanager
def facts_as_answers() -> Iterator[None]:
    """Let the server answer with facts, not JSON, for as long as schedules run."""
    with patch.object(creating, "convert_pod", lambda facts: facts):
        yield


@dataclass(slots=True, eq=False)
class Box:
    """One Sandbox: its memory, the attempt number in its status, and the create under way."""

    name: str
    uid: str
    track: Track
    stored: int = 0
    flight: Coroutine[Any, Any, PodFacts | None] | None = None
    request: Request | None = None

    @property
    def attempt(self) -> Attempt | None:
        return self.track.attempt


class Side:
    """One operator process, from its start to its end."""

    ledger_type: type[Ledger] = Ledger  # what the mutants replace

    def __init__(self) -> None:
        self.ledger = self.ledger_type()
        self.knowledge = Knowledge()
        self.pods: Store[PodFacts] = Store()
        self.pods_of: dict[str, set[str]] = {}
        self.now_s = 1_000.0
        self.fault: Exception | None = None  # what a listener raised: the store lets nothing of that through
        self.answers: list[PodFacts] = []  # of creates that succeeded: any of them may be heard again
        state = SimpleNamespace(
            api=self,
            metrics=_Uncounted(),
            streams=SimpleNamespace(pods=self.pods),
            ledger=self.ledger,
            quietly=lambda _: nullcontext(),
            now_s=lambda: self.now_s,
        )
        self.creator = Creator(cast("State", state), lambda: None)
        self._operator: Any = SimpleNamespace(state=state, _works=False, _index=self._index)
        self.pods.subscribe(self._pod_changed)

    def _pod_changed(self, old: PodFacts | None, new: PodFacts | None) -> None:
        try:
            Operator._pod_changed(self._operator, old, new)
        except Exception as error:
            self.fault = self.fault or error
            raise

    def _index(self, pod: PodFacts, *, present: bool) -> None:
        uids = self.pods_of.setdefault(pod.owner_uid or "", set())
        if present:
            uids.add(pod.uid)
        else:
            uids.discard(pod.uid)

    # --- the API, as Creator calls it ---

    async def create_pod(self, body: Mapping[str, Any]) -> PodFacts:
        pod: Pod = body["pod"]
        attempt_id = pod.attempt_id or ""
        return cast("PodFacts", await _Wire(Request("create", pod.name, pod=pod, attempt_id=attempt_id)))

    async def get(self, path: str) -> PodFacts | None:
        return cast("PodFacts | None", await _Wire(Request("get", path.rpartition("/")[2])))

    # --- what it hears ---

    def node_is(self, name: str, uid: str | None) -> None:
        """A Node exists now, or is gone."""
        old = self.knowledge.nodes.get(name)
        self.knowledge.node_is(name, uid)
        if uid is not None:
            self.ledger.node_appeared(uid, name)
        elif old is not None:
            self.ledger.node_vanished(old)

    def pod_event(self, facts: PodFacts, *, deleted: bool) -> None:
        """One event of the watch, in its order."""
        if deleted:
            self.knowledge.ended(facts.uid)
        else:
            self.knowledge.shown(facts)
        self.knowledge.passed = max(self.knowledge.passed, facts.resource_version)
        self.pods.observe(facts, deleted=deleted)

    def listed(self, items: list[PodFacts], version: int) -> None:
        """A list of all Pods as they were at a version: what lies between is never seen."""
        known = self.knowledge
        present = {facts.uid for facts in items}
        for uid in [uid for uid, pod in known.pods.items() if pod.resource_version <= version and uid not in present]:
            known.ended(uid)
        for facts in items:
            known.shown(facts)
        known.passed = max(known.passed, version)
        self.take_list(items, version)

    def take_list(self, items: list[PodFacts], version: int) -> None:
        """Have the cache take a list in."""
        self.pods.replace(items, version)

    def pod_event_of_a_trip(self, facts: PodFacts, order: int) -> None:
        """Let a Pod that no other rule touches be answered, shown and ended, in one of the possible orders."""
        ledger, holding = self.ledger, creating.holding_of(facts)
        assert facts.attempt_id is not None
        if order == 0:
            ledger.pod_observed(holding)
        ledger.create_answered(holding, facts.resource_version)
        if order == 1:
            ledger.pod_observed(holding)
        if order == 2:
            ledger.delete_answered(facts.attempt_id)
        ledger.pod_ended(facts.uid, facts.attempt_id, facts.node_name)

    def held(self, boxes: list[Box]) -> dict[str, str]:
        """Return the node on which each attempt holds room, for all the operator knows."""
        held = {box.attempt.attempt_id: box.attempt.body["pod"].node_name for box in boxes if box.attempt is not None}
        for pod in self.knowledge.pods.values():
            if pod.attempt_id is not None and not pod.terminal:
                held[pod.attempt_id] = pod.node_name
        return held

    def report(self, letter: Letter, boxes: list[Box]) -> bool:
        """A report arrives. Returns whether the ledger took it as the model says it should."""
        self.now_s += 1
        is_news = self.knowledge.is_news(letter.order, letter.report)
        taken = self.ledger.accept_report(letter.report, self.now_s)
        if is_news:
            self.knowledge.reported(letter.order, letter.report, self.held(boxes))
        return taken == is_news

    # --- what it does ---

    def pod_of(self, box: Box) -> PodFacts | None:
        """Return the Pod of a Sandbox as the cache shows it."""
        uids = self.pods_of.get(box.uid)
        return self.pods.get(next(iter(uids))) if uids else None

    def start(self, box: Box, node_uid: str, node_name: str, size: Resources, *, bound: bool) -> None:
        """Reserve room on a node and send the create, of a Pod that is bound there or of one that is only pinned."""
        number = 1 + max(box.track.last_number, box.stored)
        attempt_id = f"{box.uid}.{number}"
        self.ledger.reserve(attempt_id, node_uid, size, REQUESTS[size])
        self.knowledge.reserved(attempt_id, node_name)
        asked = Pod("", box.name, box.uid, attempt_id, node_name, size, 0, expected=False, bound=bound)
        body = {
            "metadata": {"namespace": NAMESPACE, "name": box.name},
            "pod": asked,
        }
        box.track.attempt = Attempt(number, attempt_id, node_name, body)
        self.send(box)

    def send(self, box: Box) -> None:
        """Send the create of the attempt under way: the first time, or again."""
        box.flight = self.creator.send(box.uid, box.track)
        self._step(box, lambda flight: flight.send(None))

    def answer(self, box: Box, answer: PodFacts | SandberthError | None) -> None:
        """Hand the flight what it waits for."""
        attempt = box.attempt
        assert attempt is not None
        if isinstance(answer, SandberthError):
            self._step(box, lambda flight: flight.throw(answer))
        else:
            if answer is not None and answer.owner_uid == box.uid:
                self.knowledge.answered_with(answer)
                self.answers.append(answer)
            self._step(box, lambda flight: flight.send(answer))
        self._settle(box, attempt)

    def answer_again(self, facts: PodFacts) -> None:
        """An answer that was taken in is heard once more; nothing may come of it."""
        self.ledger.pods_passed(self.pods.resource_version)
        self.ledger.create_answered(creating.holding_of(facts), facts.resource_version)

    def _settle(self, box: Box, attempt: Attempt) -> None:
        if box.attempt is not attempt:
            self.knowledge.settled(attempt.attempt_id, attempt.body["pod"].node_name)

    def _step(self, box: Box, resume: Callable[[Any], Any]) -> None:
        try:
            box.request = resume(box.flight)
        except StopIteration:
            box.flight = box.request = None
        except (Refused, NameTaken):
            box.flight = box.request = None
        except Unanswered:
            box.flight = box.request = None
            self.unanswered(box)

    def unanswered(self, box: Box) -> None:
        """The outcome of a create is unknown: the attempt and its room stay as they are."""

    def look(self, box: Box) -> PodFacts | None:
        """Look at a Sandbox as the reconciler does first: a Pod in the cache answers an open create."""
        pod = self.pod_of(box)
        if pod is not None and box.attempt is not None and box.flight is None:
            attempt = box.attempt
            pod = self.creator.seen(box.track, pod)
            self._settle(box, attempt)
        return pod

    def deleted(self, attempt_id: str) -> None:
        """The answer to a delete, or that there was nothing to delete."""
        self.ledger.delete_answered(attempt_id)

    def stop(self, boxes: list[Box]) -> None:
        """End the process: what it was waiting for is forgotten."""
        for box in boxes:
            if box.flight is not None:
                box.flight.close()
            box.flight = box.request = None
            box.track = Track(first_seen_s=0.0)
