"""What the coordinator logged, read back as a scenario shows it."""

import pytest

from fencepost.coordinator.txn import model
from fencepost.coordinator.txn.states import TransactionState
from fencepost.lab.scenarios import view


@pytest.mark.parametrize(
    ("key", "hash_code"),
    [("", 0), ("shop", 3529462), ("polygenelubricants", -(1 << 31)), ("Żółw 🐢", None)],
)
def test_a_key_belongs_to_the_partition_that_javas_hash_of_it_gives(key: str, hash_code: int | None):
    number = 0
    for unit in key.encode("utf-16-be").hex(" ", 2).split():
        number = 31 * number + int(unit, 16)
    signed = (number + (1 << 31)) % (1 << 32) - (1 << 31)
    if hash_code is not None:
        assert signed == hash_code
    expected = 0 if signed == -(1 << 31) else abs(signed) % 50
    assert view.coordinator_partition(key, 50) == expected


def test_a_record_of_the_coordinator_is_read_as_it_was_written():
    transaction = model.Transaction(
        "shop", 7, 3, 60_000, TransactionState.PREPARE_COMMIT, 1, frozenset({("invoices", 0), ("shipments", 1)})
    )
    record = model.encode(transaction)
    assert record.key is not None and record.value is not None
    assert view._transactional_id(record.key) == "shop"
    logged = view._logged(12, record.value)
    assert logged == view.Logged(12, "PrepareCommit", 7, 3, ("invoices-0", "shipments-1"))
    assert view._logged(13, None).state == "Dead"


def test_states_have_the_names_that_the_coordinator_gives_them():
    logged = [state for state in TransactionState if state is not TransactionState.PREPARE_EPOCH_FENCE]
    assert [view.STATES[state] for state in logged] == [state.label for state in logged]


def test_transactions_that_went_alike_are_counted_and_not_repeated():
    def entry(state: str, epoch: int) -> view.Logged:
        return view.Logged(0, state, 0, epoch, ())

    commit = [entry("Ongoing", 0), entry("Ongoing", 0), entry("PrepareCommit", 0), entry("CompleteCommit", 0)]
    abort = [entry("Ongoing", 0), entry("PrepareAbort", 1)]
    assert (
        view.shorten([entry("Empty", 0), *commit, *commit, *abort])
        == "Empty(0); 2× Ongoing(0) → PrepareCommit(0) → CompleteCommit(0); Ongoing(0) → PrepareAbort(1)"
    )
    assert view.shorten([]) == "nothing"
