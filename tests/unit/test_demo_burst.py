import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from sandberth.demo.burst import run_on_schedule, sandbox_manifest
from sandberth.demo.parameters import SETTINGS, Parameters
from sandberth.demo.results import results, save_results
from sandberth.demo.stage import foreign_sizes
from sandberth.flags import KEYS, Flags, read
from sandberth.kube.sandbox import Sandbox
from tests.unit.test_demo_statistics import an_outcome


async def test_jobs_start_on_schedule_also_while_earlier_ones_are_not_done() -> None:
    clock = asyncio.get_running_loop().time
    starts: list[float] = []
    all_started = asyncio.Event()

    async def job() -> None:
        starts.append(clock())
        if len(starts) == 5:
            all_started.set()
        await all_started.wait()  # a closed loop would wait here for ever

    done: list[int] = []
    begin = clock()
    async with asyncio.timeout(10):
        late = await run_on_schedule([job] * 5, 50, done.append)

    assert all(start >= begin + number / 50 for number, start in enumerate(starts))
    assert done == [1, 2, 3, 4, 5]
    assert late >= 0


async def test_the_first_failure_ends_the_schedule_at_once() -> None:
    started = 0

    async def job() -> None:
        nonlocal started
        started += 1
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        await run_on_schedule([job] * 1000, 10, lambda _done: None)

    assert started < 10


def test_a_sandbox_of_the_demo_is_valid_and_of_the_articles_size() -> None:
    sandbox = Sandbox.model_validate(sandbox_manifest(7))

    assert (sandbox.spec.resources.cpu, sandbox.spec.resources.memory) == ("1", "1Gi")


def test_the_settings_name_real_flags_and_only_valid_values() -> None:
    for data in SETTINGS.values():
        reading = read(data, Flags())

        assert set(data) <= set(KEYS)
        assert (reading.problems, reading.unknown) == ((), ())


def test_each_setting_names_every_flag_that_another_one_changes() -> None:
    assert len({frozenset(data) for data in SETTINGS.values()}) == 1


def test_the_same_seed_gives_the_same_foreign_load_within_its_bounds() -> None:
    sizes = foreign_sizes(Parameters(nodes=50, seed=3))

    assert sizes == foreign_sizes(Parameters(nodes=50, seed=3))
    assert sizes != foreign_sizes(Parameters(nodes=50, seed=4))
    assert all(0 <= size <= 4000 for size in sizes)


def test_demo_json_has_an_entry_for_each_setting(tmp_path: Path) -> None:
    outcomes = [replace(an_outcome(), setting=setting) for setting in SETTINGS]

    save_results(results(Parameters(), outcomes, []), tmp_path / "demo.json")

    stored = json.loads((tmp_path / "demo.json").read_text())
    assert list(stored["settings"]) == ["off", "optimistic", "reconciled"]
    for entry in stored["settings"].values():
        assert set(entry) == {"cv_count", "cv_allocated", "max", "min", "counts", "running", "seconds"}
    assert stored["parameters"]["count"] == 500
