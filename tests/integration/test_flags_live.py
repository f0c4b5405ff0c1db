"""The flags of the ConfigMap take effect at once, one bad value never spoils the others, and nothing is lost."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.flags import Flags as FlagValues
from sandberth.kube import names
from tests.integration.bed import AuditLog, Object, Objects, OperatorProgram, wait_for
from tests.integration.berths import Berths, berths_in, pod_creates

pytestmark = pytest.mark.integration
Flags = Callable[..., None]


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, operator: OperatorProgram, home: str) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as made:
        yield made


class FlagEvents:
    """The Events on the ConfigMap that came since this was made."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._before = {event["metadata"]["uid"] for event in self._all()}

    def _all(self) -> list[Object]:
        return self._objects.list(
            "Event", names.NAMESPACE, field_selector=f"involvedObject.name={names.FLAGS_CONFIGMAP}"
        )

    def new(self) -> list[Object]:
        return [event for event in self._all() if event["metadata"]["uid"] not in self._before]

    def messages(self, reason: str) -> list[str]:
        return [event["message"] for event in self.new() if event["reason"] == reason]


def _set(objects: Objects, data: dict[str, str | None]) -> None:
    objects.patch("ConfigMap", names.FLAGS_CONFIGMAP, {"data": data}, names.NAMESPACE)


def _in_force(operator: OperatorProgram) -> dict[str, str]:
    lines = [line for line in operator.metrics().splitlines() if line.startswith("sandberth_flag{")]
    pairs = [line.partition("{")[2].partition("}")[0].split('"') for line in lines]
    return {parts[1]: parts[3] for parts in pairs}


# --- in force with the next placement ---


def test_every_change_takes_effect_with_the_next_placement(berths: Berths, flags: Flags) -> None:
    berths.add_nodes(3)
    optimistic = "sandbox_placement_optimistic_resource_accounting"
    reconciled = "sandbox_placement_id_reconciliation"
    changes: list[tuple[dict[str, str], str, Any]] = [
        ({optimistic: "true"}, "view", "optimistic"),
        ({reconciled: "true"}, "view", "reconciled"),
        ({reconciled: "false"}, "view", "optimistic"),
        ({optimistic: "false"}, "view", "metrics"),
        ({"best_of_k_sample_size": "2"}, "k", "2"),
        ({"best_of_k_sample_size": "all"}, "k", "all"),
        ({"best_of_k_max_overcommit": "250"}, "overcommitPercent", 250),
        ({"best_of_k_alpha": "0"}, "alpha", 0),
    ]

    for number, (values, key, expected) in enumerate(changes):
        flags(**values)
        berths.apply(f"box-{number}")
        record = berths.placed(f"box-{number}")["placement"]
        assert (record | record["flags"])[key] == expected, values


@pytest.mark.parametrize("spelling", ["1", " YES ", "On", "TRUE"])
def test_a_switch_is_understood_in_every_spelling(
    operator: OperatorProgram, flags: Flags, objects: Objects, spelling: str
) -> None:
    flags(best_of_k_projected_usage="false")

    _set(objects, {"best-of-k-projected-usage": spelling})

    wait_for(lambda: _in_force(operator)["best-of-k-projected-usage"] == "true", what=f"{spelling!r} is on")


def test_flags_that_flip_in_the_middle_of_a_burst_lose_and_double_nothing(
    berths: Berths, flags: Flags, audit: AuditLog, objects: Objects
) -> None:
    nodes = berths.add_nodes(3, cpu="16", memory="128Gi")
    settings: list[dict[str, str | None]] = [
        {"sandbox-placement-optimistic-resource-accounting": "true", "best-of-k-sample-size": "all"},
        {"sandbox-placement-id-reconciliation": "true", "best-of-k-max-overcommit": "100"},
        {"best-of-k-max-overcommit": "nonsense", "best-of-k-too-many-starting": "true"},
        {"sandbox-placement-id-reconciliation": "false", "best-of-k-max-overcommit": "300"},
        {"sandbox-placement-optimistic-resource-accounting": "false", "best-of-k-too-many-starting": "false"},
    ]
    position = audit.position()
    boxes = [f"box-{number}" for number in range(60)]

    turns = itertools.cycle(settings)
    for number, box in enumerate(boxes):
        if number % 4 == 0:
            _set(objects, next(turns))
        berths.apply(box)
    flags(best_of_k_max_overcommit="400", best_of_k_too_many_starting="false")
    wait_for(lambda: berths.phases() == {"Running": 60}, 30, "all run")

    assert sum(berths.nodes_of().values()) == 60
    assert set(berths.nodes_of()) <= set(nodes)
    assert pod_creates(audit, berths.namespace, position) == [201] * 60
    views = {berths.status(box)["placement"]["view"] for box in boxes}
    assert len(views) > 1


# --- what is wrong is said, and changes nothing ---


def test_bad_values_keep_the_last_good_ones_and_each_is_named_in_an_event(
    operator: OperatorProgram, objects: Objects, flags: Flags
) -> None:
    flags(best_of_k_sample_size="2", best_of_k_alpha="70", best_of_k_max_overcommit="300")
    events = FlagEvents(objects)
    bad = {
        "best-of-k-sample-size": "0",
        "best-of-k-alpha": "NaN",
        "best-of-k-max-overcommit": "-5",
        "best-of-k-too-many-starting": "maybe",
        "best-of-k-sampler": "roulette",
    }

    _set(objects, {**bad, "max-starting-instances-per-node": "9"})

    wait_for(lambda: _in_force(operator)["max-starting-instances-per-node"] == "9", what="the good key applies")
    wait_for(lambda: len(events.messages("InvalidFlag")) == len(bad), what="one event for each bad value")
    messages = sorted(events.messages("InvalidFlag"))
    assert [message.partition(":")[0] for message in messages] == sorted(f"{k}={v}" for k, v in bad.items())
    assert "best-of-k-sample-size=0" in "".join(messages)
    in_force = _in_force(operator)
    assert in_force["best-of-k-sample-size"] == "2"
    assert in_force["best-of-k-alpha"] == "70"
    assert in_force["best-of-k-max-overcommit"] == "300"
    assert in_force["best-of-k-too-many-starting"] == "false"
    assert in_force["best-of-k-sampler"] == "uniform"
    for event in events.new():
        assert event["type"] == "Warning"
        assert event["involvedObject"]["kind"] == "ConfigMap"
        assert event["involvedObject"]["uid"]


def test_an_unknown_key_is_warned_of_once(operator: OperatorProgram, objects: Objects, flags: Flags) -> None:
    events = FlagEvents(objects)
    try:
        _set(objects, {"best-of-k-sampel-size": "5"})
        wait_for(lambda: events.messages("UnknownFlag"), what="the warning")
        for alpha in ("10", "20"):
            flags(best_of_k_alpha=alpha)
        _set(objects, {"best-of-k-alpha": "bad"})
        wait_for(lambda: events.messages("InvalidFlag"), what="a later warning")

        assert events.messages("UnknownFlag") == [
            "no flag that Sandberth knows, and nothing reads it: best-of-k-sampel-size"
        ]
    finally:
        _set(objects, {"best-of-k-sampel-size": None})


def test_a_key_that_goes_returns_to_its_default_and_says_so(
    operator: OperatorProgram, objects: Objects, flags: Flags
) -> None:
    flags(best_of_k_alpha="70")
    events = FlagEvents(objects)

    flags(best_of_k_alpha=None)

    wait_for(lambda: _in_force(operator)["best-of-k-alpha"] == "50", what="the default")
    wait_for(lambda: events.messages("FlagReturnedToDefault"), what="the warning")
    assert events.messages("FlagReturnedToDefault") == ["best-of-k-alpha is not set any more and is back at 50"]


def test_without_the_configmap_the_defaults_hold_until_it_is_made_again(
    operator: OperatorProgram, objects: Objects, flags: Flags, berths: Berths
) -> None:
    berths.add_node()
    flags(best_of_k_sample_size="2", best_of_k_alpha="70")
    before = objects.get("ConfigMap", names.FLAGS_CONFIGMAP, names.NAMESPACE)
    assert before is not None
    events = FlagEvents(objects)
    again = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.FLAGS_CONFIGMAP, "namespace": names.NAMESPACE},
        "data": before["data"],
    }

    objects.delete("ConfigMap", names.FLAGS_CONFIGMAP, names.NAMESPACE)
    try:
        wait_for(lambda: _in_force(operator) == FlagValues().by_key(), what="the defaults")
        wait_for(lambda: len(events.messages("FlagReturnedToDefault")) == 2, what="one event for each key")
        berths.apply("box")
        record = berths.placed("box")["placement"]
    finally:
        objects.create(again)

    assert record["flags"] == {"k": "3", "overcommitPercent": 400, "alpha": 50, "sampler": "uniform"}
    wait_for(lambda: _in_force(operator)["best-of-k-alpha"] == "70", what="the flags are back")
    assert _in_force(operator)["best-of-k-sample-size"] == "2"


# --- sandberth flags ---


def _flags_command(cluster: LocalCluster, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sandberth", "flags", "--kubeconfig", str(cluster.kubeconfig), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_sandberth_flags_shows_every_value_and_what_is_wrong(
    cluster: LocalCluster, objects: Objects, flags: Flags
) -> None:
    flags(best_of_k_sample_size="all", best_of_k_alpha="70")
    _set(objects, {"best-of-k-max-overcommit": "lots", "best-of-k-sampel-size": "5"})

    try:
        table = _flags_command(cluster)
        as_json = _flags_command(cluster, "--output", "json")
    finally:
        _set(objects, {"best-of-k-sampel-size": None})

    rows = {line.split()[0]: line.split()[1:3] for line in table.stdout.splitlines()[1:] if "-" in line.split()[0]}
    assert rows["best-of-k-sample-size"] == ["all", "3"]
    assert rows["best-of-k-alpha"] == ["70", "50"]
    assert rows["best-of-k-max-overcommit"] == ["(last", "good)"]
    expected = {"best-of-k-sample-size": "all", "best-of-k-alpha": "70", "best-of-k-max-overcommit": None}
    assert json.loads(as_json.stdout) == FlagValues().by_key() | expected
    for result in (table, as_json):
        assert result.returncode == 0
        assert "best-of-k-max-overcommit=lots: must be a whole number" in result.stderr
        assert "best-of-k-sampel-size is no flag that Sandberth knows" in result.stderr
