"""The flags' ConfigMap as it reaches the operator: late, twice, in the wrong order, and for somebody else."""

from typing import Any, cast

import pytest

from sandberth.control.flag_source import FlagSource
from sandberth.kube import names
from sandberth.kube.errors import ApiError
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


class EventApi:
    """Keeps Events by name, as the API server does."""

    def __init__(self) -> None:
        self.events: dict[str, Any] = {}

    async def create_event(self, _: str, body: Any) -> None:
        name = body["metadata"]["name"]
        if name in self.events:
            raise ApiError(409, "AlreadyExists", "it exists")
        self.events[name] = body


async def test_what_two_operators_tell_of_one_version_is_one_event(caplog: pytest.LogCaptureFixture) -> None:
    api = EventApi()
    for _ in range(2):
        bench = Bench()
        bench.state.api = cast("Any", api)
        source = FlagSource(bench.state, lambda: None)
        source.observe(a_map(5, best_of_k_alpha="nonsense"))
        await source.post_events()

    assert len(api.events) == 1
    assert "could not be sent" not in caplog.text

    source.observe(a_map(6, best_of_k_alpha="other"))
    await source.post_events()
    assert len(api.events) == 2


async def test_what_a_standby_saw_long_ago_is_not_told_when_it_leads(bench: Bench, source: FlagSource) -> None:
    api = EventApi()
    bench.state.api = cast("Any", api)
    source.observe(a_map(5, best_of_k_alpha="nonsense"))

    bench.now_s += 3600
    await source.post_events()

    assert api.events == {}
