"""Docker's command line: found, asked whether its daemon answers, and run with its complaints in one line."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from sandberth.cluster.errors import ClusterError

_ANSWER_SECONDS = 10.0


class DockerError(ClusterError):
    """Docker refused a command."""


class Docker:
    """A Docker whose daemon has answered: `find_docker` gives one."""

    def __init__(self, program: Path) -> None:
        self.program = program

    def run(
        self,
        *arguments: str,
        text: str | None = None,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        timeout_seconds: float | None = None,
    ) -> str:
        """Return what the command prints. Raises DockerError with the last line of its complaint."""
        argv = [str(self.program), *arguments]
        try:
            if text is not None:
                answer = subprocess.run(
                    argv, input=text.encode(), capture_output=True, check=False, timeout=timeout_seconds
                )
            else:
                answer = subprocess.run(argv, stdin=stdin, capture_output=True, check=False, timeout=timeout_seconds)
        except subprocess.TimeoutExpired as error:
            raise DockerError(f"docker {arguments[0]} gave no answer within {timeout_seconds:.0f} s") from error
        output = answer.stdout.decode(errors="replace")
        if answer.returncode != 0:
            raise DockerError(f"docker {' '.join(arguments[:2])} failed: {_complaint(answer.stderr) or output.strip()}")
        return output

    def succeeds(self, *arguments: str, timeout_seconds: float | None = None) -> bool:
        """Tell whether the command ends with 0."""
        try:
            self.run(*arguments, timeout_seconds=timeout_seconds)
        except DockerError:
            return False
        return True

    def has_image(self, name: str) -> bool:
        """Tell whether an image of this name is here; nothing is pulled."""
        return self.succeeds("image", "inspect", name)

    def lines(self, *arguments: str) -> list[str]:
        """Return the lines that the command prints."""
        return self.run(*arguments).split("\n")[:-1]


def find_docker(environment: Mapping[str, str] = os.environ) -> Docker:
    """Return a Docker that answers. Raises ClusterError that says what to install or to start."""
    found = shutil.which("docker", path=environment.get("PATH"))
    if found is None:
        raise ClusterError(
            "--provider kind needs Docker, and there is no docker on PATH: install it (on Debian and Ubuntu: "
            "apt-get install docker.io) and start it, or use --provider local"
        )
    docker = Docker(Path(found))
    try:
        docker.run("version", "--format", "{{.Server.Version}}", timeout_seconds=_ANSWER_SECONDS)
    except DockerError as error:
        raise ClusterError(
            f"Docker is installed but its daemon does not answer ({error}): start it (systemctl start docker, or "
            "service docker start) and see that you may use it, or use --provider local"
        ) from error
    return docker


def _complaint(said: bytes) -> str:
    """Return the last line that is not Docker's pointer to its help."""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines()]
    told = [line for line in lines if line and not line.startswith(("See 'docker", "Run 'docker"))]
    return told[-1] if told else ""
