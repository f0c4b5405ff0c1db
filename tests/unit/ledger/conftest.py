"""The ledger that each test starts with."""

import pytest

from sandberth.core.ledger import Ledger
from tests.unit.ledger.books import NODE, OTHER


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.node_appeared(NODE, "node-a")
    ledger.node_appeared(OTHER, "node-b")
    return ledger
