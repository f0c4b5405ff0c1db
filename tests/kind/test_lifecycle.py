"""A Sandbox on a real kubelet, from apply to delete."""

from sandberth.kube import names
from tests.kind.bed import KindBed, a_sandbox


def test_a_sandbox_runs_answers_exec_and_logs_and_goes(bed: KindBed, namespace: str) -> None:
    bed.apply(a_sandbox("box", cpu="100m", memory="48Mi"), namespace)
    sandbox = bed.wait_for_phase("box", namespace=namespace)

    assert sandbox["status"]["nodeName"] in bed.workers
    assert bed.exec("box", "python3", "-c", "print(6 * 7)", namespace=namespace) == "42\n"
    assert bed.logs("box", namespace) == "hello\n"

    bed.kubectl("delete", "sandbox", "box", "--namespace", namespace, "--timeout=60s")
    bed.wait(lambda: bed.get("Pod", "box", namespace) is None, "the Pod is gone", namespace=namespace)
    assert bed.get(names.SANDBOX_KIND, "box", namespace) is None


def test_the_kubelet_enforces_the_size(bed: KindBed, namespace: str) -> None:
    whoami = "import os; print(os.getuid())"
    bed.apply(a_sandbox("box", memory="48Mi"), namespace)
    bed.wait_for_phase("box", namespace=namespace)

    pod = bed.get("Pod", "box", namespace)
    assert pod is not None
    limits = pod["spec"]["containers"][0]["resources"]
    assert limits["requests"]["memory"] == "48Mi"
    assert bed.exec("box", "python3", "-c", whoami, namespace=namespace) == "65532\n"
    cgroup = "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
    assert bed.exec("box", "sh", "-c", cgroup, namespace=namespace) == f"{48 * 2**20}\n"


def test_a_program_that_ends_is_succeeded_or_failed(bed: KindBed, namespace: str) -> None:
    bed.apply(
        [
            a_sandbox(name, command=["python3", "-c", f"raise SystemExit({code})"])
            for name, code in (("good", 0), ("bad", 3))
        ],
        namespace,
    )

    bed.wait_for_phase("good", names.Phase.SUCCEEDED, namespace)
    bed.wait_for_phase("bad", names.Phase.FAILED, namespace)
