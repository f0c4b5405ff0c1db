"""One attempt, from the decision to the answer of its create.

Choosing and reserving is one step without an await. An attempt whose outcome is unknown is repeated, the very same
body, until the server says created, refused, or exists: never is another one started beside it.
"""

import logging
from collections.abc import Callable

from sandberth.control.outcomes import Outcome, outcome_of
from sandberth.control.state import State
from sandberth.control.status import decision_record, placed_message, utc
from sandberth.control.tracks import Attempt, Track
from sandberth.core.errors import SandberthError
from sandberth.core.fit import Ask
from sandberth.core.ledger import PodHolding
from sandberth.core.placement import Decision, place
from sandberth.kube.building import build_pod, build_unplaced_pod
from sandberth.kube.errors import ApiError
from sandberth.kube.paths import pod_path
from sandberth.kube.pods import PodFacts, convert_pod
from sandberth.kube.sandbox import Sandbox
from sandberth.kube.template import ignored_preferences, scheduler_features

LOG = logging.getLogger(__name__)


class Refused(SandberthError):  # noqa: N818 - an answer, not a fault
    """The server definitely refused the create; the room is given back."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class NameTaken(SandberthError):  # noqa: N818 - an answer, not a fault
    """A Pod of somebody else has the Sandbox's name; the room is given back."""


class Unanswered(SandberthError):  # noqa: N818 - an answer, not a fault
    """The outcome is not known: the same create is due again, not before `retry_after_seconds` if given."""

    def __init__(self, error: SandberthError) -> None:
        super().__init__(str(error))
        self.retry_after_seconds = error.retry_after_seconds if isinstance(error, ApiError) else None


class Creator:
    """Makes the Pods of Sandboxes, one attempt at a time for each."""

    def __init__(self, state: State, room_given_back: Callable[[], None]) -> None:
        self._state = state
        self._room_given_back = room_given_back

    def start(self, sandbox: Sandbox, track: Track, ask: Ask, excluded: frozenset[str]) -> Decision:
        """Choose a node and reserve its room; where one was found, `track.attempt` is ready to be sent."""
        state = self._state
        parameters = state.flags.parameters
        number, attempt_id = _next_attempt(sandbox, track)
        with state.metrics.placement_seconds.time():
            decision = place(
                state.fleet,
                attempt_id,
                ask,
                excluded=excluded,
                parameters=parameters,
                rng=state.rng,
                now_s=state.now_s(),
            )
        outcome = "none" if decision.chosen is None else "placed"
        state.metrics.placements.labels(parameters.view.value, outcome).inc()
        if decision.chosen is not None:
            node = decision.chosen.node
            record = decision_record(decision, number, parameters, utc(state.wall_s()))
            track.attempt = Attempt(
                number,
                attempt_id,
                node.facts.name,
                build_pod(
                    sandbox,
                    number,
                    ask,
                    node_name=node.facts.name,
                    node_uid=node.facts.uid,
                    overcommit_percent=node.overcommit_percent(parameters.overcommit_percent),
                ),
            )
            message = placed_message(
                decision, parameters, ask, ignored_preferences(sandbox.spec), scheduler_features(sandbox.spec)
            )
            track.record = (number, record, message)
        return decision

    def start_anywhere(self, sandbox: Sandbox, track: Track, ask: Ask) -> None:
        """Have `track.attempt` ready to be sent: a Pod for kube-scheduler to place, which holds no room before that.

        Raises PodSpecError where that cannot be said in a Pod.
        """
        number, attempt_id = _next_attempt(sandbox, track)
        overcommit_percent = self._state.flags.parameters.overcommit_percent
        body = build_unplaced_pod(sandbox, number, ask, overcommit_percent=overcommit_percent)
        track.attempt, track.record = Attempt(number, attempt_id, "", body), None

    async def send(self, uid: str, track: Track) -> PodFacts | None:
        """Send the attempt's create once and take its answer in; return the Pod, or None where it has ended already.

        Raises Refused, NameTaken, or Unanswered; the last leaves the attempt and its room as they are.
        """
        attempt = track.attempt
        if attempt is None:
            raise RuntimeError("no attempt to send")
        try:
            answer = await self._state.api.create_pod(attempt.body)
        except SandberthError as error:
            outcome = outcome_of(error)
            self._state.metrics.creates.labels(outcome.value).inc()
            return await self._after_error(uid, track, attempt, error, outcome)
        self._state.metrics.creates.labels(Outcome.CREATED.value).inc()
        pod = convert_pod(answer)
        track.pod_made = (pod.uid, self._state.now_s())
        return self._created(track, attempt, pod)

    async def _after_error(
        self, uid: str, track: Track, attempt: Attempt, error: SandberthError, outcome: Outcome
    ) -> PodFacts | None:
        if outcome is Outcome.UNKNOWN:
            attempt.tries += 1
            raise Unanswered(error) from error
        if outcome is Outcome.REFUSED and attempt.tries == 0 and isinstance(error, ApiError):
            self._give_back(track, attempt)
            raise Refused(error) from error
        # Either the name is taken, or an earlier try of this attempt may have been carried out before this refusal.
        metadata = attempt.body["metadata"]
        try:
            found = await self._state.api.get(pod_path(metadata["namespace"], metadata["name"]))
        except SandberthError as unread:
            attempt.tries += 1
            raise Unanswered(unread) from unread
        if found is None and outcome is Outcome.REFUSED and isinstance(error, ApiError):
            self._give_back(track, attempt)
            raise Refused(error) from error
        if found is None:  # it went in between: the name is free again
            attempt.tries += 1
            raise Unanswered(error) from error
        pod = convert_pod(found)
        if pod.owner_uid != uid:
            self._give_back(track, attempt)
            raise NameTaken(f"the name belongs to a Pod that is not this Sandbox's (UID {pod.uid})") from error
        return self._adopted(track, attempt, pod)

    def seen(self, track: Track, pod: PodFacts) -> PodFacts | None:
        """The Pod cache shows the Sandbox's Pod before the create was answered: that is an answer."""
        if track.attempt is None:
            return pod
        return self._adopted(track, track.attempt, pod)

    def _created(self, track: Track, attempt: Attempt, pod: PodFacts) -> PodFacts | None:
        pods, ledger = self._state.streams.pods, self._state.ledger
        track.attempt = None
        track.last_number = max(track.last_number, attempt.number)
        if pod.terminal:
            ledger.release(attempt.attempt_id)
            ledger.pod_ended(pod.uid, pod.attempt_id, pod.node_name)
        elif not pod.node_name:  # kube-scheduler may bind it anywhere
            ledger.release(attempt.attempt_id)
            self._room_given_back()
        else:
            ledger.pods_passed(pods.resource_version)
            ledger.create_answered(holding_of(pod), pod.resource_version)
        if pod.uid not in pods and pod.resource_version <= pods.resource_version:
            return None  # the stream is past it and does not know it: it has come and gone
        with self._state.quietly(pod.owner_uid or ""):
            pods.observe(pod, in_stream=False)
        return pods.get(pod.uid)

    def _adopted(self, track: Track, attempt: Attempt, pod: PodFacts) -> PodFacts | None:
        if pod.attempt_id != attempt.attempt_id:
            self._state.ledger.release(attempt.attempt_id)
            self._room_given_back()
        if pod.attempt_id != attempt.attempt_id or pod.node_name != attempt.node_name:
            track.record = None
        return self._created(track, attempt, pod)

    def _give_back(self, track: Track, attempt: Attempt) -> None:
        track.attempt = None
        self._state.ledger.release(attempt.attempt_id)
        self._room_given_back()


def _next_attempt(sandbox: Sandbox, track: Track) -> tuple[int, str]:
    """Return the number and the ID of the attempt that is due."""
    number = 1 + max(track.last_number, sandbox.status.placement.attempt if sandbox.status.placement else 0)
    return number, sandbox.attempt_id(number)


def holding_of(pod: PodFacts) -> PodHolding:
    """Return what a Pod holds on its node, as the ledger counts it; a Pod that is not ours holds its requests.

    A Sandbox's Pod that is not bound yet holds its room where it is to be bound.
    """
    own = pod.attempt_id is not None
    return PodHolding(
        pod_uid=pod.uid,
        attempt_id=pod.attempt_id,
        node_name=pod.node_name,
        nominal=pod.nominal,  # also of a Sandbox's Pod that lost its label: it is the requests where no Sandbox owns it
        requests=pod.requests,
        starting=own and pod.phase == "Pending",
    )
