"""`sandberth reporter --source kubelet` as a process, between a kubelet and an API server on loopback."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench.reporter_cost import CAPACITY, api_of, arguments, kubelet_of
from tests.certificates import Pair, self_signed
from tests.http_fake import HttpFake, Reply, http_fake

STATUS = f"{CAPACITY}/status"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return self_signed(tmp_path_factory.mktemp("pki"), "node-1", "127.0.0.1")


@pytest.fixture
def kubelet(pair: Pair) -> Iterator[HttpFake]:
    with http_fake(pair) as fake:
        kubelet_of(fake, 3)
        yield fake


@pytest.fixture
def api(pair: Pair) -> Iterator[HttpFake]:
    with http_fake(pair) as fake:
        api_of(fake)
        yield fake


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def start(tmp_path: Path, pair: Pair, kubelet: HttpFake, api: HttpFake, log: Path) -> Iterator[Start]:
    """Start the command against both; it is killed at the end if it still runs."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "sandberth", *arguments(tmp_path, pair, kubelet, api), *options]
        with log.open("ab") as file:
            started.append(subprocess.Popen(command, stdout=file, stderr=file))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait(10)


def metrics(log: Path) -> str:
    port = log.read_text().partition("Probes and metrics on port ")[2].partition(".")[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def test_it_reports_and_ends_well(start: Start, api: HttpFake, log: Path) -> None:
    process = start("--interval", "200ms")
    first, *later = [request.body for request in api.until_asked(STATUS, 3)]
    text = metrics(log)

    process.terminate()

    assert process.wait(5) == 0
    assert first["metadata"] == {"uid": "capacity-uid", "resourceVersion": "1"}
    assert first["status"]["report"]["pods"] == 3
    assert [patch[-1]["value"]["sequence"] for patch in later[:2]] == [2, 3]
    assert "sandberth_reporter_pods 3" in text
    assert "Traceback" not in log.read_text()


def test_a_signal_reports_at_once(start: Start, api: HttpFake) -> None:
    process = start("--interval", "1h")
    api.until_asked(STATUS)

    process.send_signal(signal.SIGUSR1)

    api.until_asked(STATUS, 2)


@pytest.mark.parametrize("path", ["/pods", "/stats/summary"])
def test_it_ends_at_once_while_the_kubelet_hangs(start: Start, kubelet: HttpFake, path: str) -> None:
    kubelet.answers[path] = Reply(how="hang")
    process = start()
    kubelet.until_asked(path)
    began = time.monotonic()

    process.send_signal(signal.SIGTERM)

    assert process.wait(5) == 0
    assert time.monotonic() - began < 2


def test_it_keeps_the_process_id_and_leaves_the_command_line_behind(start: Start, api: HttpFake) -> None:
    process = start("--interval", "1h")
    api.until_asked(STATUS)

    command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")

    assert b"sandberth.reporter.kubelet_process" in command
    assert b"a-token" not in b"".join(command)


def test_it_stays_small_with_a_hundred_pods(start: Start, api: HttpFake, kubelet: HttpFake) -> None:
    kubelet_of(kubelet, 100)
    process = start("--interval", "100ms")
    api.until_asked(STATUS, 10)

    status = Path(f"/proc/{process.pid}/status").read_text()

    peak_kib = int(status.partition("VmHWM:")[2].split()[0])
    assert peak_kib < 40 * 1024  # 30 MiB with Python 3.11 on x86-64


def test_environment_variables_stand_for_options(pair: Pair, kubelet: HttpFake, api: HttpFake, tmp_path: Path) -> None:
    options = arguments(tmp_path, pair, kubelet, api)
    pairs = zip(options[1::2], options[2::2], strict=True)
    twins = {name.removeprefix("--").replace("-", "_"): value for name, value in pairs}
    environment = {f"SANDBERTH_{name.upper()}": value for name, value in twins.items()}

    with subprocess.Popen(
        [sys.executable, "-m", "sandberth", "reporter"], env={**os.environ, **environment}, stderr=subprocess.DEVNULL
    ) as process:
        try:
            api.until_asked(STATUS)
        finally:
            process.terminate()
