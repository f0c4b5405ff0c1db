"""The adversary's moves. Each one is a method without arguments; what it picks, `below` decides.

So one set of moves serves the plain loop (a seeded random number) and Hypothesis (a drawn and shrinkable one).
A move that is not possible just now does nothing.
"""

from sandberth.core.views import View
from tests.prove.checks import Broken, check, check_rest, check_sums, picture
from tests.prove.creating import Creating
from tests.prove.side import Box
from tests.prove.world import REQUESTS, SIZES, Pod, Request


class Schedule(Creating):
    """All moves, and the invariants."""

    # --- Pods ---

    def delete(self) -> None:
        """The operator deletes the Pod that its cache shows."""
        box = self.pick([box for box in self.boxes if self.side.pod_of(box) is not None and box.flight is None])
        if box is None or box.attempt is not None:
            return
        pod = self.side.look(box)
        if pod is not None and pod.attempt_id is not None:
            self.stray.append(Request("delete", pod.name, pod_uid=pod.uid, attempt_id=pod.attempt_id))

    def bind(self) -> None:
        """kube-scheduler binds a Pod: where it was pinned, or (somebody overrules the pin) anywhere."""
        pod = self.pick(self.world.unbound())
        if pod is not None:
            self.world.bind(pod, self._machine().name if self.chance(4) else pod.node_name)

    def delete_from_outside(self) -> None:
        """Somebody else deletes a Pod."""
        pod = self._any_pod()
        if pod is not None and not pod.deleting:
            self.world.delete(pod)

    def sync(self) -> None:
        """A kubelet acts on what it has been asked."""
        self.world.sync(self._machine())

    def exit(self) -> None:
        """A Pod ends by itself."""
        pod = self._any_pod()
        if pod is not None and not pod.terminal:
            self.world.machines[pod.node_name].running.pop(pod.uid, None)
            pod.phase = "Failed"
            self.world.changed(pod)

    def collect(self) -> None:
        """A Pod that has ended is removed."""
        pod = self.pick([pod for pod in self.world.pods.values() if pod.terminal])
        if pod is not None:
            self.world.remove(pod)

    def force_delete(self) -> None:
        """An object goes, and what it stood for runs on."""
        pod = self._any_pod()
        if pod is not None:
            self.world.remove(pod)

    def zombie_dies(self) -> None:
        machine = self._machine()
        uid = self.pick(self.world.zombies(machine))
        if uid is not None:
            del machine.running[uid]

    def resize(self) -> None:
        """A Pod is resized in place."""
        pod = self._any_pod()
        if pod is not None and not pod.terminal:
            pod.size = SIZES[self.size()]
            self.world.changed(pod)

    def foreigner(self) -> None:
        """A Pod of somebody else is bound, now and then under the name of a Sandbox."""
        name = self.boxes[0].name if self.chance(4) else f"other-{self.world.next()}"
        if name not in self.world.pods:
            self.world.add(name, None, None, self._machine().name, SIZES[self.size()], expected=False)

    # --- reports ---

    def snapshot(self) -> None:
        """A node takes its snapshot; it arrives when it arrives."""
        machine = self._machine()
        if machine.present:
            self.world.mail.append(self.world.snapshot(machine, complete=not self.chance(6)))

    def report(self) -> None:
        """Some report arrives, in any order, perhaps again later."""
        mail = self.world.mail
        if not mail:
            return
        index = self.below(len(mail))
        letter = mail[index] if self.chance(4) else mail.pop(index)
        known = self.side.knowledge
        newest = known.newest.get(letter.report.node_uid)
        if newest and letter.order[0] < newest[0][0] and letter.report.history not in known.histories:
            return  # the store of NodeCapacities drops what comes of an object after its successor
        if not self.side.report(letter, self.boxes):
            raise Broken("I5", f"{letter.report} was taken or dropped wrongly")

    def lose_report(self) -> None:
        if self.world.mail:
            self.world.mail.pop(self.below(len(self.world.mail)))

    def restart_reporter(self) -> None:
        self.world.restart_reporter(self._machine())

    def new_capacity(self) -> None:
        """A NodeCapacity is deleted and made anew."""
        self.world.new_history(self._machine())

    # --- nodes ---

    def node_goes(self) -> None:
        machine = self._machine()
        if machine.present:
            self.world.node_goes(machine)

    def node_returns(self) -> None:
        machine = self.pick([machine for machine in self.world.machines.values() if not machine.present])
        if machine is not None:
            self.world.node_returns(machine, wiped=self.chance(2))

    def node_news(self) -> None:
        """The operator hears of a Node; a removal may be overtaken by the return."""
        news = self.world.node_news
        if news:
            name, uid = news.pop(0)
            if uid is None and news and news[0][0] == name and self.chance(2):
                name, uid = news.pop(0)
            self.side.node_is(name, uid)

    def collect_orphans(self) -> None:
        """The Pods of a node that is gone are removed."""
        for pod in list(self.world.pods.values()):
            if not self.world.machines[pod.node_name].present:
                self.world.remove(pod)

    # --- the operator itself ---

    def restart(self) -> None:
        """The operator starts anew (I9): from lists alone, nothing under way is remembered."""
        old, self.side = self.side, self.side_type()
        self.restarts += 1
        for box in self.boxes:
            if box.request is not None and box.request.kind == "create" and not box.request.executed:
                self.stray.append(box.request)
        for request in self.stray:
            request.ghost = True
        old.stop(self.boxes)
        self._first_lists()
        newest = {uid: order for uid, (order, _) in old.knowledge.newest.items()}
        for letter in list(self.world.mail):
            if letter.order[0] < newest.get(letter.report.node_uid, (0, 0, 0))[0]:
                self.world.mail.remove(letter)
        for order, report in old.knowledge.newest.values():
            if self.side.knowledge.is_news(order, report):
                self.side.ledger.accept_report(report, self.side.now_s)
                self.side.knowledge.reported(order, report, self.side.held(self.boxes))

    def flip(self) -> None:
        """The flags change, and every view is read (I8)."""
        before = picture(self.side.ledger)
        for account in self.side.ledger.accounts():
            for view in View:
                account.accounted(view, self.side.now_s)
        if picture(self.side.ledger) != before:
            raise Broken("I8", "a view changed the ledger")

    def round_trip(self) -> None:
        """An attempt comes and goes between two reports: no sum is left changed (I6)."""
        side = self.side
        name = self.pick(list(side.knowledge.nodes))
        if name is None:
            return
        account = side.ledger.account(side.knowledge.nodes[name])
        before = [account.held, account.reconciled, account.delta_cpu, account.delta_memory, account.in_progress]
        size = SIZES[self.size()]
        attempt_id = f"t{self.world.next()}.1"
        side.ledger.reserve(attempt_id, account.node_uid, size, REQUESTS[size])
        ours = Pod(f"pod-of-{attempt_id}", attempt_id, attempt_id, attempt_id, name, size, 1 << 60, expected=True)
        side.pod_event_of_a_trip(ours.facts(), self.below(3))
        after = [account.held, account.reconciled, account.delta_cpu, account.delta_memory, account.in_progress]
        if before != after:
            raise Broken("I6", f"{name} was {before} and is {after}")
        account.tombstones.pop(attempt_id, None)

    # --- all together ---

    def check(self) -> None:
        check(self.world, self.side, self.boxes)

    def check_sums(self) -> None:
        check_sums(self.side)

    def come_to_rest(self) -> None:
        """Let everything under way arrive, end every zombie or have it told often enough, and look once more (I7)."""
        self._finish_creates()
        self._finish_nodes()
        self.watch_on()
        while self.world.mail and self.chance(4):
            self.report()
        self.world.mail.clear()
        self.check()
        with_zombies = self.world.kubelet_reports and self.chance(2)
        for machine in self.world.machines.values():
            for uid in self.world.zombies(machine):
                if not with_zombies or not self.world.can_be_told(machine.running[uid][0]):
                    del machine.running[uid]
            for _ in range(4):
                if not self.side.report(self.world.snapshot(machine), self.boxes):
                    raise Broken("I5", "a fresh report was not taken")
                self.check()
        check_rest(self.world, self.side)

    def _finish_creates(self) -> None:
        for request in list(self.stray):
            self._execute(request)
        for _ in range(1_000):
            busy = [box for box in self.boxes if box.attempt is not None]
            if not busy:
                return
            self._finish_one(busy[0])
            self.check()
        raise Broken("I7", "a create is never answered")

    def _finish_nodes(self) -> None:
        while self.world.node_news:
            self.node_news()
        for machine in self.world.machines.values():
            if not machine.present:
                self.world.node_returns(machine, wiped=True)
                self.node_news()
        for pod in self.world.unbound():
            self.world.bind(pod, pod.node_name)
        for machine in self.world.machines.values():
            self.world.sync(machine)

    def _finish_one(self, box: Box) -> None:
        if box.request is None:
            self._look(box)
        elif not box.request.executed:
            self._execute(box.request)
        else:
            self._answer(box, box.request)


WEIGHTS: dict[str, int] = {
    "start": 12,
    "execute": 14,
    "refuse": 2,
    "answer": 12,
    "answer_again": 2,
    "time_out": 4,
    "look": 8,
    "watch": 16,
    "watch_on": 2,
    "relist": 3,
    "bind": 6,
    "delete": 5,
    "delete_from_outside": 2,
    "sync": 8,
    "exit": 3,
    "collect": 3,
    "force_delete": 2,
    "zombie_dies": 2,
    "resize": 2,
    "foreigner": 2,
    "snapshot": 9,
    "report": 9,
    "lose_report": 1,
    "restart_reporter": 1,
    "new_capacity": 1,
    "node_goes": 1,
    "node_returns": 1,
    "node_news": 2,
    "collect_orphans": 1,
    "restart": 1,
    "flip": 1,
    "round_trip": 1,
}
