"""Every version of some objects, as the API server tells a watch: for what is there only for a moment."""

import json
import subprocess
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.kind.bed import KindBed, Object, path_of

_LONGEST_SECONDS = 3600


class Recording:
    """All versions of one namespace's objects of a kind, from `with` to its end, in their order; none is missing."""

    def __init__(self, bed: KindBed, kind: str, namespace: str) -> None:
        self._bed = bed
        self._namespace = namespace
        self._path = path_of(kind, namespace)
        self._versions: list[Object] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        with self._bed.api() as api:
            listed = api.get(self._path)
        self._versions += listed["items"]
        since = listed["metadata"]["resourceVersion"]  # so it does not matter how long the watch takes to begin
        watch = f"{self._path}?watch=1&resourceVersion={since}&timeoutSeconds={_LONGEST_SECONDS}"
        cluster = self._bed.cluster
        bound = ["--kubeconfig", str(cluster.kubeconfig), "--context", self._bed.context]
        argv = [str(cluster.kubectl), *bound, "get", "--raw", watch]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        assert process is not None
        ended_by_itself = process.poll() is not None
        process.kill()
        process.wait()
        self._reader.join()
        if process.stdout is not None:
            process.stdout.close()
        assert error is not None or not ended_by_itself, "the watch ended early: what it shows is not everything"

    @property
    def versions(self) -> list[Object]:
        """What was seen so far; a deleted object's last version has the field `deleted`."""
        return list(self._versions)

    def wait(self, claim: Callable[[Object], bool], what: str, seconds: float = 60) -> Object:
        """Return the first version of which the claim is true."""
        return self._bed.wait(lambda: next(filter(claim, self.versions), None), what, seconds, self._namespace) or {}

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):  # the end came in the middle of it
                return
            event = json.loads(line)
            version = event["object"]
            self._versions.append(version | {"deleted": True} if event["type"] == "DELETED" else version)
