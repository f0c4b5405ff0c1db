"""The adversary's moves around a create, and around the Pod stream; the others are in `rules.py`."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from sandberth.control.tracks import Track
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.pods import PodFacts
from tests.prove.side import Box, Side
from tests.prove.world import SIZES, Machine, Pod, Request, World

T = TypeVar("T")
REFUSAL = ApiError(403, "Forbidden", "exceeded quota")
BUSY = ApiError(500, "InternalError", "try again")


class Creating:
    """One world, one operator at a time, and an adversary between them."""

    def __init__(self, below: Callable[[int], int], *, side_type: type[Side] = Side) -> None:
        self.below = below
        self.side_type = side_type
        self.world = World(1 + below(3), kubelet_reports=bool(below(3)))
        self.boxes = [Box(f"box-{index}", f"s{self.world.next()}", Track(0.0)) for index in range(2 + below(3))]
        self.stray: list[Request] = []  # creates that nobody waits for, and deletes
        self.cursor = 0  # how far the Pod stream is
        self.restarts = 0
        self.side = side_type()
        self._first_lists()

    # --- picking ---

    def pick(self, items: Sequence[T]) -> T | None:
        """Return one of them, None of none."""
        return items[self.below(len(items))] if items else None

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == 0

    def size(self) -> int:
        return self.below(len(SIZES))

    def _any_pod(self) -> Pod | None:
        return self.pick(list(self.world.pods.values()))

    def _machine(self) -> Machine:
        machines = list(self.world.machines.values())
        return machines[self.below(len(machines))]

    def _first_lists(self) -> None:
        pods_first = bool(self.below(2))
        if pods_first:
            self._list_pods()
        for machine in self.world.machines.values():
            if machine.present:
                self.side.node_is(machine.name, machine.uid)
        self.world.node_news.clear()
        if not pods_first:
            self._list_pods()

    def _list_pods(self) -> None:
        self.cursor = len(self.world.log)
        self.side.listed([pod.facts() for pod in self.world.pods.values()], self.world.version)

    # --- creates ---

    def start(self) -> None:
        """Begin an attempt for a Sandbox that has no Pod."""
        side = self.side
        box = self.pick([box for box in self.boxes if box.attempt is None and side.pod_of(box) is None])
        names = list(side.knowledge.nodes)
        if box is None or not names:
            return
        if box.track.last_number > box.stored:  # a look before the last attempt is called lost
            pod = self.world.pods.get(box.name)
            if pod is not None and pod.owner_uid == box.uid:
                self.side.knowledge.shown(pod.facts())
                side.pods.observe(pod.facts(), in_stream=False)
                return
            box.stored = box.track.last_number
        if self.chance(6):  # the Sandbox was deleted and made anew
            box.uid, box.track, box.stored = f"s{self.world.next()}", Track(0.0), 0
        name = names[self.below(len(names))]
        side.start(box, side.knowledge.nodes[name], name, SIZES[self.size()], bound=self.below(3) < 2)

    def execute(self) -> None:
        """The server carries a request out."""
        waiting = [box.request for box in self.boxes if box.request is not None and not box.request.executed]
        request = self.pick([*waiting, *self.stray])
        if request is not None:
            self._execute(request)

    def _execute(self, request: Request) -> None:
        if request in self.stray:
            self.stray.remove(request)
            if request.kind == "create" and all(
                box.track.attempt is None or box.track.attempt.attempt_id != request.attempt_id for box in self.boxes
            ):
                request.ghost = True
        self.world.execute(request)
        if request.kind == "create":
            self._settle_strays(request)
        elif request.kind == "delete" and not request.ghost:
            self.side.deleted(request.attempt_id)
            if self.chance(4):
                self.side.deleted(request.attempt_id)

    def _settle_strays(self, answered: Request) -> None:
        """An earlier try of an attempt is not carried out after a later one, except where nobody can know."""
        for request in list(self.stray):
            if request.kind == "create" and request.attempt_id == answered.attempt_id and not request.ghost:
                request.ghost = True
                if not self.chance(8):
                    self.stray.remove(request)

    def refuse(self) -> None:
        """The server refuses a create: for good, or for the moment, perhaps after carrying it out."""
        request = self.pick([box.request for box in self.boxes if box.request is not None and not box.request.executed])
        if request is None:
            return
        how = self.below(4)
        if request.kind == "create" and how < 2:
            request.executed, request.answer = True, REFUSAL
            self._settle_strays(request)
        elif how == 2:
            request.executed, request.answer = True, BUSY
        else:
            self._execute(request)
            request.answer = BUSY

    def answer(self) -> None:
        """An answer arrives, at once or long after it was given."""
        box = self.pick([box for box in self.boxes if box.request is not None and box.request.executed])
        if box is not None and box.request is not None:
            self._answer(box, box.request)

    def answer_again(self) -> None:
        """An old answer is heard once more."""
        facts = self.pick(self.side.answers)
        if facts is not None and all(
            box.attempt is None or box.attempt.attempt_id != facts.attempt_id for box in self.boxes
        ):
            self.side.answer_again(facts)

    def _answer(self, box: Box, request: Request) -> None:
        attempt = box.attempt
        self.side.answer(box, request.answer)
        if attempt is not None and box.attempt is None and isinstance(request.answer, PodFacts):
            self._settled(attempt.attempt_id, request.answer.uid)

    def _settled(self, attempt_id: str, pod_uid: str) -> None:
        """One Pod was taken for the answer: of another one that two tries made, only the stream can tell."""
        for pod in self.world.pods.values():
            if pod.attempt_id == attempt_id and pod.uid != pod_uid:
                pod.expected = False

    def time_out(self) -> None:
        """An answer does not arrive; whether the request was or will be carried out is anybody's guess."""
        box = self.pick([box for box in self.boxes if box.request is not None])
        if box is None or box.request is None:
            return
        if box.request.kind == "create" and not box.request.executed and not self.chance(4):
            self.stray.append(box.request)
        self.side.answer(box, Unreachable("POST", "/pods", TimeoutError()))

    def look(self) -> None:
        """The reconciler looks at a Sandbox: a Pod in the cache answers, else the same create goes out again."""
        box = self.pick([box for box in self.boxes if box.flight is None])
        if box is not None:
            self._look(box)

    def _look(self, box: Box) -> None:
        attempt, shown = box.attempt, self.side.pod_of(box)
        pod = self.side.look(box)
        if attempt is not None and shown is not None:
            self._settled(attempt.attempt_id, shown.uid)
        if pod is None and box.attempt is not None:
            self.side.send(box)
        elif pod is not None and pod.attempt_id is not None:
            box.track.last_number = max(box.track.last_number, int(pod.attempt_id.rpartition(".")[2]))
            if self.chance(2):
                box.stored = box.track.last_number

    # --- the Pod stream ---

    def watch(self) -> None:
        """The next event of the Pod stream."""
        if self.cursor < len(self.world.log):
            facts, deleted = self.world.log[self.cursor]
            self.cursor += 1
            self.side.pod_event(facts, deleted=deleted)

    def watch_on(self) -> None:
        """The stream catches up."""
        while self.cursor < len(self.world.log):
            self.watch()

    def relist(self) -> None:
        """A list takes the place of some events: what came and went in between is never seen."""
        behind = len(self.world.log) - self.cursor
        if not behind:
            return
        end = self.cursor + 1 + self.below(behind)
        present: dict[str, object] = {}
        latest = {}
        for facts, deleted in self.world.log[:end]:
            latest[facts.uid] = facts
            if deleted:
                present.pop(facts.uid, None)
            else:
                present[facts.uid] = facts
        self.cursor = end
        self.side.listed([latest[uid] for uid in present], self.world.log[end - 1][0].resource_version)
