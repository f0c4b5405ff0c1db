"""Named schedules of a few moves: the rules of the operator that no ledger alone can break."""

from collections.abc import Callable

from tests.prove.rules import Schedule
from tests.prove.side import Side, facts_as_answers


def _begun(side_type: type[Side]) -> Schedule:
    """Return a schedule with one node, two Sandboxes, and a create on its way."""
    schedule = Schedule(lambda _: 0, side_type=side_type)
    schedule.start()
    schedule.check()
    return schedule


def a_create_that_times_out_keeps_its_room(side_type: type[Side]) -> None:
    """The request is carried out only after nobody waits for it any more."""
    schedule = _begun(side_type)
    request = schedule.boxes[0].request
    assert request is not None
    schedule.below = lambda count: count - 1
    schedule.time_out()
    schedule.check()
    schedule.execute()
    schedule.check()


def no_attempt_begins_while_the_last_one_is_open(side_type: type[Side]) -> None:
    """After a time-out the same attempt is under way, and it alone."""
    schedule = _begun(side_type)
    attempt = schedule.boxes[0].attempt
    schedule.time_out()
    assert schedule.boxes[0].attempt is attempt
    schedule.look()
    assert schedule.boxes[0].attempt is attempt
    schedule.check()


def a_restart_finds_every_pod(side_type: type[Side]) -> None:
    """The Pod of a create that was answered counts at once for the next operator."""
    schedule = _begun(side_type)
    schedule.execute()
    schedule.answer()
    schedule.watch_on()
    schedule.check()
    schedule.restart()
    schedule.check()


def a_second_try_keeps_its_room_when_the_pod_of_the_first_ends(side_type: type[Side]) -> None:
    """Both tries of a create are carried out, one after the end of the other's Pod."""
    schedule = _begun(side_type)
    schedule.execute()
    schedule.time_out()
    schedule.look()
    schedule.delete_from_outside()
    schedule.execute()
    schedule.watch()
    schedule.check()
    schedule.watch()
    schedule.check()
    schedule.answer()
    schedule.check()


def an_unbound_pod_keeps_its_room_over_a_restart(side_type: type[Side]) -> None:
    """kube-scheduler has not come to it yet: it counts where it is pinned, and later where it is bound."""
    schedule = Schedule(lambda _: 0, side_type=side_type)
    schedule.below = lambda count: count - 1  # so the Pod of this attempt is one to be bound later
    schedule.start()
    schedule.execute()
    schedule.answer()
    schedule.watch_on()
    assert schedule.world.unbound()
    schedule.check()
    schedule.restart()
    schedule.check()
    schedule.bind()
    schedule.watch_on()
    schedule.check()


CASES: tuple[Callable[[type[Side]], None], ...] = (
    a_create_that_times_out_keeps_its_room,
    no_attempt_begins_while_the_last_one_is_open,
    a_restart_finds_every_pod,
    a_second_try_keeps_its_room_when_the_pod_of_the_first_ends,
    an_unbound_pod_keeps_its_room_over_a_restart,
)


def run_case(case: Callable[[type[Side]], None], side_type: type[Side] = Side) -> None:
    """Run one of them."""
    with facts_as_answers():
        case(side_type)
