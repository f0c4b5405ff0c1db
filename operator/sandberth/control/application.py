"""The operator: its parts, how a change in one stream reaches the others, and the order of its start and its end.

What reads runs in every replica, so a standby knows what the leader knows; what writes begins with leadership.
"""

import asyncio
import logging
from collections.abc import Callable
from random import Random

from sandberth.control import shell
from sandberth.control.api import Api
from sandberth.control.capacities import VIEW_INTERVAL_SECONDS, Capacities, report_of
from sandberth.control.creating import holding_of
from sandberth.control.election import Election
from sandberth.control.flag_source import FlagSource
from sandberth.control.healing import Healing
from sandberth.control.leadership import Leadership
from sandberth.control.lease import Timing
from sandberth.control.metrics import Metrics
from sandberth.control.reconciler import Reconciler
from sandberth.control.review import Review
from sandberth.control.server import Server
from sandberth.control.settings import Settings
from sandberth.control.state import State
from sandberth.control.status import utc
from sandberth.control.streams import SandboxSeen
from sandberth.core.errors import SandberthError
from sandberth.core.node import NodeSettings
from sandberth.kube.client import Client
from sandberth.kube.informer import Informer
from sandberth.kube.kubeconfig import ClusterAccess
from sandberth.kube.names import PlacedReason
from sandberth.kube.nodecapacity import NodeCapacity
from sandberth.kube.nodes import Node, node_facts
from sandberth.kube.paths import pod_path
from sandberth.kube.pods import PodFacts, decode_pod

LOG = logging.getLogger(__name__)
_CAPACITY_WORKERS = 8
_SILENCE_LIMIT_SECONDS = 300.0
_MISSED_LIMIT = 3
_FINISH_SECONDS = 1.0
_RELEASE_SECONDS = 1.0


class Operator:
    """Everything that runs in one operator process.

    `client` must ask `leadership` before every write; the Lease itself is read and written through `lease_client`.
    """

    def __init__(
        self,
        settings: Settings,
        access: ClusterAccess,
        client: Client,
        *,
        leadership: Leadership,
        lease_client: Client,
        on_kopf_started: Callable[[], None] = lambda: None,
    ) -> None:
        metrics = Metrics()
        self.settings = settings
        self.leadership = leadership
        self.state = State(settings, Api(client, metrics), metrics, rng=Random(settings.seed))
        self.reconciler = Reconciler(self.state, Review(self.state))
        self.capacities = Capacities(self.state)
        self.flags = FlagSource(self.state, self._wake_waiting)
        self.healing = Healing(self.state, self.flags)
        self.election: Election | None = None
        if leadership.is_elected:
            timing = Timing(settings.lease_duration_seconds)
            self.election = Election(lease_client, settings.namespace, leadership, timing, metrics)
        streams = self.state.streams
        self.pods: Informer[PodFacts] = Informer(client, pod_path(), streams.pods, decode_pod)
        self.server = Server(
            metrics.registry, alive=self._what_is_dead, ready=self._what_is_missing, refresh=self._refresh_metrics
        )
        self._access = access
        self._on_kopf_started = on_kopf_started
        self._is_synced = False
        self._works = False
        self._work: list[asyncio.Task[None]] = []
        streams.nodes.subscribe(self._node_changed)
        streams.capacities.subscribe(self._capacity_changed)
        streams.pods.subscribe(self._pod_changed)
        streams.sandboxes.subscribe(self._sandbox_changed)

    async def run(self) -> None:
        """Serve until cancelled. Raises where a part ends that must not: the process is then to be started again."""
        await self.server.start(self.settings.metrics_host, self.settings.metrics_port)
        LOG.info("Probes and metrics on port %d.", self.server.port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.pods.run(), name="pods")
                await self.healing.read_all()
                await self.pods.synced()
                self._is_synced = True
                LOG.info(
                    "Ready: %d nodes, %d Sandboxes, %d Pods known.",
                    len(self.state.fleet.nodes),
                    len(self.state.streams.sandboxes),
                    len(self.state.streams.pods),
                )
                group.create_task(self.healing.run(), name="healing")
                group.create_task(self._run_kopf(), name="kopf")
                if self.election is not None:
                    group.create_task(self.election.run(), name="election")
                    await self.leadership.begun()
                    await self._catch_up()
                self._begin_work(group)
        finally:
            await self.server.stop()

    async def step_down(self) -> None:
        """Finish what is under way, let nothing be written from then on, and give the Lease up: two seconds at most."""
        self.reconciler.queue.close()
        self.capacities.queue.close()
        unfinished = [task for task in self._work if not task.done()]
        if unfinished:
            await asyncio.wait(unfinished, timeout=_FINISH_SECONDS)
        self.leadership.end()
        if self.election is None:
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self.election.release()
        except TimeoutError:
            LOG.warning("The Lease was not given up in time, so others wait until it expires.")

    async def _catch_up(self) -> None:
        """Return when everything stored before this process became the leader has been taken in.

        The leader before may have created and deleted what our streams have not brought yet.
        """
        began_s = self.state.now_s()
        self.state.streams.doubt_sandboxes()
        await self.healing.patiently(self.pods.catch_up, "pods")
        await self.healing.read_all()
        self.state.metrics.takeover_seconds.set(self.state.now_s() - began_s)

    def _begin_work(self, group: asyncio.TaskGroup) -> None:
        self._works = True
        self._enqueue_everything()
        LOG.info("At work.")
        self._work = [
            group.create_task(self.reconciler.queue.run(self.settings.concurrency), name="sandboxes"),
            group.create_task(self.capacities.queue.run(_CAPACITY_WORKERS), name="nodecapacities"),
        ]
        group.create_task(self._write_views(), name="views")

    async def _run_kopf(self) -> None:
        await shell.run(self.state.streams, self.flags, self._access, self.settings, self._on_kopf_started)
        raise SandberthError("kopf ended; the process is to be started again")

    # --- what a change in one stream means for the others ---

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        fleet = self.state.fleet
        if new is None:
            if old is not None:
                fleet.forget_node(old.metadata.uid)
                self._enqueue_pods_on(old.metadata.name)
            return
        facts = node_facts(new)
        known = fleet.nodes.get(facts.uid)
        was_ready = known is not None and known.facts.ready
        if not fleet.observe_node(facts):
            return
        if known is None:
            self._apply_capacity(self.state.streams.capacities.by_name("", facts.name))
            self._enqueue_capacity(facts.name)
        if known is None or was_ready != facts.ready:
            self._enqueue_pods_on(facts.name)
        self._wake_waiting()

    def _capacity_changed(self, old: NodeCapacity | None, new: NodeCapacity | None) -> None:
        capacity = new or old
        if capacity is None:
            return
        node = self.state.fleet.by_name(capacity.name)
        if node is not None and (new is None or new.owner_node_uid != node.facts.uid):
            self._enqueue_capacity(capacity.name)
        if new is not None:
            self._apply_capacity(new)

    def _apply_capacity(self, capacity: NodeCapacity | None) -> None:
        """Give a node its administrator's settings and its newest report."""
        if capacity is None:
            return
        fleet = self.state.fleet
        node = fleet.by_name(capacity.name)
        if node is None or capacity.owner_node_uid != node.facts.uid:
            return
        spec = capacity.spec
        settings = NodeSettings(spec.overcommit_percent, spec.max_sandboxes, spec.max_starting, spec.unschedulable)
        if fleet.set_settings(node.facts.uid, settings):
            self._wake_waiting()
        report, last = capacity.status.report, node.account.report
        if report is None or (last is not None and (last.history, last.version) == (capacity.uid, report.version)):
            return
        if report.node_uid != node.facts.uid:
            self.state.metrics.reports.labels("other-node").inc()
            return
        try:
            taken = fleet.accept_report(report_of(capacity.uid, report), self.state.now_s())
        except ValueError as error:
            LOG.warning("The report of node %s cannot be read: %s", capacity.name, error)
            self.state.metrics.reports.labels("unreadable").inc()
            return
        self.state.metrics.reports.labels("taken" if taken else "outdated").inc()

    def _pod_changed(self, old: PodFacts | None, new: PodFacts | None) -> None:
        pod = new or old
        if pod is None:
            return
        if old is not None and old.owner_uid is not None and pod.owner_uid != old.owner_uid:
            # `kubectl delete --cascade=orphan` sets a Pod free: from here it is one of somebody else's.
            self._index(old, present=False)
            self.state.ledger.pod_ended(old.uid, old.attempt_id, old.node_name)
            if self._works:
                self.reconciler.queue.add(old.owner_uid)
        if pod.owner_uid is not None:
            self._index(pod, present=new is not None)
        ended = new is None or new.terminal
        if ended:
            self.state.ledger.pod_ended(pod.uid, pod.attempt_id, pod.node_name)
        elif pod.node_name:
            self.state.ledger.pod_observed(holding_of(pod))
        self.state.ledger.pods_passed(self.state.streams.pods.resource_version)
        if not self._works:
            return
        if pod.owner_uid is not None and pod.owner_uid != self.state.quiet:
            self.reconciler.queue.add(pod.owner_uid)
        if new is None:
            self._name_is_free(pod)
        if ended and (old is None or not old.terminal):
            self._wake_waiting()
            self.reconciler.placer.quota.room(pod.namespace)
        elif self._frees(old, new):
            self._wake_waiting()

    def _frees(self, old: PodFacts | None, new: PodFacts | None) -> bool:
        """Return whether a Pod that lives on leaves room: resized, bound elsewhere, or not starting any more."""
        if old is None or new is None:
            return False
        return (old.requests, old.node_name) != (new.requests, new.node_name) or (
            old.phase == "Pending" != new.phase and self.state.flags.best_of_k_too_many_starting
        )

    def _sandbox_changed(self, old: SandboxSeen | None, new: SandboxSeen | None) -> None:
        seen = new or old
        if seen is not None and self._works and seen.uid != self.state.quiet:
            self.reconciler.queue.add(seen.uid)

    def _index(self, pod: PodFacts, *, present: bool) -> None:
        owner = pod.owner_uid
        if owner is None:
            return
        if present:
            self.state.pods_of.setdefault(owner, set()).add(pod.uid)
            return
        siblings = self.state.pods_of.get(owner)
        if siblings is not None:
            siblings.discard(pod.uid)
            if not siblings:
                del self.state.pods_of[owner]

    def _name_is_free(self, pod: PodFacts) -> None:
        seen = self.state.streams.sandboxes.by_name(pod.namespace, pod.name)
        if seen is not None:
            self.reconciler.placer.cause_is_gone(seen.uid, PlacedReason.POD_NAME_TAKEN)

    def _enqueue_everything(self) -> None:
        for seen in self.state.streams.sandboxes:
            self.reconciler.queue.add(seen.uid)
        for uid in self.state.pods_of:  # also Pods whose Sandbox went while nobody watched
            self.reconciler.queue.add(uid)
        for node in self.state.fleet.nodes.values():
            self.capacities.queue.add(node.facts.name)

    def _enqueue_capacity(self, node_name: str) -> None:
        if self._works:
            self.capacities.queue.add(node_name)

    def _enqueue_pods_on(self, node_name: str) -> None:
        if not self._works:
            return
        for pod in self.state.streams.pods:
            if pod.owner_uid is not None and pod.node_name == node_name:
                self.reconciler.queue.add(pod.owner_uid)

    def _wake_waiting(self) -> None:
        """Have the waiting Sandboxes tried again, once for all the changes of a moment."""
        if self._works:
            self.reconciler.placer.waiting.wake_soon()

    # --- the operator's view of each node ---

    async def _write_views(self) -> None:
        """Look at each node once in ten seconds, spread evenly, and write the views that changed."""
        slices = int(VIEW_INTERVAL_SECONDS)
        turn = 0
        while True:
            await asyncio.sleep(VIEW_INTERVAL_SECONDS / slices)
            await self.flags.post_events()
            now = utc(self.state.wall_s())
            for index, node in enumerate(list(self.state.fleet.nodes.values())):
                if index % slices == turn:
                    try:
                        await self.capacities.write_view(node, now)
                    except SandberthError as error:
                        LOG.info("The view of node %s was not written: %s", node.facts.name, error)
            turn = (turn + 1) % slices

    # --- probes and metrics ---

    def _what_is_missing(self) -> str | None:
        if not self._is_synced:
            return self.healing.obstacle or "the first lists are not complete"
        if self.election is not None and self.election.trouble is not None:
            return self.election.trouble
        return self.healing.access.trouble()

    def _what_is_dead(self) -> str | None:
        silence = self.pods.seconds_since_activity()
        if silence > _SILENCE_LIMIT_SECONDS:
            return f"the Pod stream has been silent for {silence:.0f} s"
        if self.healing.missed_in_a_row() >= _MISSED_LIMIT:
            return "a stream of kopf has missed changes several times in a row"
        return None

    def _refresh_metrics(self) -> None:
        state, metrics = self.state, self.state.metrics
        streams = state.streams
        for name, store in (
            ("pods", streams.pods),
            ("sandboxes", streams.sandboxes),
            ("nodes", streams.nodes),
            ("nodecapacities", streams.capacities),
        ):
            metrics.listener_errors.labels(name).set(store.listener_errors)
        metrics.leader.set(self.leadership.holds)
        metrics.sandboxes.set(len(state.streams.sandboxes))
        metrics.waiting.set(len(self.reconciler.placer.waiting))
        metrics.queue_length.set(len(self.reconciler.queue))
        metrics.in_progress.set(sum(account.in_progress for account in state.ledger.accounts()))
        metrics.zombies.set(sum(account.zombies for account in state.ledger.accounts()))
        metrics.nodes.labels("fresh").set(len(state.fleet.fresh))
        metrics.nodes.labels("second-choice").set(len(state.fleet.second_choice))
        metrics.nodes.labels("barred").set(sum(state.fleet.barred.values()))
