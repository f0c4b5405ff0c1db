"""The life of every sandbox: asked for, placed, created, perhaps ended by itself, deleted, and seen to be gone.

A create is registered by its node at 0.9 of its latency and answered at 1.0, so that a report can overtake the answer.
A delete takes effect at 0.9 of its latency. With a watch on Pods the operator learns what happened some time later;
without, it learns of ends by the answers to its deletes, and by a read that a report without the sandbox prompts.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from sandberth.core.fit import Ask
from sandberth.core.ledger import PodHolding
from sandberth.core.resources import Requests, Resources
from sandberth.sim.distributions import Distribution
from sandberth.sim.node import GIB, Attempt, TrueNode
from sandberth.sim.replica import Replica
from sandberth.sim.workload import Request, requests
from sandberth.sim.world import World

RETRY_US = 100_000
NOWHERE: frozenset[str] = frozenset()
Wish = tuple[Request, int, frozenset[str]]  # number of the attempt, nodes not to try


class Lifecycle:
    """Moves sandboxes through one run."""

    def __init__(self, world: World) -> None:
        self._world, self._clock, self._tally = world, world.clock, world.tally
        self._settings = world.settings
        self._watch: Distribution | None = world.settings.exit_watch_delay
        self._watch_delays = world.stream("watch delays")
        self._share_delays = world.stream("share delays")
        self._requests = requests(world.settings, world.run)
        self._asks: dict[int, Ask] = {}
        self._waiting: deque[Wish] = deque()

    def start(self) -> None:
        """Let the first sandbox be asked for."""
        self._next_request()

    # --- placing ---

    def _next_request(self) -> None:
        if (request := next(self._requests, None)) is not None:
            self._clock.at(request.at_us, self._asked, request)

    def _asked(self, request: Request) -> None:
        self._next_request()
        self._tally.asked += 1
        self._place((request, 1, NOWHERE))

    def _place(self, wish: Wish) -> None:
        if not self._try(wish):
            self._tally.refused += 1
            if not self._waiting:
                self._clock.after(RETRY_US, self._try_waiting)
            self._waiting.append(wish)
            self._tally.waiting += 1

    def _try_waiting(self, _now: None) -> None:
        """Try those that wait, oldest first; what is as large as one that found no room finds none either."""
        smallest_refused: int | None = None
        for _ in range(len(self._waiting)):
            request, number, _excluded = self._waiting.popleft()
            size = request.cpu_millicores
            is_hopeless = smallest_refused is not None and size >= smallest_refused
            if not is_hopeless and self._try((request, number, NOWHERE)):
                self._tally.waiting -= 1
                continue
            smallest_refused = size if smallest_refused is None else min(size, smallest_refused)
            self._waiting.append((request, number, NOWHERE))
        if self._waiting:
            self._clock.after(RETRY_US, self._try_waiting)

    def _try(self, wish: Wish) -> bool:
        request, number, excluded = wish
        world = self._world
        owner = request.number % len(world.replicas)
        attempt_id = f"{request.number}.{number}"
        ask = self._ask(request.cpu_millicores)
        index = world.replicas[owner].choose(attempt_id, ask, excluded, self._clock.now_s)
        if index is None:
            return False
        node = world.nodes[index]
        pod = PodHolding(
            f"pod {attempt_id}", attempt_id, node.name, ask.nominal, ask.requests_at(self._settings.overcommit)
        )
        attempt = Attempt(attempt_id, number, request, owner, node, node.uid, pod)
        node.assigned[attempt_id] = attempt
        node.need_cpu += request.cpu_millicores
        self._tally.starting += 1
        self._clock.after(request.create_us * 9 // 10, self._registered, attempt)
        self._clock.after(request.create_us, self._create_answered, attempt)
        attempt.answer_us = self._clock.now_us + request.create_us
        if self._settings.share_delay is not None:
            for other in world.replicas:
                if other is not world.replicas[owner]:
                    delay_us = self._settings.share_delay.draw(self._share_delays)
                    self._clock.after(delay_us, self._shared, (attempt, other))
        world.compare(node)
        return True

    def _ask(self, cpu_millicores: int) -> Ask:
        ask = self._asks.get(cpu_millicores)
        if ask is None:
            nominal = Resources(cpu_millicores, GIB)
            ask = self._asks[cpu_millicores] = Ask(nominal, Requests(cpu_millicores, GIB), divides_cpu=True)
        return ask

    def _place_again(self, attempt: Attempt, excluded: frozenset[str] = NOWHERE) -> None:
        self._tally.starting -= 1
        if attempt.deleting:
            self._tally.ended += 1
        else:
            self._place((attempt.request, attempt.number + 1, excluded))

    # --- what happens on the node ---

    def _registered(self, attempt: Attempt) -> None:
        node, request = attempt.node, attempt.request
        if attempt.lost:
            return
        if not node.is_up:
            self.lose(attempt)
            return
        if not node.has_room(request.cpu_millicores):
            attempt.over = attempt.refused = True
            self._leave(attempt)
            if self._watch is not None:
                self._see_later(attempt, self._end_seen)
            return
        self._tally.starting -= 1
        attempt.present = True
        node.present[attempt.attempt_id] = attempt.pod.nominal
        node.sandbox_cpu += request.cpu_millicores
        if self._watch is not None:
            self._see_later(attempt, self._running_seen)
        if request.lifetime_us is not None:
            self._clock.after(request.lifetime_us, self._delete, attempt)
        if request.exit_us is not None:
            self._clock.after(request.exit_us, self._ended, attempt)

    def _ended(self, attempt: Attempt) -> None:
        if not attempt.present:
            return
        attempt.present, attempt.over = False, True
        node = attempt.node
        del node.present[attempt.attempt_id]
        node.sandbox_cpu -= attempt.request.cpu_millicores
        self._leave(attempt)
        self._tally.ended += 1
        if self._watch is not None:
            self._see_later(attempt, self._end_seen)
        else:
            node.unseen_ends[attempt.attempt_id] = attempt

    def _leave(self, attempt: Attempt) -> None:
        node = attempt.node
        del node.assigned[attempt.attempt_id]
        node.need_cpu -= attempt.request.cpu_millicores
        self._world.compare(node)

    # --- what the operator learns and does ---

    def _create_answered(self, attempt: Attempt) -> None:
        attempt.answered = True
        owner = self._world.replicas[attempt.owner]
        owner.ledger.create_answered(attempt.pod, 1)
        if attempt.orphaned or (attempt.refused and self._watch is None):
            self._end_seen(attempt)
        elif self._watch is None:
            owner.pod_seen(attempt)  # the answer itself says that it runs
        self._world.compare(attempt.node)

    def _shared(self, sight: tuple[Attempt, Replica]) -> None:
        attempt, other = sight
        if not attempt.end_seen and not attempt.running_seen:
            other.ledger.pod_observed(replace(attempt.pod, starting=True))
            self._world.compare(attempt.node)

    def _running_seen(self, attempt: Attempt) -> None:
        if not attempt.end_seen:
            attempt.running_seen = True
            for replica in self._watchers(attempt):
                replica.pod_seen(attempt)
            if len(self._world.replicas) > 1:
                self._world.compare(attempt.node)

    def _end_seen(self, attempt: Attempt) -> None:
        if attempt.end_seen:
            return
        self.forget(attempt)
        self._world.compare(attempt.node)
        if attempt.refused:
            self._place_again(attempt, frozenset({attempt.node_uid}))
        elif attempt.lost:
            self._place_again(attempt)

    def forget(self, attempt: Attempt) -> None:
        """Let every replica that would know see that the attempt's Pod has ended."""
        attempt.end_seen = True
        attempt.node.unseen_ends.pop(attempt.attempt_id, None)
        for replica in self._watchers(attempt):
            replica.pod_ended(attempt)

    def listing_arrived(self, node: TrueNode, listed: object) -> None:
        """Without a watch: read the Pods that ended and that the report does not list; a read settles it."""
        ids = listed if isinstance(listed, dict) else {}
        for attempt in [a for a in node.unseen_ends.values() if a.answered and a.attempt_id not in ids]:
            self._end_seen(attempt)

    def _delete(self, attempt: Attempt) -> None:
        if not attempt.answered:
            self._clock.at(attempt.answer_us, self._delete, attempt)
            return
        attempt.deleting = True
        if attempt.lost or attempt.end_seen:
            return
        self._clock.after(attempt.request.delete_us * 9 // 10, self._ended, attempt)
        self._clock.after(attempt.request.delete_us, self._delete_answered, attempt)

    def _delete_answered(self, attempt: Attempt) -> None:
        if attempt.end_seen or attempt.lost:
            return
        self._world.replicas[attempt.owner].ledger.delete_answered(attempt.attempt_id)
        if self._watch is None:
            self._end_seen(attempt)
        self._world.compare(attempt.node)

    def lose(self, attempt: Attempt) -> None:
        """The attempt ends with its node, and nobody knows yet."""
        self._tally.failed += 1
        self._tally.starting += attempt.present
        attempt.present, attempt.over, attempt.lost = False, True, True

    def node_lost(self, attempts: list[Attempt]) -> None:
        """The operator sees that a node is gone: what ran there is placed again, once its create was answered."""
        for attempt in attempts:
            if not attempt.lost:
                self.lose(attempt)
            if attempt.answered:
                self._end_seen(attempt)
            else:
                attempt.orphaned = True

    def _watchers(self, attempt: Attempt) -> list[Replica]:
        replicas = self._world.replicas
        if len(replicas) == 1 or self._settings.share_delay is not None:
            return replicas
        return [replicas[attempt.owner]]

    def _see_later(self, attempt: Attempt, see: Callable[[Attempt], None]) -> None:
        """Let the watch show it, in the order in which things happened to the Pod."""
        assert self._watch is not None  # noqa: S101
        at_us = max(self._clock.now_us + self._watch.draw(self._watch_delays), attempt.shown_at_us)
        attempt.shown_at_us = at_us
        self._clock.at(at_us, see, attempt)
