"""The smallest patch between two statuses, and instants as the API stores them."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandberth.control import status as statuses
from sandberth.kube.sandbox import SandboxStatus

VALUES = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386, word by word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


@given(old=OBJECTS, new=OBJECTS)
def test_a_merge_patch_turns_the_one_into_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merged(old, statuses.merge_patch(old, new)) == new


@given(same=OBJECTS)
def test_nothing_is_patched_where_nothing_differs(same: dict[str, Any]) -> None:
    assert statuses.merge_patch(same, same) == {}


def test_a_status_that_does_not_differ_needs_no_write() -> None:
    status = SandboxStatus(pod_ip="10.0.0.1", pod_name="box")

    assert statuses.status_patch(status, status) is None


def test_a_patch_holds_only_what_differs_and_null_for_what_went() -> None:
    status = SandboxStatus(pod_ip="10.0.0.1", pod_name="box")

    patch = statuses.status_patch(status, status.model_copy(update={"pod_ip": None, "restarts": 2}))

    assert patch == {"status": {"podIP": None, "restarts": 2}}


def test_an_instant_is_kept_to_the_second_as_the_api_stores_it() -> None:
    assert statuses.utc(1_767_323_045.987) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert statuses.moment("2026-01-02T03:04:05Z") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
