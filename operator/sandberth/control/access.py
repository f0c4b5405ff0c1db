"""Which reads the API server refuses this operator (401, 403), and since when: an operator locked out is not ready."""

from collections.abc import Callable

from sandberth.core.errors import SandberthError
from sandberth.kube.errors import ApiError

_PATIENCE_SECONDS = 15.0  # roles are replaced and tokens renewed without anybody being locked out


class Access:
    """The refusals in force, by what was read; one answer that is no refusal ends them."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._refused: dict[str, tuple[float, str]] = {}  # what was read -> first refusal, newest message

    @property
    def is_refused(self) -> bool:
        """Whether any read was refused when it was last tried."""
        return bool(self._refused)

    def answered(self, what: str) -> None:
        """A read succeeded."""
        self._refused.pop(what, None)

    def failed(self, what: str, error: SandberthError) -> None:
        """A read failed; an API server that does not answer says nothing about our rights, so nothing changes."""
        if not isinstance(error, ApiError):
            return
        if error.status not in {401, 403}:
            self._refused.pop(what, None)
            return
        since, _ = self._refused.get(what, (self._now_s(), ""))
        self._refused[what] = since, str(error)

    def trouble(self) -> str | None:
        """Return what has been refused for long, None where nothing has."""
        for what, (since, message) in self._refused.items():
            if self._now_s() - since >= _PATIENCE_SECONDS:
                return f"reading {what} is refused: {message}"
        return None
