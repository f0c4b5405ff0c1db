"""The flags' ConfigMap as it reaches the operator: late, twice, in the wrong order, and for somebody else."""

from typing import Any

import pytest

from sandberth.control.flag_source import FlagSource
from sandberth.kube import names
from tests.unit.fake_api import Bench


def a_map(version: int, name: str = names.FLAGS_CONFIGMAP, namespace: str = names.NAMESPACE, **data: str) -> Any:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{version}", "resourceVersion": str(version)}
    return {"metadata": metadata, "data": {key.replace("_", "-"): value for key, value in data.items()}}


@pytest.fixture
async def bench() -> Bench:
    return Bench()


@pytest.fixture
async def source(bench: Bench) -> FlagSource:
    return FlagSource(bench.state, lambda: None)


async def test_news_of_the_end_that_comes_after_a_new_map_changes_nothing(bench: Bench, source: FlagSource) -> None:
    source.observe(a_map(5, best_of_k_alpha="10"))
    source.observe(a_map(12, best_of_k_alpha="70"))

    source.deleted(a_map(10))
    source.observe(a_map(12, best_of_k_alpha="70"))

    assert bench.state.flags.best_of_k_alpha == 70


async def test_the_end_of_the_map_returns_every_key_to_its_default(bench: Bench, source: FlagSource) -> None:
    source.observe(a_map(5, best_of_k_alpha="10"))

    source.deleted(a_map(6))

    assert bench.state.flags.best_of_k_alpha == 50


async def test_an_older_version_changes_nothing(bench: Bench, source: FlagSource) -> None:
    source.observe(a_map(5, best_of_k_alpha="10"))

    source.observe(a_map(4, best_of_k_alpha="90"))

    assert bench.state.flags.best_of_k_alpha == 10


@pytest.mark.parametrize("other", [{"name": "others"}, {"namespace": "elsewhere"}])
async def test_another_map_changes_nothing(bench: Bench, source: FlagSource, other: dict[str, str]) -> None:
    source.observe(a_map(5, best_of_k_alpha="10"))

    source.observe(a_map(9, **other, best_of_k_alpha="90"))
    source.deleted(a_map(10, **other))

    assert bench.state.flags.best_of_k_alpha == 10
