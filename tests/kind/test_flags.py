"""The flags changed while Sandberth runs, by `kubectl patch configmap`."""

from sandberth.kube import names
from tests.kind.bed import KindBed, Object, a_sandbox
from tests.kind.installation import FlagsMap


def placement_of(bed: KindBed, box: str, namespace: str) -> Object:
    """Apply a Sandbox and return why it is where it is."""
    bed.apply(a_sandbox(box), namespace)
    placement: Object = bed.wait_for_phase(box, namespace=namespace, seconds=120)["status"]["placement"]
    return placement


def test_flags_hold_from_the_next_placement_on(bed: KindBed, namespace: str, flags: FlagsMap) -> None:
    flags.set(
        {
            "sandbox-placement-optimistic-resource-accounting": "true",
            "best-of-k-sample-size": "1",
            "best-of-k-max-overcommit": "300",
            "best-of-k-alpha": "7",
            "best-of-k-sampler": "deck",
        }
    )
    first = placement_of(bed, "first", namespace)
    flags.set({"sandbox-placement-id-reconciliation": "true", "best-of-k-sample-size": "all"})
    second = placement_of(bed, "second", namespace)

    assert (first["view"], first["sampled"]) == ("optimistic", 1)
    assert first["flags"] == {"k": "1", "overcommitPercent": 300, "alpha": 7, "sampler": "deck"}
    assert (second["view"], second["sampled"]) == ("reconciled", 2)
    assert second["flags"] == {"k": "all", "overcommitPercent": 300, "alpha": 7, "sampler": "deck"}


def test_the_overcommitment_decides_what_the_kubelet_is_asked_for(
    bed: KindBed, namespace: str, flags: FlagsMap
) -> None:
    flags.set({"best-of-k-max-overcommit": "200"})

    placement_of(bed, "box", namespace)

    pod = bed.get("Pod", "box", namespace)
    assert pod is not None
    resources = pod["spec"]["containers"][0]["resources"]
    assert (resources["requests"]["cpu"], resources["limits"]["cpu"]) == ("25m", "50m")


def test_a_value_that_cannot_be_read_is_named_in_a_warning_and_the_last_good_one_stays(
    bed: KindBed, namespace: str, flags: FlagsMap
) -> None:
    flags.set({"best-of-k-alpha": "30"})
    bad = f"a lot, says {namespace}"  # events stay for an hour: this one is told from those of other runs

    flags.patch({"best-of-k-alpha": bad})

    def warnings() -> list[Object]:
        return [event for event in bed.list("Event", names.NAMESPACE) if bad in event["message"]]

    (event,) = bed.wait(warnings, "a warning about the flag")
    assert (event["type"], event["reason"]) == ("Warning", "InvalidFlag")
    assert event["message"].startswith(f"best-of-k-alpha={bad}: ")
    assert event["message"].endswith("it stays at 30")
    described = bed.kubectl("describe", "configmap", names.FLAGS_CONFIGMAP, "--namespace", names.NAMESPACE).stdout
    assert f"best-of-k-alpha={bad}" in described.partition("Events:")[2]
    assert placement_of(bed, "box", namespace)["flags"]["alpha"] == 30


def test_a_key_that_is_taken_out_returns_to_its_default(bed: KindBed, namespace: str, flags: FlagsMap) -> None:
    flags.set({"best-of-k-sample-size": "1"})
    flags.patch({"best-of-k-sample-size": None})

    def sampled() -> int:
        box = f"box-{len(bed.list(names.SANDBOX_KIND, namespace))}"
        return int(placement_of(bed, box, namespace)["sampled"])

    bed.wait(lambda: sampled() == 2, "both workers are compared again", 120, namespace)
