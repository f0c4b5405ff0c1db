"""What the answer to a create means."""

import pytest

from sandberth.control.outcomes import Outcome, outcome_of, refusal_reason
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.names import PlacedReason


@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        (409, "AlreadyExists", Outcome.EXISTS),
        (403, "Forbidden", Outcome.REFUSED),
        (422, "Invalid", Outcome.REFUSED),
        (400, "BadRequest", Outcome.REFUSED),
        (404, "NotFound", Outcome.REFUSED),
        (413, "RequestEntityTooLarge", Outcome.REFUSED),
        (418, "", Outcome.REFUSED),  # a webhook may deny with any code
        (409, "Conflict", Outcome.UNKNOWN),
        (429, "TooManyRequests", Outcome.UNKNOWN),
        (401, "Unauthorized", Outcome.UNKNOWN),
        (500, "InternalError", Outcome.UNKNOWN),
        (503, "", Outcome.UNKNOWN),
        (504, "Timeout", Outcome.UNKNOWN),
    ],
)
def test_the_reason_decides_whether_a_pod_may_have_been_made(status: int, reason: str, outcome: Outcome) -> None:
    assert outcome_of(ApiError(status, reason, "text")) is outcome


def test_no_answer_at_all_leaves_the_outcome_unknown() -> None:
    assert outcome_of(Unreachable("POST", "/api/v1/pods", TimeoutError())) is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("status", "reason", "message", "placed"),
    [
        (403, "Forbidden", 'pods "a" is forbidden: exceeded quota: q, requested: pods=1', PlacedReason.QUOTA_EXCEEDED),
        (403, "Forbidden", 'violates PodSecurity "restricted:latest"', PlacedReason.REFUSED_BY_POLICY),
        (403, "Forbidden", "maximum cpu usage per Container is 1", PlacedReason.REFUSED_BY_POLICY),
        (404, "NotFound", 'namespaces "gone" not found', PlacedReason.REFUSED_BY_POLICY),
        (422, "Invalid", 'Pod "a" is invalid: spec.containers[0].image: Required', PlacedReason.INVALID_POD),
        (400, "BadRequest", "strict decoding error: unknown field spec.x", PlacedReason.INVALID_POD),
        (
            422,
            "Invalid",
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            PlacedReason.REFUSED_BY_POLICY,
        ),
        (400, "BadRequest", 'admission webhook "w" denied the request: no', PlacedReason.REFUSED_BY_POLICY),
    ],
)
def test_a_refusal_is_called_what_it_is(status: int, reason: str, message: str, placed: PlacedReason) -> None:
    assert refusal_reason(ApiError(status, reason, message)) is placed
