"""A namespace that is deleted with its Sandboxes in it."""

from collections import Counter

from sandberth.kube import names
from tests.kind.bed import KindBed, a_sandbox
from tests.kind.installation import report_of, wait_for_true_views
from tests.kind.rooms import SLEEPING

COUNT = 50
SECONDS = 300


def test_a_namespace_goes_with_fifty_sandboxes_and_the_ledger_forgets_them(bed: KindBed, namespace: str) -> None:
    boxes = [a_sandbox(f"box-{number}", cpu="100m", memory="16Mi", command=SLEEPING) for number in range(COUNT)]
    bed.apply(boxes, namespace)

    def phases() -> Counter[str]:
        return Counter(box.get("status", {}).get("phase", "") for box in bed.list(names.SANDBOX_KIND, namespace))

    bed.wait(lambda: phases() == {"Running": COUNT}, f"{COUNT} run", SECONDS, namespace)
    uids = {box["metadata"]["uid"] for box in bed.list(names.SANDBOX_KIND, namespace)}

    bed.kubectl("delete", "namespace", namespace, f"--timeout={SECONDS}s", timeout_seconds=SECONDS + 20)

    assert bed.get("Namespace", namespace) is None
    left = [pod for pod in bed.list("Pod") if pod["metadata"]["namespace"] == namespace]
    assert left == []
    wait_for_true_views(bed, SECONDS)

    def still_reported() -> list[str]:
        lines = [line for node in bed.workers for line in report_of(bed, node).sandboxes]
        return [line for line in lines if line.partition(".")[0] in uids]

    bed.wait(lambda: not still_reported(), "no report lists any of them", SECONDS)
