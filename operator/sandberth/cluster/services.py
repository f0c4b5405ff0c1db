"""Sandberth in a bed: its objects installed, and operator and reporter as processes of this machine.

Both act as their own service accounts with the shipped roles, outlive the command that starts them, and end with the
bed. Nobody starts them again when they die: `status` says "stopped", and another `up` starts them. Their tokens last
as long as the bed's certificates, a year; after that the API server refuses them (401), and the bed is to be made anew.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import Random

from sandberth.cluster import processes
from sandberth.cluster.assets import LOCAL_OVERLAY, assets_directory
from sandberth.cluster.controlplane import BedFolder
from sandberth.cluster.errors import BedApiError, ClusterError, ProgramFailedError
from sandberth.cluster.kubectl import run_kubectl
from sandberth.cluster.local import LocalCluster, service_account_kubeconfig
from sandberth.cluster.places import locked
from sandberth.cluster.ports import LOOPBACK, HeldPorts
from sandberth.cluster.progress import Progress, QuietProgress
from sandberth.cluster.reported import unreported_nodes
from sandberth.cluster.running import ports_of_all_beds
from sandberth.cluster.state import BedState, Service
from sandberth.kube import names

OPERATOR = "operator"
REPORTER = "reporter"
TOKEN_SECONDS = 365 * 86_400
_ACCOUNTS = {OPERATOR: names.OPERATOR_SERVICE_ACCOUNT, REPORTER: names.API_REPORTER_SERVICE_ACCOUNT}
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 5.0
_PORT_ATTEMPTS = 3
_ADDRESS_IN_USE = "address already in use"


def start_all(bed: LocalCluster, *, interval: str, usage: str, progress: Progress | None = None) -> None:
    """Install Sandberth and start what does not run of it; return when every node has been reported.

    On any failure, Ctrl-C included, what was started here is stopped again. Raises ClusterError.
    """
    progress = progress or QuietProgress()
    before = running(bed)
    try:
        with progress.step("installing Sandberth"):
            install(bed)
        with progress.step("starting the operator and the reporter"):
            start_operator(bed)
            start_reporter(bed, interval=interval, usage=usage, progress=progress)
            wait_until_reported(bed)
    except BaseException:
        for name in (REPORTER, OPERATOR):
            if name not in before:
                stop(bed, name)
        raise


def install(bed: LocalCluster) -> None:
    """Apply the CRDs, roles, policies and flags of the local overlay, and wait until the CRDs are served."""
    run_kubectl(bed, "apply", "-k", str(assets_directory() / LOCAL_OVERLAY))
    plurals = (names.SANDBOXES, names.NODECAPACITIES)
    definitions = [f"customresourcedefinition/{plural}.{names.GROUP}" for plural in plurals]
    run_kubectl(bed, "wait", "--for=condition=Established", "--timeout=30s", *definitions)


def start_operator(bed: LocalCluster, *options: str) -> int:
    """Start `sandberth operator` unless it runs; return the port of its probes and metrics once it is ready.

    It takes no part in an election: it is the only one here, and nobody starts it again where it loses a Lease.
    """
    _start(bed, OPERATOR, ["--lease-duration", "0", *options])
    return _wait_until_ready(bed, OPERATOR)


def start_reporter(
    bed: LocalCluster, *, interval: str = "20s", usage: str = "requests", progress: Progress | None = None
) -> int:
    """Start `sandberth reporter --source api` unless it runs; return the port of its probes once it is ready."""
    arguments = ["--source", "api", "--interval", interval, "--usage", usage]
    service = _start(bed, REPORTER, arguments)
    if service.arguments != arguments and progress is not None:
        progress.say(f"the reporter runs with {' '.join(service.arguments)}; run down first to change it")
    return _wait_until_ready(bed, REPORTER)


def running(bed: LocalCluster) -> set[str]:
    """Return the names of the services that run."""
    services = _state(bed).services.items()
    return {name for name, service in services if processes.is_running(service.process)}


def stop(bed: LocalCluster, name: str) -> None:
    """Stop a service in good order, if it runs."""
    service = _state(bed).services.get(name)
    if service is not None:
        processes.stop(service.process)


def report_now(bed: LocalCluster) -> None:
    """Have the reporter report all nodes at once; it returns before that is done. Raises ClusterError if it is dead."""
    process = _service(bed, REPORTER).process
    if not processes.is_running(process):
        raise ProgramFailedError(REPORTER, "is not running", _log(bed, REPORTER))
    os.kill(process.pid, signal.SIGUSR1)


def metrics(bed: LocalCluster, name: str = OPERATOR) -> str:
    """Return what a service tells Prometheus. Raises ProgramFailedError where it does not answer."""
    answer = _ask(_service(bed, name), "/metrics")
    if answer is None:
        raise ProgramFailedError(name, "does not answer", _log(bed, name))
    return answer[1]


def wait_until_reported(bed: LocalCluster) -> None:
    """Return when each Node has a NodeCapacity with a report of that very Node. Raises ClusterError in the end."""
    with bed.api() as api:

        def check() -> bool:
            for name in (OPERATOR, REPORTER):
                if not processes.is_running(_service(bed, name).process):
                    raise ProgramFailedError(name, "ended", _log(bed, name))
            return not unreported_nodes(api)

        if not _comes_true(check):
            log = _log(bed, REPORTER)
            raise ProgramFailedError(REPORTER, f"has not reported {', '.join(unreported_nodes(api)[:3])}", log)


def _start(bed: LocalCluster, name: str, arguments: list[str]) -> Service:
    """Return the service as it runs now, started with these arguments if it did not."""
    folder = BedFolder(bed.directory)
    with locked(bed.lock):
        known = _state(bed).services.get(name)
        if known is not None and processes.is_running(known.process):
            return known
        access = folder.directory / f"{name}.kubeconfig"
        try:
            service_account_kubeconfig(bed, names.NAMESPACE, _ACCOUNTS[name], access, TOKEN_SECONDS)
        except BedApiError as error:
            if error.status == 404:
                raise ClusterError(f"Sandberth is not installed in bed {bed.name}: {error}") from error
            raise
        for _ in range(_PORT_ATTEMPTS):
            service = _spawn(bed, name, access, arguments)
            if _answers(bed, name, service):
                break
        return service


def _spawn(bed: LocalCluster, name: str, access: Path, arguments: list[str]) -> Service:
    folder, state = BedFolder(bed.directory), _state(bed)
    held = HeldPorts([name], ports_of_all_beds(), Random())
    port = held.numbers[name]
    # -P: a file in the folder of whoever calls us does not take the place of a module.
    argv = [sys.executable, "-P", "-m", "sandberth", name, "--kubeconfig", str(access)]
    argv += ["--metrics-host", LOOPBACK, "--metrics-port", str(port), *arguments]
    environment = {"HOME": str(folder.directory), "PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    held.release()
    service = Service(processes.start(argv, folder.log(name), environment), port, arguments)
    state.services[name] = service
    state.write(folder.state)
    return service


def _answers(bed: LocalCluster, name: str, service: Service) -> bool:
    """Wait until the service answers probes: False when somebody took its port. Raises ProgramFailedError."""
    log = _log(bed, name)

    def ended_or_answers() -> bool:
        return not processes.is_running(service.process) or _ask(service, "/livez") is not None

    came_true = _comes_true(ended_or_answers)
    if not processes.is_running(service.process):
        if _ADDRESS_IN_USE in log.read_text(errors="replace")[-4000:]:
            return False
        raise ProgramFailedError(name, "ended while starting", log)
    if not came_true:
        raise ProgramFailedError(name, f"does not answer after {_READY_SECONDS:.0f} s", log)
    return True


def _wait_until_ready(bed: LocalCluster, name: str) -> int:
    service, log = _service(bed, name), _log(bed, name)

    def check() -> bool:
        if not processes.is_running(service.process):
            raise ProgramFailedError(name, "ended while starting", log)
        answer = _ask(service, "/readyz")
        return answer is not None and answer[0] == 200

    if not _comes_true(check):
        raise ProgramFailedError(name, f"is not ready after {_READY_SECONDS:.0f} s", log)
    return service.port


def _ask(service: Service, path: str) -> tuple[int, str] | None:
    """Return the code and the text of the answer, None when there is none; no proxy is asked."""
    connection = HTTPConnection(LOOPBACK, service.port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def _comes_true(claim: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _READY_SECONDS
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _state(bed: LocalCluster) -> BedState:
    state = BedState.read(BedFolder(bed.directory).state)
    if state is None:
        raise ClusterError(f"there is no bed {bed.name}; start it with: sandberth cluster up --name {bed.name}")
    return state


def _service(bed: LocalCluster, name: str) -> Service:
    service = _state(bed).services.get(name)
    if service is None:
        raise ClusterError(f"bed {bed.name} has no {name}; start it with: sandberth cluster up --name {bed.name}")
    return service


def _log(bed: LocalCluster, name: str) -> Path:
    return BedFolder(bed.directory).log(name)
