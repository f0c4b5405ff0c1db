"""What the answer to a Pod's create means: for the room, for the Sandbox, and for the next try.

Source: design rule "an attempt whose outcome is unknown is never followed by another".
"""

from enum import StrEnum

from sandberth.core.errors import SandberthError
from sandberth.kube.errors import ApiError
from sandberth.kube.names import PlacedReason

_POLICY_SIGNS = ("ValidatingAdmissionPolicy", "admission webhook")


class Outcome(StrEnum):
    """What became of a create."""

    CREATED = "created"
    EXISTS = "exists"  # the name is taken: by our own earlier try, or by somebody else
    REFUSED = "refused"  # definitely not created
    UNKNOWN = "unknown"  # perhaps created: only the same create, sent again, tells


def outcome_of(error: SandberthError) -> Outcome:
    """Return what a failed create means for its attempt."""
    if isinstance(error, ApiError):
        if error.already_exists:
            return Outcome.EXISTS
        if error.is_definite_refusal:
            return Outcome.REFUSED
    return Outcome.UNKNOWN


def refusal_reason(error: ApiError) -> PlacedReason:
    """Return the condition reason for a definite refusal by namespace or policy."""
    if any(sign in error.message for sign in _POLICY_SIGNS):  # policies and webhooks choose reason and code at will
        return PlacedReason.REFUSED_BY_POLICY
    if error.reason in {"Invalid", "BadRequest"} or error.status in {400, 413, 422}:
        return PlacedReason.INVALID_POD
    if "exceeded quota" in error.message:
        return PlacedReason.QUOTA_EXCEEDED
    return PlacedReason.REFUSED_BY_POLICY
