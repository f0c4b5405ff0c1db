"""The flags: how each value is spelled, and what holds when one cannot be read."""

import re
from pathlib import Path

import pytest

from sandberth.core.placement import Parameters
from sandberth.core.sampling import Sampler
from sandberth.core.views import View
from sandberth.flags import KEYS, Flags, read

OPTIMISTIC = "sandbox-placement-optimistic-resource-accounting"
RECONCILED = "sandbox-placement-id-reconciliation"
K = "best-of-k-sample-size"
R = "best-of-k-max-overcommit"
ALPHA = "best-of-k-alpha"
CAPPED = "best-of-k-too-many-starting"
CAP = "max-starting-instances-per-node"
SAMPLER = "best-of-k-sampler"
PROJECTED = "best-of-k-projected-usage"

DESIGN_DEFAULTS = {
    OPTIMISTIC: "false",
    RECONCILED: "false",
    K: "3",
    R: "400",
    ALPHA: "50",
    CAPPED: "false",
    CAP: "3",
    SAMPLER: "uniform",
    PROJECTED: "false",
}
UNUSUAL = Flags(
    sandbox_placement_optimistic_resource_accounting=True,
    sandbox_placement_id_reconciliation=True,
    best_of_k_sample_size="all",
    best_of_k_max_overcommit=150,
    best_of_k_alpha=7,
    best_of_k_too_many_starting=True,
    max_starting_instances_per_node=9,
    best_of_k_sampler="deck",
    best_of_k_projected_usage=True,
)


@pytest.fixture
def flags() -> Flags:
    return Flags()


def test_the_defaults_are_the_published_ones(flags: Flags) -> None:
    assert flags.by_key() == DESIGN_DEFAULTS
    assert set(DESIGN_DEFAULTS) == KEYS


@pytest.mark.parametrize("text", ["true", "1", "yes", "on", "TRUE", "Yes", "oN", "  true\n"])
@pytest.mark.parametrize("key", [OPTIMISTIC, RECONCILED, CAPPED, PROJECTED])
def test_every_spelling_of_true(flags: Flags, key: str, text: str) -> None:
    reading = read({key: text}, flags)

    assert reading.flags.by_key()[key] == "true"
    assert not reading.problems


@pytest.mark.parametrize("text", ["false", "0", "no", "off", "FALSE", "No", "oFF", "\tfalse "])
@pytest.mark.parametrize("key", [OPTIMISTIC, RECONCILED, CAPPED, PROJECTED])
def test_every_spelling_of_false(key: str, text: str) -> None:
    reading = read({key: text}, UNUSUAL)

    assert reading.flags.by_key()[key] == "false"
    assert not reading.problems


@pytest.mark.parametrize("text", ["", " ", "y", "n", "t", "f", "2", "-1", "1.0", "NaN", "none", "truee", "on off"])
def test_any_other_boolean_keeps_the_last_good_one(text: str) -> None:
    reading = read({OPTIMISTIC: text}, UNUSUAL)

    assert reading.flags.sandbox_placement_optimistic_resource_accounting
    assert [(problem.key, problem.value) for problem in reading.problems] == [(OPTIMISTIC, text)]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (K, "1", "1"),
        (K, " 5 ", "5"),
        (K, "+5", "5"),
        (K, "007", "7"),
        (K, "all", "all"),
        (K, " ALL\n", "all"),
        (K, "1000000", "1000000"),
        (R, "1", "1"),
        (R, "10000", "10000"),
        (ALPHA, "0", "0"),
        (ALPHA, "-0", "0"),
        (CAP, "1", "1"),
        (SAMPLER, " Deck ", "deck"),
        (SAMPLER, "UNIFORM", "uniform"),
    ],
)
def test_good_values_are_taken(flags: Flags, key: str, text: str, value: str) -> None:
    reading = read({key: text}, flags)

    assert reading.flags.by_key()[key] == value
    assert not reading.problems


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *((key, text) for key in (K, R, ALPHA, CAP) for text in ("", "  ", "NaN", "inf", "-inf", "1.5", "1e3", "0x10")),
        *((key, text) for key in (K, R, ALPHA, CAP) for text in ("-1", "1_000", "\u0663", "3 4", "50%", "none")),
        *((key, text) for key in (K, R, ALPHA, CAP) for text in ("9" * 9, "9" * 50, "9" * 20_000)),
        (K, "0"),
        (K, "1000001"),
        (K, "alle"),
        (K, "true"),
        (R, "0"),
        (R, "10001"),
        (R, "all"),
        (CAP, "0"),
        (SAMPLER, ""),
        (SAMPLER, "best"),
    ],
)
def test_a_bad_value_keeps_the_last_good_one_and_is_named_once(key: str, text: str) -> None:
    reading = read({key: text, **{other: v for other, v in UNUSUAL.by_key().items() if other != key}}, UNUSUAL)

    assert reading.flags == UNUSUAL
    assert [(problem.key, problem.value) for problem in reading.problems] == [(key, text)]
    assert reading.problems[0].message
    assert not reading.returned


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        (OPTIMISTIC, "maybe", "one of true, false"),
        (K, "many", '"all"'),
        (K, "0", "greater than or equal to 1"),
        (R, "99999999999", "less than or equal to 10000"),
        (ALPHA, "half", "whole number"),
    ],
)
def test_a_problem_says_what_would_be_right(flags: Flags, key: str, text: str, said: str) -> None:
    (problem,) = read({key: text}, flags).problems

    assert said in problem.message


def test_a_bad_value_does_not_hold_back_the_other_keys() -> None:
    last_good = Flags(best_of_k_sample_size=5)

    reading = read({K: "-3", R: "NaN", ALPHA: "70", OPTIMISTIC: "on"}, last_good)

    assert reading.flags == Flags(
        best_of_k_sample_size=5, best_of_k_alpha=70, sandbox_placement_optimistic_resource_accounting=True
    )
    assert [problem.key for problem in reading.problems] == [R, K]


def test_the_last_good_value_survives_a_series_of_bad_ones(flags: Flags) -> None:
    for text in ("7", "", "NaN", "0"):
        flags = read({K: text}, flags).flags

    assert flags.best_of_k_sample_size == 7


@pytest.mark.parametrize("data", [None, {}])
def test_a_missing_map_means_the_defaults_and_says_which_keys_went_back(data: dict[str, str] | None) -> None:
    reading = read(data, UNUSUAL)

    assert reading.flags == Flags()
    assert reading.returned == tuple(sorted(KEYS))


def test_a_missing_map_is_no_news_where_the_defaults_held(flags: Flags) -> None:
    reading = read(None, flags)

    assert (reading.flags, reading.returned, reading.problems, reading.unknown) == (flags, (), (), ())


def test_only_a_value_that_changes_by_its_absence_is_reported_as_returned() -> None:
    last_good = Flags(best_of_k_sample_size=5, best_of_k_alpha=70)

    reading = read({ALPHA: "50", CAP: "4"}, last_good)

    assert reading.returned == (K,)
    assert reading.flags == Flags(max_starting_instances_per_node=4)


def test_unknown_keys_are_named_and_do_nothing(flags: Flags) -> None:
    reading = read({"best-of-k-can-fit": "false", "best_of_k_sample_size": "9", "": "x", K: "4"}, flags)

    assert reading.unknown == ("", "best-of-k-can-fit", "best_of_k_sample_size")
    assert reading.flags == Flags(best_of_k_sample_size=4)


def test_what_is_written_out_reads_back_as_it_was() -> None:
    for flags in (Flags(), UNUSUAL):
        assert read(flags.by_key(), Flags()).flags == flags


@pytest.mark.parametrize(
    ("optimistic", "reconciled", "view"),
    [
        (False, False, View.METRICS),
        (True, False, View.OPTIMISTIC),
        (False, True, View.RECONCILED),
        (True, True, View.RECONCILED),
    ],
)
def test_the_two_accounting_flags_choose_the_view(optimistic: bool, reconciled: bool, view: View) -> None:
    flags = Flags(
        sandbox_placement_optimistic_resource_accounting=optimistic, sandbox_placement_id_reconciliation=reconciled
    )

    assert flags.view is view


def test_the_core_gets_plain_values(flags: Flags) -> None:
    assert flags.parameters == Parameters(3, 400, 50, View.METRICS, None)
    assert UNUSUAL.parameters == Parameters(None, 150, 7, View.RECONCILED, 9, Sampler.DECK, projected_usage=True)


def test_flags_are_swapped_as_a_whole(flags: Flags) -> None:
    with pytest.raises(ValueError, match="frozen"):
        flags.__setattr__("best_of_k_alpha", 1)


def test_the_documented_table_names_every_key_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "flags.md").read_text()

    rows = re.findall(r"^\| `([a-z-]+)` \| (\S+) \|", page, re.MULTILINE)

    assert rows == list(Flags().by_key().items())
