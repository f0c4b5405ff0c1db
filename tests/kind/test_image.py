"""The image as users meet it: run by hand without any right, and as the operator in a cluster."""

import json
from datetime import datetime

import pytest

from sandberth.kube import names
from tests.kind.bed import IMAGE, KindBed
from tests.kind.installation import OPERATOR, REPORTER, is_ready, pods_of, roll_out

COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "tcc", "as", "ld", "make", "go", "rustc", "pip", "pip3")
NONE = "0000000000000000"  # of the capabilities


@pytest.mark.parametrize("command", [["--help"], ["version"], ["operator", "--help"], ["reporter", "--help"]])
def test_it_answers_without_network_and_root_file_system_to_whoever_runs_it(bed: KindBed, command: list[str]) -> None:
    alone = ["--read-only", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges"]

    answer = bed.docker.run("run", "--rm", "--user=12345:12345", *alone, IMAGE, *command, timeout_seconds=120)

    assert "andberth" in answer or command == ["version"]
    assert answer.strip()


def test_it_runs_as_nobody_in_particular_and_holds_no_compiler(bed: KindBed) -> None:
    script = f"id -u; id -g; for each in {' '.join(COMPILERS)}; do command -v $each; done; echo end"

    answer = bed.docker.run("run", "--rm", "--network=none", "--entrypoint=sh", IMAGE, "-c", script)

    assert answer.split() == ["65532", "65532", "end"]


def test_its_labels_say_what_it_is(bed: KindBed) -> None:
    inspected = bed.docker.run("image", "inspect", "--format", "{{json .Config}}", IMAGE)

    config = json.loads(inspected)
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    assert labels["title"] == "sandberth"
    assert labels["licenses"] == "Apache-2.0"
    assert labels["version"]
    assert labels["revision"]
    assert (config["Entrypoint"], config["User"]) == (["sandberth"], "65532:65532")


@pytest.mark.parametrize("program", [OPERATOR, REPORTER])
def test_it_runs_in_the_cluster_without_root_and_without_a_place_to_write(bed: KindBed, program: str) -> None:
    script = "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/1/status; echo x > /x; echo x > /tmp/x"

    for pod in pods_of(bed, program):
        name: str = pod["metadata"]["name"]
        answer = bed.kubectl("exec", "--namespace", names.NAMESPACE, name, "--", "sh", "-c", script, check=False)
        assert answer.stdout.split() == f"65532 CapEff: {NONE} CapBnd: {NONE} NoNewPrivs: 1 Seccomp: 2".split()
        assert answer.stderr.count("Read-only file system") == 2


def test_the_operator_is_ready_within_seconds(bed: KindBed) -> None:
    bed.kubectl("rollout", "restart", f"deployment/{OPERATOR}", "--namespace", names.NAMESPACE)
    roll_out(bed, f"deployment/{OPERATOR}")

    for pod in filter(is_ready, pods_of(bed, OPERATOR)):
        started = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        ready = next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")["lastTransitionTime"]
        seconds = (datetime.fromisoformat(ready) - datetime.fromisoformat(started)).total_seconds()
        print(f"the operator was ready {seconds:.0f} s after its start")
        assert seconds <= 30  # 5 on a machine that does nothing else
