"""The programs of one bed as they run: started in order, watched while they start, stopped in reverse."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from sandberth.cluster import processes
from sandberth.cluster.api import BedApi
from sandberth.cluster.controlplane import PORT_NAMES, START_ORDER, BedFolder, arguments, write_client_configs
from sandberth.cluster.errors import BedApiError, BedUnreachableError, ClusterError, ProgramFailedError
from sandberth.cluster.places import beds_directory
from sandberth.cluster.ports import LOOPBACK, HeldPorts, accepts_connections
from sandberth.cluster.state import BedOptions, BedState

READY_SECONDS = 120.0
_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 3.0  # short: what holds our port may accept and say nothing
_PORT_ATTEMPTS = 5
_ADDRESS_IN_USE = "address already in use"


def programs_of(options: BedOptions) -> list[str]:
    """Return the programs that run in such a bed, in the order of their start."""
    return [name for name in START_ORDER if options.scheduler or name != "kube-scheduler"]


class RunningPrograms:
    """What runs in one bed; every start is in the state file before anything else happens."""

    def __init__(self, folder: BedFolder, state: BedState) -> None:
        self._folder = folder
        self.state = state

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://{LOOPBACK}:{self.state.ports['kube-apiserver']}"

    def api(self, timeout_seconds: float = 30.0) -> BedApi:
        """Return a connection as the administrator, to be closed by `with`."""
        pki = self._folder.pki
        return BedApi(self.server, pki / "ca.crt", pki / "admin.crt", pki / "admin.key", timeout_seconds)

    def start_all(self) -> None:
        """Choose ports and start everything; return when the API server is ready and the controllers work."""
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            try:
                self._start_servers()
                break
            except ProgramFailedError as error:
                if attempt == _PORT_ATTEMPTS or _ADDRESS_IN_USE not in error.log.read_text(errors="replace"):
                    raise
                self.stop_all()  # somebody took a port between our release and the program's bind
                error.log.unlink()
                shutil.rmtree(self._folder.directory / "etcd", ignore_errors=True)
        for name in programs_of(self.state.options):
            if name not in PORT_NAMES:
                self._start(name)
        # Every pod needs this account, and making it shows that the controllers work.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait("kube-controller-manager", lambda: self._is_there(account))
        self.check()

    def stop_all(self) -> None:
        """Stop everything that was started, the last first; services before the API server that they talk to."""
        for service in reversed(self.state.services.values()):
            processes.stop(service.process)
        for process in reversed(self.state.processes.values()):
            processes.stop(process)

    def stop(self, name: str, *, crash: bool) -> None:
        """Stop one program; its port stays its own."""
        process = self._process(name)
        if crash:
            processes.kill(process)
        else:
            processes.stop(process)

    def restart(self, name: str) -> None:
        """Start a stopped program as it was; return when it answers, if it is one that answers."""
        if not processes.is_running(self._process(name)):
            self._start(name)
        self._wait_until_it_answers(name)

    def check(self) -> None:
        """Raise ProgramFailedError for the first program that does not run."""
        for name, process in self.state.processes.items():
            if not processes.is_running(process):
                raise ProgramFailedError(name, "is not running", self._folder.log(name))

    def all_run(self) -> bool:
        """Tell whether every program that belongs to the bed runs."""
        known = self.state.processes
        return all(name in known and processes.is_running(known[name]) for name in programs_of(self.state.options))

    def is_ready(self) -> bool:
        """Tell whether the API server says that it is ready."""
        return "kube-apiserver" in self.state.ports and self._is_there("/readyz")

    def _start_servers(self) -> None:
        held = HeldPorts(PORT_NAMES, ports_of_all_beds(), random.Random())
        try:
            self.state.ports = held.numbers
            self.state.write(self._folder.state)
            write_client_configs(self._folder, self.server)
            for name, ports in (("etcd", ("etcd", "etcd-peer")), ("kube-apiserver", ("kube-apiserver",))):
                held.release(*ports)
                self._start(name)
                self._wait_until_it_answers(name)
        finally:
            held.release()

    def _start(self, name: str) -> None:
        environment = {"HOME": str(self._folder.directory), "PATH": "/usr/bin:/bin"}
        flags = arguments(name, self._folder, self.state.ports, audit=self.state.options.audit)
        argv = [str(Path(self.state.programs_directory) / name), *flags]
        self.state.processes[name] = processes.start(argv, self._folder.log(name), environment)
        self.state.write(self._folder.state)

    def _wait_until_it_answers(self, name: str) -> None:
        if name == "etcd":
            self._wait(name, lambda: accepts_connections(self.state.ports["etcd"]))
        elif name == "kube-apiserver":
            self._wait(name, self.is_ready)

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            # The program first: what answers on the port of one that has ended is somebody else.
            if not processes.is_running(self.state.processes[name]):
                raise ProgramFailedError(name, "ended while starting", self._folder.log(name))
            if ready():
                return
            if time.monotonic() > deadline:
                raise ProgramFailedError(name, f"is not ready after {READY_SECONDS:.0f} s", self._folder.log(name))
            time.sleep(_POLL_SECONDS)

    def _process(self, name: str) -> processes.Process:
        process = self.state.processes.get(name)
        if process is None:
            raise ClusterError(f"the bed has no program {name}, only {', '.join(self.state.processes)}")
        return process

    def _is_there(self, path: str) -> bool:
        try:
            with self.api(_ANSWER_SECONDS) as api:
                api.get(path)
        except (BedApiError, BedUnreachableError, OSError):  # OSError: not even its certificates are there
            return False
        return True


def ports_of_all_beds() -> set[int]:
    """Return the ports that beds own, also while their programs are stopped for a test."""
    states = map(BedState.read, beds_directory().glob("*/state.json"))
    return {port for state in states if state is not None for port in state.used_ports}
