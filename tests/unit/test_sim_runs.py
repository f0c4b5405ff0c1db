import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from sandberth.core.views import View
from sandberth.sim import runs
from sandberth.sim.distributions import parse_times
from sandberth.sim.runs import as_json, run_all
from sandberth.sim.settings import Settings
from sandberth.sim.text import histograms, table

SMALL = Settings(nodes=3, duration=5, repeat=3)
SPREAD = {"mean", "p95", "min", "max"}


def test_the_json_has_exactly_the_promised_keys() -> None:
    made = as_json(SMALL, run_all(SMALL))

    assert set(made) == {"parameters", "runs", "results"}
    assert made["runs"] == 3
    assert list(made["results"]) == ["metrics", "in-progress", "optimistic", "reconciled"]
    for values in made["results"].values():
        assert set(values) == {
            *("cv_count", "cv_allocated", "max_over_mean"),
            *("counts", "max", "min", "undercount", "overcount_max_cpu", "refused"),
        }
        assert all(set(values[name]) == SPREAD for name in ("cv_count", "cv_allocated", "max_over_mean"))
        assert sum(values["counts"]) == 100
        assert (values["max"], values["min"]) == (max(values["counts"]), min(values["counts"]))


def test_the_parameters_are_spelled_as_on_the_command_line() -> None:
    settings = replace(
        SMALL, heartbeat=None, create_latency=parse_times("lognormal:1,0.5"), sample_size=None, rate=2,
        rate_is_per_node=True, accounting=(View.RECONCILED,), measure_after=0,
    )  # fmt: skip

    parameters = settings.as_json()

    assert (parameters["heartbeat"], parameters["share_delay"]) == ("none", "none")
    assert (parameters["create_latency"], parameters["sample_size"]) == ("lognormal:1,0.5", "all")
    assert (parameters["rate"], parameters["accounting"], parameters["node_cpu"]) == (6, ["reconciled"], [192])
    assert parameters["measure_after"] == 0
    assert json.loads(json.dumps(parameters)) == parameters


def test_any_number_of_processes_gives_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "WORTH_A_PROCESS", 0)

    assert run_all(SMALL, workers=2) == run_all(SMALL, workers=1)


def test_progress_grows_to_1() -> None:
    told: list[float] = []

    run_all(replace(SMALL, nodes=30, rate=2000), workers=1, progress=told.append)

    assert told == sorted(told)
    assert told[-1] == 1
    assert len(told) > len(View) * SMALL.repeat


def test_a_large_fleet_is_shown_by_its_ends() -> None:
    settings = replace(SMALL, nodes=100, repeat=1, accounting=(View.METRICS,))

    text = histograms(as_json(settings, run_all(settings))["results"])

    assert len(text.splitlines()) == 1 + 2 * 11
    assert "the 10 emptiest of 100 nodes" in text


@pytest.mark.parametrize(("repeat", "columns"), [(1, 9), (2, 11)])
def test_the_table_has_percentiles_where_there_are_several_runs(repeat: int, columns: int) -> None:
    settings = replace(SMALL, repeat=repeat)

    made = table(as_json(settings, run_all(settings))["results"], repeat)

    assert (made.row_count, len(made.columns)) == (4, columns)


@pytest.mark.parametrize("nodes", [3, 300])
def test_the_picture_is_the_same_for_the_same_runs_and_small(nodes: int, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from sandberth.sim.plot import save_plot  # noqa: PLC0415

    settings = replace(SMALL, nodes=nodes)
    outcomes = run_all(settings)

    save_plot(settings, outcomes, tmp_path / "one.svg")
    save_plot(settings, outcomes, tmp_path / "two.svg")

    picture = (tmp_path / "one.svg").read_text()
    assert picture == (tmp_path / "two.svg").read_text()
    assert ET.fromstring(picture).tag.endswith("svg")
    assert "reconciled" in picture
