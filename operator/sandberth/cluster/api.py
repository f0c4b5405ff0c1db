"""Requests to a bed's API server, by the standard library alone."""

import http.client
import json
import ssl
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from sandberth.cluster.errors import BedApiError, BedUnreachableError


class BedApi:
    """One connection with the administrator's certificate, opened on first use; not for several threads."""

    def __init__(self, server: str, ca_file: Path, certificate: Path, key: Path, timeout_seconds: float = 30) -> None:
        context = ssl.create_default_context(cafile=ca_file)
        context.load_cert_chain(certificate, key)
        address = urlsplit(server)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=context, timeout=timeout_seconds
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def get(self, path: str) -> Any:
        """Return the object, or the text where the answer is none. Raises BedApiError, BedUnreachableError."""
        return self.request("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Create an object and return it as stored. Raises BedApiError, BedUnreachableError."""
        return self.request("POST", path, body)

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the decoded answer. Raises BedApiError when refused, BedUnreachableError when there is none."""
        content = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise BedUnreachableError(f"{method} {path}: {error}") from error
        value: Any = text
        with suppress(ValueError):
            value = json.loads(text)
        if answer.status >= 400:
            message = value.get("message", "") if isinstance(value, dict) else text.strip()
            raise BedApiError(method, path, answer.status, " ".join(message.split()))
        return value
