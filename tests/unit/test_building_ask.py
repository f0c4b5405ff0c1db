"""What a Sandbox asks of a node, before the server has seen its Pod."""

from typing import Any

import pytest

from sandberth.core.resources import Requests, Resources
from sandberth.kube.building import ask_of, base_pod_spec
from sandberth.kube.constraints import RuntimeClass
from sandberth.kube.pods import PodSpecError
from tests.unit.sandbox_specs import a_sandbox, a_template, an_image

GIB = 2**30


def test_an_image_asks_for_its_nominal_size_and_divides_its_cpu() -> None:
    ask = ask_of(a_sandbox(an_image(cpu="1e3", memory="128974848000m")).spec)

    assert ask.nominal == Resources(1_000_000, 128_974_848)
    assert ask.divides_cpu
    assert ask.requests_at(400).cpu_millicores == 250_000
    assert ask.requests_at(400).memory_bytes == 128_974_848


def test_a_template_asks_for_its_effective_request_where_it_gives_no_size() -> None:
    template = a_template({"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}}})

    ask = ask_of(a_sandbox(template).spec)
    half = ask_of(a_sandbox(template | {"resources": {"cpu": "4"}}).spec)

    assert ask.nominal == ask.requests.size == Resources(1_000, 2 * GIB)
    assert not ask.divides_cpu
    assert half.nominal == Resources(4_000, 2 * GIB)
    assert half.requests.size == Resources(1_000, 2 * GIB)


def test_the_overhead_of_a_runtime_class_is_counted_once() -> None:
    overhead = {"cpu": "250m", "memory": "1Gi"}
    runtime_class = RuntimeClass(None, {"podFixed": overhead})
    resources = {"resources": {"requests": {"cpu": "1"}}}

    added = ask_of(a_sandbox(a_template(resources)).spec, runtime_class)
    stated = ask_of(a_sandbox(a_template(resources, overhead=overhead)).spec, runtime_class)

    assert added.requests == stated.requests == Requests(cpu_millicores=1_250, memory_bytes=GIB)
    assert added.nominal == Resources(1_250, GIB)


def test_selectors_of_template_and_placement_are_one() -> None:
    spec = a_template(nodeSelector={"a": "1"}) | {
        "placement": {"nodeSelector": {"b": "2"}, "preferredNode": "node-b", "architecture": "arm64"}
    }

    ask = ask_of(a_sandbox(spec).spec)

    assert ask.constraints.node_selector == (("a", "1"), ("b", "2"))
    assert ask.constraints.architecture == "arm64"
    assert ask.preferred_node == "node-b"
    assert base_pod_spec(a_sandbox(spec).spec)["nodeSelector"] == {"a": "1", "b": "2"}


def test_selectors_that_contradict_name_both_places() -> None:
    spec = a_template(nodeSelector={"a": "1"}) | {"placement": {"nodeSelector": {"a": "2"}}}

    with pytest.raises(PodSpecError, match=r"nodeSelector: podTemplate\.spec asks for a=1, spec\.placement for a=2"):
        ask_of(a_sandbox(spec).spec)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (a_template({"resources": {"requests": {"cpu": "lots"}}}), "lots"),
        (a_template({"resources": {"requests": "all"}}), "containers[0].resources.requests"),
        (a_template(nodeSelector=["a"]), "nodeSelector"),
        (a_template(overhead="all"), "overhead"),
        (a_template({"resources": {"requests": {"cpu": "-1"}}}), "request for cpu is negative"),
        (a_template({"resources": {"limits": {"memory": "-1"}}}), "request for memory is negative"),
        (a_template({"resources": {"limits": {"example.com/gpu": "-1"}}}), "example.com/gpu is negative"),
    ],
)
def test_a_template_that_cannot_be_counted_is_named(spec: dict[str, Any], named: str) -> None:
    with pytest.raises(PodSpecError) as caught:
        ask_of(a_sandbox(spec).spec)

    assert str(caught.value).startswith("podTemplate.spec: ")
    assert named in str(caught.value)


@pytest.mark.parametrize("place", ["template", "placement"])
@pytest.mark.parametrize("selector", [["a"], "a=b", 5])
def test_a_malformed_selector_is_an_error_that_names_it(selector: Any, place: str) -> None:
    other = {"b": "2"} if place == "placement" else {}
    spec = a_template(nodeSelector=selector) | {"placement": {"nodeSelector": other}}

    with pytest.raises(PodSpecError, match="nodeSelector"):
        ask_of(a_sandbox(spec).spec)
