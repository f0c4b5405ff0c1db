"""Sandboxes whose Pod the kubelet ends, or never starts."""

from sandberth.kube import names
from tests.kind.bed import IMAGE, KindBed, a_sandbox
from tests.kind.rooms import a_container, a_templated_sandbox, condition_of
from tests.kind.watching import Recording

EVICTION_SECONDS = 240  # the kubelet measures volumes once a minute
# Not with 0: of a Pod whose program ends well when it is told to, the kubelet does not say that it was evicted.
INTERRUPTED = ("sh", "-c", "trap 'exit 143' TERM; sleep 86400 & wait")


def test_an_evicted_sandbox_recovers_as_its_policy_says_and_tells_why(bed: KindBed, namespace: str) -> None:
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    program = a_container(command=INTERRUPTED, volumeMounts=mounts)
    fields = {"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}]}
    bed.apply(
        [
            a_templated_sandbox(policy.lower(), program, fields=fields, recovery=policy)
            for policy in ("Recreate", "Never")
        ],
        namespace,
    )
    for name in ("recreate", "never"):
        bed.wait_for_phase(name, namespace=namespace)

    with Recording(bed, names.SANDBOX_KIND, namespace) as sandboxes:
        for name in ("recreate", "never"):
            bed.exec(name, "dd", "if=/dev/zero", "of=/scratch/big", "bs=1M", "count=8", namespace=namespace)
        failed = bed.wait_for_phase("never", names.Phase.FAILED, namespace, EVICTION_SECONDS)
        lost = sandboxes.wait(
            lambda box: box["metadata"]["name"] == "recreate" and condition_of(box, "Placed")["reason"] == "PodLost",
            "the eviction of the other one is told",
            EVICTION_SECONDS,
        )
        recovered = bed.wait_for_phase("recreate", namespace=namespace)

    for told in (condition_of(failed, "Finished")["message"], condition_of(lost, "Placed")["message"]):
        assert "the Pod was lost on " in told
        assert 'Evicted: Usage of EmptyDir volume "scratch" exceeds the limit "1Mi"' in told
    assert condition_of(failed, "Finished")["reason"] == "Failed"
    assert failed["status"]["placement"]["attempt"] == 1
    assert recovered["status"]["placement"]["attempt"] == 2
    assert bed.exec("recreate", "ls", "/scratch", namespace=namespace) == ""


def test_a_sandbox_that_takes_more_memory_than_its_size_fails_as_oomkilled(bed: KindBed, namespace: str) -> None:
    greedy = ["python3", "-c", "hoard = []\nwhile True: hoard.append(b'x' * 2**20)"]
    bed.apply(a_sandbox(memory="32Mi", command=greedy), namespace)

    failed = bed.wait_for_phase("box", names.Phase.FAILED, namespace)

    finished = condition_of(failed, "Finished")
    assert finished["reason"] == "Failed"
    assert "exit code 137" in finished["message"]
    assert "OOMKilled" in finished["message"]
    assert "OOMKilled" in bed.kubectl("describe", "sandbox", "box", "--namespace", namespace).stdout


def test_an_image_that_cannot_be_had_ends_at_the_start_deadline(bed: KindBed, namespace: str) -> None:
    absent = a_container() | {"image": f"{IMAGE}-absent"}
    lifetime = {"startDeadlineSeconds": 15}
    with Recording(bed, names.SANDBOX_KIND, namespace) as sandboxes:
        bed.apply(a_templated_sandbox("box", absent, lifetime=lifetime), namespace)
        waiting = sandboxes.wait(
            lambda box: condition_of(box, "Ready").get("reason") == "ImagePullFailed", "the missing image is told", 60
        )
        failed = bed.wait_for_phase("box", names.Phase.FAILED, namespace, 90)

    assert waiting["status"]["phase"] == names.Phase.STARTING
    assert "ErrImageNeverPull" in condition_of(waiting, "Ready")["message"]
    finished = condition_of(failed, "Finished")
    assert finished["reason"] == "StartDeadlineExceeded"
    assert "the Pod did not run within 15 s" in finished["message"]
    assert "ErrImageNeverPull" in finished["message"]
    bed.wait(lambda: bed.get("Pod", "box", namespace) is None, "its Pod is gone", namespace=namespace)
