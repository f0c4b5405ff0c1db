"""The docker that kind calls: the real one, or host/docker before it where "privileged" asks for too much."""

import os
from collections.abc import Mapping
from pathlib import Path

from sandberth.cluster.kind.docker import Docker, DockerError

_WRAPPER = Path(__file__).parent / "host" / "docker"
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "ftp_proxy", "all_proxy")


def kind_environment(
    docker: Docker, image: str, network: str, commands: Path, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment for kind; `commands` is the bed's folder for what comes first on its PATH."""
    # kind would hand the proxies of this machine on to its nodes, which have no business with them.
    wanted = {key: value for key, value in environment.items() if key.lower() not in _PROXIES}
    wanted |= {"KIND_EXPERIMENTAL_PROVIDER": "docker", "KIND_EXPERIMENTAL_DOCKER_NETWORK": network}
    if privileged_works(docker, image):
        return wanted
    commands.mkdir(parents=True, exist_ok=True)
    wrapper = commands / "docker"
    wrapper.write_bytes(_WRAPPER.read_bytes())
    wrapper.chmod(0o755)
    return wanted | {"PATH": f"{commands}:{environment.get('PATH', '')}", "REAL_DOCKER": str(docker.program)}


def privileged_works(docker: Docker, image: str) -> bool:
    """Tell whether a container may have every capability; the surest way is to ask for it."""
    try:
        docker.run("run", "--rm", "--privileged", "--network=none", "--entrypoint=true", image)
    except DockerError as error:
        if "caps" in str(error):  # runc: unable to apply caps: operation not permitted
            return False
        raise
    return True
