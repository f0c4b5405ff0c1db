"""What counts as being locked out: refusals that last, and nothing else."""

import pytest

from sandberth.control.access import Access
from sandberth.kube.errors import ApiError, Unreachable

FORBIDDEN = ApiError(403, "Forbidden", "no")
AWAY = Unreachable("GET", "/", TimeoutError())


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(clock: Clock) -> Access:
    return Access(clock)


@pytest.mark.parametrize("error", [FORBIDDEN, ApiError(401, "Unauthorized", "who?")])
def test_a_refusal_that_lasts_is_trouble_and_names_what_is_refused(
    access: Access, clock: Clock, error: ApiError
) -> None:
    access.failed("nodes", error)
    assert access.is_refused
    assert access.trouble() is None

    clock.now_s = 15.0

    assert access.trouble() == f"reading nodes is refused: {error}"


def test_it_counts_from_the_first_refusal(access: Access, clock: Clock) -> None:
    access.failed("nodes", FORBIDDEN)
    clock.now_s = 14.0
    access.failed("nodes", FORBIDDEN)
    clock.now_s = 15.0

    assert access.trouble() is not None


def test_an_answer_ends_it(access: Access, clock: Clock) -> None:
    access.failed("nodes", FORBIDDEN)
    clock.now_s = 60.0

    access.answered("nodes")

    assert access.trouble() is None
    assert not access.is_refused


def test_a_server_that_is_away_neither_makes_nor_ends_it(access: Access, clock: Clock) -> None:
    access.failed("nodes", AWAY)
    assert not access.is_refused

    access.failed("nodes", FORBIDDEN)
    access.failed("nodes", AWAY)
    clock.now_s = 60.0

    assert access.trouble() is not None


def test_a_server_that_is_busy_ends_it(access: Access, clock: Clock) -> None:
    access.failed("nodes", FORBIDDEN)
    access.failed("nodes", ApiError(503, "ServiceUnavailable", "later"))
    clock.now_s = 60.0

    assert access.trouble() is None
