"""Every version of some objects, as `kubectl get --watch` prints it: for what is there only for a moment."""

import json
import subprocess
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.kind.bed import KindBed, Object


class Recording:
    """All versions of one namespace's objects of a kind, from `with` to its end, in their order."""

    def __init__(self, bed: KindBed, resource: str, namespace: str) -> None:
        bound = ["--kubeconfig", str(bed.cluster.kubeconfig), "--context", bed.context, "--namespace", namespace]
        options = ["--watch", "--output-watch-events", "--output=json"]
        self._argv = [str(bed.cluster.kubectl), *bound, "get", resource, *options]
        self._bed = bed
        self._namespace = namespace
        self._versions: list[Object] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._argv, stdout=subprocess.PIPE, text=True)
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

    def of(self, name: str) -> list[Object]:
        """Return the versions of one object."""
        return [each for each in self.versions if each["metadata"]["name"] == name]

    def wait(self, claim: Callable[[Object], bool], what: str, seconds: float = 60) -> Object:
        """Return the first version of which the claim is true."""
        return self._bed.wait(lambda: next(filter(claim, self.versions), None), what, seconds, self._namespace) or {}

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            version = event["object"]
            self._versions.append(version | {"deleted": True} if event["type"] == "DELETED" else version)
