"""Nine wrong rules, and one of the way through kube-scheduler: `python -m tests.prove.mutants` shows what catches each.

A wrong rule is a subclass; no file is changed. It counts as killed where a named case of `make test` fails because of
it; beside that stands after how many schedules the adversary found it, and by which invariant.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sandberth.core.ledger import Ledger, PodHolding
from sandberth.core.report import Report
from sandberth.kube.pods import PodFacts
from tests.prove import cases
from tests.prove.prove import first_fault
from tests.prove.side import Box, Side
from tests.unit.ledger import books
from tests.unit.ledger import test_ledger_pods as pods
from tests.unit.ledger import test_ledger_reports as reports

SCHEDULES = 5_000
Case = Callable[[type[Side]], None]


class AbsenceFrees(Ledger):
    def accept_report(self, report: Report, now_s: float) -> bool:
        taken = super().accept_report(report, now_s)
        if taken and report.complete:
            for holding in list(self.account(report.node_uid).holdings.values()):
                if holding.attempt_id and holding.pod_uid and holding.attempt_id not in report.sandboxes:
                    self._end(holding)
        return taken


class NoTombstones(Ledger):
    def _bury(self, attempt_id: str, node_name: str, pod_uid: str | None) -> None:
        pass


class HastyTombstones(Ledger):
    def accept_report(self, report: Report, now_s: float) -> bool:
        taken = super().accept_report(report, now_s)
        if taken and report.complete:
            tombstones = self.account(report.node_uid).tombstones
            for attempt_id in [key for key in tombstones if key not in report.sandboxes]:
                del tombstones[attempt_id]
        return taken


class LateAnswerAddsAgain(Ledger):
    def create_answered(self, pod: PodHolding, resource_version: int) -> None:
        if pod.pod_uid not in self._pods and pod.attempt_id not in self._attempts:
            self.pod_observed(pod)
        else:
            super().create_answered(pod, resource_version)


class AnyReport(Ledger):
    def accept_report(self, report: Report, now_s: float) -> bool:
        account = self._accounts.get(report.node_uid)
        if account is not None:
            account.report = None
            account.retired_histories.clear()
        return super().accept_report(report, now_s)


class DeleteFrees(Ledger):
    def delete_answered(self, attempt_id: str) -> None:
        super().delete_answered(attempt_id)
        holding = self._attempts.get(attempt_id)
        if holding is not None:
            self._end(holding)


class TimeoutFrees(Side):
    def unanswered(self, box: Box) -> None:
        assert box.attempt is not None
        self.ledger.release(box.attempt.attempt_id)


class TimeoutBeginsAnew(Side):
    def unanswered(self, box: Box) -> None:
        assert box.attempt is not None
        box.track.last_number, box.track.attempt = box.attempt.number, None


class NoRebuild(Side):
    def take_list(self, items: list[PodFacts], version: int) -> None:
        if self.pods.resource_version:
            super().take_list(items, version)
        else:
            self.pods.bookmark(version)


class UnboundIsFree(Side):
    def _pod_changed(self, old: PodFacts | None, new: PodFacts | None) -> None:
        if new is None or new.bound:
            super()._pod_changed(old, new)
        else:
            self._index(new, present=True)
            self.ledger.pods_passed(self.pods.resource_version)


@dataclass(frozen=True)
class Mutant:
    """A wrong rule, and the named cases that fail because of it."""

    name: str
    wrong: type[Ledger] | type[Side]
    cases: tuple[Callable[..., None], ...]

    @property
    def side_type(self) -> type[Side]:
        if issubclass(self.wrong, Side):
            return self.wrong
        return type("MutantSide", (Side,), {"ledger_type": self.wrong})

    def killed_by_case(self) -> str:
        """Return the first named case that fails, "" if none does."""
        for case in self.cases:
            try:
                self._run(case)
            except Exception:  # noqa: BLE001 - whatever fails, the case has caught it
                return getattr(case, "__name__", "") or getattr(case, "func").__name__  # noqa: B009 - a partial
        return ""

    def _run(self, case: Callable[..., None]) -> None:
        if issubclass(self.wrong, Side):
            cases.run_case(case, self.wrong)
            return
        ledger = self.wrong()
        ledger.node_appeared(books.NODE, "node-a")
        ledger.node_appeared(books.OTHER, "node-b")
        case(ledger)


LEDGER = (
    Mutant(
        "report absence frees an attempt whose Pod is present",
        AbsenceFrees,
        (reports.test_case_1_a_report_from_before_the_create_does_not_lose_the_attempt,),
    ),
    Mutant("room freed on a create timeout", TimeoutFrees, (cases.a_create_that_times_out_keeps_its_room,)),
    Mutant(
        "a new attempt before the last outcome is known",
        TimeoutBeginsAnew,
        (cases.no_attempt_begins_while_the_last_one_is_open,),
    ),
    Mutant(
        "no tombstones",
        NoTombstones,
        (pods.test_a_terminal_pod_at_first_sight_holds_nothing_and_cannot_come_back_by_a_report,),
    ),
    Mutant(
        "tombstone dropped too early", HastyTombstones, (reports.test_a_tombstone_outlives_one_absence_and_not_two,)
    ),
    Mutant(
        "re-add on a late answer",
        LateAnswerAddsAgain,
        (
            pods.test_an_answer_after_the_end_moves_no_sum_when_the_tombstone_has_gone,
            pods.test_a_late_answer_repeated_after_the_end_does_not_add_again,
        ),
    ),
    Mutant(
        "out-of-order or foreign-history reports accepted",
        AnyReport,
        (
            partial(reports.test_a_report_that_is_not_newer_is_dropped, epoch=1, sequence=99),
            reports.test_a_new_object_is_a_new_history_and_the_old_one_is_retired,
        ),
    ),
    Mutant(
        "room given back at the delete's answer",
        DeleteFrees,
        (reports.test_every_add_has_its_remove_without_a_report_in_between,),
    ),
    Mutant("restart without rebuild", NoRebuild, (cases.a_restart_finds_every_pod,)),
)
SCHEDULER = (
    Mutant(
        "a Pod that is not bound yet holds no room",
        UnboundIsFree,
        (cases.an_unbound_pod_keeps_its_room_over_a_restart,),
    ),
)
MUTANTS = LEDGER + SCHEDULER


def show(mutants: tuple[Mutant, ...]) -> int:
    """Print what catches each; return how many nothing catches."""
    killed = 0
    print(f"| wrong rule | named case of `make test` | found by schedules |\n|{'---|' * 3}")
    for mutant in mutants:
        case = mutant.killed_by_case()
        schedules, _, seed, text = first_fault(range(SCHEDULES), mutant.side_type)
        found = (
            f"{text.split(':')[1].strip() if text.startswith('Broken') else text}, schedule {schedules}"
            if seed >= 0
            else "-"
        )
        killed += bool(case)
        print(f"| {mutant.name} | {case.removeprefix('test_') or 'NONE'} | {found} |", flush=True)
    print(f"{killed} of {len(mutants)} killed")
    return len(mutants) - killed


def main() -> int:
    print("On the way through kube-scheduler:")
    left = show(SCHEDULER)
    print("\nIn the ledger:")
    return int(left + show(LEDGER) > 0)


if __name__ == "__main__":
    sys.exit(main())
