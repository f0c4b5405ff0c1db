"""Any ConfigMap gives a usable set of flags, key by key."""

from hypothesis import given
from hypothesis import strategies as st

from sandberth.flags import KEYS, Flags, read

GOOD = {
    "sandbox-placement-optimistic-resource-accounting": ["true", "OFF", " 1 "],
    "sandbox-placement-id-reconciliation": ["yes", "no"],
    "best-of-k-sample-size": ["1", "all", "12"],
    "best-of-k-max-overcommit": ["1", "250"],
    "best-of-k-alpha": ["0", "99"],
    "best-of-k-too-many-starting": ["on", "0"],
    "max-starting-instances-per-node": ["1", "50"],
    "best-of-k-sampler": ["deck", "Uniform"],
    "best-of-k-projected-usage": ["True", "false"],
}
BAD = st.sampled_from(["", "NaN", "-1", "0.5", "9" * 40, "null", "\x00"])
GOOD_MAPS = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in GOOD.items()})
ANY_MAPS = st.dictionaries(st.one_of(st.sampled_from(sorted(KEYS)), st.text(max_size=5)), st.text(max_size=8))
FLAGS = GOOD_MAPS.map(lambda data: read(data, Flags()).flags)


@given(ANY_MAPS, FLAGS)
def test_every_map_gives_flags_that_read_back_as_they_are(data: dict[str, str], last_good: Flags) -> None:
    reading = read(data, last_good)

    assert read(reading.flags.by_key(), Flags()).flags == reading.flags
    assert reading.flags.parameters.overcommit_percent > 0
    assert {problem.key for problem in reading.problems} <= KEYS & data.keys()
    assert set(reading.unknown) == data.keys() - KEYS


@given(GOOD_MAPS, st.dictionaries(st.sampled_from(sorted(GOOD)), BAD), FLAGS)
def test_each_key_is_read_as_if_it_stood_alone(good: dict[str, str], bad: dict[str, str], last_good: Flags) -> None:
    reading = read(good | bad, last_good)

    in_force, kept = reading.flags.by_key(), last_good.by_key()
    assert {problem.key for problem in reading.problems} == bad.keys()
    for key in KEYS:
        if key in bad:
            assert in_force[key] == kept[key]
        else:
            alone = read({key: good[key]} if key in good else {}, last_good)
            assert in_force[key] == alone.flags.by_key()[key]


@given(GOOD_MAPS, FLAGS)
def test_exactly_the_keys_that_changed_by_their_absence_are_told(data: dict[str, str], last_good: Flags) -> None:
    reading = read(data, last_good)

    before, after = last_good.by_key(), reading.flags.by_key()
    assert set(reading.returned) == {key for key in KEYS - data.keys() if before[key] != after[key]}
