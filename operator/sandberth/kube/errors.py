"""What a request to the API server can end in, apart from success.

    SandberthError
    +-- ApiError      the server answered, and said no
    +-- Unreachable   no answer: whether a write was executed is unknown

Nothing here retries: the callers decide, by `status.reason` first and by the HTTP code only where the answer
carries no reason (a webhook may deny with any code, a proxy may answer for the server).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from sandberth.core.errors import SandberthError

# A refusal is about the request itself: it was not executed, and the same request would be refused again.
_REFUSALS = frozenset(
    {
        "AlreadyExists",
        "BadRequest",
        "Expired",
        "Forbidden",
        "Gone",
        "Invalid",
        "MethodNotAllowed",
        "NotAcceptable",
        "NotFound",
        "RequestEntityTooLarge",
        "UnsupportedMediaType",
    }
)
_TRANSIENT = frozenset(
    {"Conflict", "InternalError", "ServerTimeout", "ServiceUnavailable", "Timeout", "TooManyRequests", "Unauthorized"}
)
_TRANSIENT_CODES = frozenset({401, 408, 409, 425, 429})
_TEXT_LIMIT = 500


class ApiError(SandberthError):
    """The server's answer to a request that it did not carry out as asked.

    `reason` is `Status.reason`, "" where the answer was no Status or gave none. `retry_after_seconds` is None
    unless the server asked for a pause.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{status} {reason or 'without a reason'}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.details: Mapping[str, Any] = details or {}

    @classmethod
    def from_response(cls, status: int, body: bytes, retry_after: str | None = None) -> "ApiError":
        """Read a Status, or keep the beginning of any other text as the message."""
        try:
            document = msgspec.json.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            document = None
        if isinstance(document, dict) and document.get("kind") == "Status":
            return cls.from_status(document, status=status, retry_after=retry_after)
        text = body[:_TEXT_LIMIT].decode("utf-8", "replace").strip()
        return cls(status, "", text or "empty answer", retry_after_seconds=_seconds(retry_after))

    @classmethod
    def from_status(
        cls, document: Mapping[str, Any], *, status: int | None = None, retry_after: str | None = None
    ) -> "ApiError":
        """Read a Status object, such as the one inside a watch's ERROR event."""
        details = document.get("details") or {}
        pause = _seconds(retry_after)
        if pause is None:
            pause = _seconds(details.get("retryAfterSeconds"))
        return cls(
            status or int(document.get("code") or 0),
            document.get("reason") or "",
            document.get("message") or "no message",
            retry_after_seconds=pause,
            details=details,
        )

    @property
    def already_exists(self) -> bool:
        """An object of that name is there; whose it is, only a GET tells."""
        return self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """The object changed in between, or (for a delete by UID) is another one by now."""
        return self.reason == "Conflict" or (self.status == 409 and not self.reason)

    @property
    def not_found(self) -> bool:
        """The object, or for a create its namespace, does not exist."""
        return self.reason == "NotFound" or (self.status == 404 and not self.reason)

    @property
    def gone(self) -> bool:
        """The resourceVersion or the continue token is too old: list again."""
        return self.reason in {"Expired", "Gone"} or (self.status == 410 and not self.reason)

    @property
    def is_definite_refusal(self) -> bool:
        """The request was not executed and will not be, as it stands."""
        if self.reason in _REFUSALS:
            return True
        if self.reason in _TRANSIENT:
            return False
        return 400 <= self.status < 500 and self.status not in _TRANSIENT_CODES

    @property
    def is_transient(self) -> bool:
        """The same request may succeed later. After a 5xx a write may have been executed all the same."""
        return not self.is_definite_refusal


class Unreachable(SandberthError):  # noqa: N818 - it says what is known, which is not that something is wrong
    """No whole answer came: refused, reset, timed out. The outcome of a write is unknown."""

    def __init__(self, method: str, path: str, cause: BaseException) -> None:
        super().__init__(f"{method} {path}: {type(cause).__name__}: {cause}".rstrip(": "))
        self.method = method
        self.path = path


def _seconds(value: Any) -> float | None:
    """Return a non-negative number of seconds, or None for what is none (an HTTP date included)."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds < float("inf") else None
