"""Scenario 2: the program dies between send and offset commit, with idempotence alone and with transactions."""

from collections import Counter
from dataclasses import replace

from fencepost.lab.scenarios.audit import Shop, check_exactly_once
from fencepost.lab.scenarios.loop import Mode, Point
from fencepost.lab.scenarios.scenario import scenario
from fencepost.lab.scenarios.stage import Stage, ids_of

PURCHASES_MIN, PURCHASES_MAX = 8, 14


@scenario(2)
def restart_idempotence_alone(stage: Stage) -> None:
    """The program dies between send and offset commit: idempotence alone gives duplicates.

    The new producer has a new id and new sequences. The last message is processed again: a duplicate.
    """
    shop, count, _ = _killed_after_send(stage, Mode.IDEMPOTENT)
    stage.tell("Look at the invoices: idempotence ends with the producer's session.")
    times = Counter(ids_of(stage.read(shop.invoices)))
    twice = sorted(purchase for purchase, number in times.items() if number > 1)
    stage.show_readers(shop.invoices, shop.shipments)
    stage.check(len(times) == count, "no purchase is lost", f"{len(times)} of {count} have an invoice")
    stage.check(
        len(twice) == 1, "one customer has two invoices: this is the duplicate that idempotence cannot prevent", twice
    )
    stage.note(f"purchase {', '.join(map(str, twice))} was invoiced twice: the new producer has another id")


@scenario(2)
def restart_transactions(stage: Stage) -> None:
    """The same death with transactions: no duplicates.

    Consuming, producing and committing the offset happen together, or none of them does.
    """
    shop, _, stopped_at = _killed_after_send(stage, Mode.TRANSACTIONAL)
    stage.tell("Look at the invoices.")
    seen = stage.show_readers(shop.invoices, shop.shipments)
    committed, uncommitted = (Counter(ids_of(entries)) for entries in seen[shop.invoices])
    stage.check(
        uncommitted[stopped_at] == 2 and committed[stopped_at] == 1,
        "the invoice of the killed program is in the log, aborted; only read_uncommitted sees it",
        f"read_uncommitted {uncommitted[stopped_at]}, read_committed {committed[stopped_at]}",
    )
    states = stage.show_log(stage.name("shop"))
    stage.check("CompleteAbort" in states, "the coordinator logged the abort", states)
    stage.show_epochs(stage.name("shop"))
    check_exactly_once(stage, shop)


def _killed_after_send(stage: Stage, mode: Mode) -> tuple[Shop, int, int]:
    """Play it up to the successor's end. Returns the number of purchases, and the one that was being processed."""
    shop = Shop.open(stage)
    count = shop.sell(stage, PURCHASES_MIN, PURCHASES_MAX)
    plan = shop.plan(stage, mode=mode, stop_at=Point.SENT, stop_after=stage.random.randint(1, count - 2))
    stage.tell(f"The program runs with {mode}: purchase → invoice + shipment → offset.")
    first = stage.program("program", "loop", plan)
    at = int(first.wait_for("at")["purchase"])
    if mode is Mode.TRANSACTIONAL:
        stage.show_epochs(stage.name("shop"))
    stage.show_offsets(shop.group, shop.inputs(stage), stable=False)
    stage.show_lso(*shop.outputs(stage))
    stage.tell(f"It has sent invoice and shipment of purchase {at}, and not its offset. kill -9.")
    first.kill_all()
    stage.tell("It is started again.")
    second = stage.program("program again", "loop", replace(plan, stop_at=""))
    second.wait_for("done")
    stage.check(second.wait() == 0, "the second run finishes", second.said())
    stage.show_offsets(shop.group, shop.inputs(stage), stable=True)
    return shop, count, at
