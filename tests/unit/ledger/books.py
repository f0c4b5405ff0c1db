"""What the tests of the ledger share: two nodes, one size, and short words for what is asked of it."""

from sandberth.core.ledger import Ledger
from sandberth.core.resources import Resources
from sandberth.core.views import View
from tests.builders import NOW_S, a_report, a_size, some_requests

NODE = "uid-of-node-a"
OTHER = "uid-of-node-b"
X = "sandbox.1"
SIZE = a_size()


def reserve(ledger: Ledger, attempt_id: str = X, node_uid: str = NODE, size: Resources = SIZE) -> None:
    ledger.reserve(attempt_id, node_uid, size, some_requests(size))


def held(ledger: Ledger, node_uid: str = NODE) -> Resources:
    ledger.verify()
    return ledger.account(node_uid).held


def reconciled(ledger: Ledger, node_uid: str = NODE) -> Resources:
    ledger.verify()
    return ledger.account(node_uid).reconciled


def optimistic(ledger: Ledger, node_uid: str = NODE) -> Resources:
    """Return the optimistic sum just after a report (a node without one has the reconciled sum in every view)."""
    return ledger.account(node_uid).accounted(View.OPTIMISTIC, NOW_S)


def report(ledger: Ledger, sequence: int = 1, *listed: str, node_uid: str = NODE, complete: bool = True) -> None:
    """Let a node report that it runs these attempts, one SIZE each."""
    total = Resources(len(listed) * SIZE.cpu_millicores, len(listed) * SIZE.memory_bytes)
    sandboxes = dict.fromkeys(listed, SIZE)
    assert ledger.accept_report(
        a_report(node_uid, sequence, allocated=total, sandboxes=sandboxes, complete=complete), NOW_S
    )
