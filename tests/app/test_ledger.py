"""The ledger of testproject/: what each guard is worth when every lease is lost once."""

from __future__ import annotations

import pytest

from tests.app.conftest import ROOT

PAGE = ROOT / "docs" / "explanation" / "ledger.md"
ORDERS = 6


@pytest.fixture
def ledger(manage):
    """Run the command, and return charges and orders charged twice by guard."""
    assert manage("migrate", "--verbosity", "0").returncode == 0
    done = manage("ledger", "--orders", str(ORDERS))
    assert done.returncode == 0, done.stderr
    rows = [line.rsplit(maxsplit=3) for line in done.stdout.splitlines()[1:]]
    assert all(int(orders) == ORDERS for _, orders, _, _ in rows)
    return {guard: (int(charges), int(twice)) for guard, _, charges, twice in rows}


def test_only_a_key_and_a_fenced_row_keep_each_order_at_one_charge(ledger):
    assert ledger["no guard"] == (2 * ORDERS, ORDERS)
    charges, twice = ledger["the ledger checks the fencing token"]
    # It refuses who comes late, not who charges first and loses its lease then: every other one.
    assert ORDERS // 2 <= twice <= ORDERS
    assert charges == ORDERS + twice
    assert ledger["the ledger looks for the idempotency key"] == (ORDERS, 0)
    assert ledger["atomic=True"] == (ORDERS, 0)
    for guard in ledger:
        assert guard in PAGE.read_text()
