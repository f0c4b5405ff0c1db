"""The lines that point a user's shell at a bed."""

import shlex
from pathlib import Path


def shell_lines(kubeconfig: Path, kubectl_folder: Path, path: str, commands: Path) -> list[str]:
    """Return what to `eval`; `path` is the present PATH.

    The bed's kubectl comes first on PATH. The folder `commands`, where `sandberth` is, comes last: it may hold a whole
    Python, which is not to take over.
    """
    lines = [f"export KUBECONFIG={shlex.quote(str(kubeconfig))}"]
    present = path.split(":")
    if present[0] != str(kubectl_folder):
        lines.append(f'export PATH={shlex.quote(str(kubectl_folder))}:"$PATH"')
    if str(commands) not in present:
        lines.append(f'export PATH="$PATH":{shlex.quote(str(commands))}')
    lines.append("hash -r")
    return lines
