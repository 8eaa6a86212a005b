"""Scenario 8 without Spark: the broker or the program stands still for longer than every timeout, then goes on."""

import time
from dataclasses import replace

from fencepost.lab.kit.programs import Program
from fencepost.lab.scenarios.audit import Shop, check_exactly_once
from fencepost.lab.scenarios.loop import FENCED, Plan, Point
from fencepost.lab.scenarios.scenario import Needs, scenario
from fencepost.lab.scenarios.stage import Stage

TIMEOUT_MS = 3_000
BEYOND_S = 2 * TIMEOUT_MS / 1000


@scenario(8, Needs.OWN_BROKER)
def broker_pauses(stage: Stage) -> None:
    """The broker stands still for longer than every timeout, then goes on.

    Being away for longer than any timeout loses nothing and repeats nothing.
    """
    shop, plan, program = _open_transaction(stage, stage.random.randint(2, 6))
    stage.tell(f"SIGSTOP to the broker, for {BEYOND_S:.0f} s.")
    stage.pause_broker()
    program.go_on()
    time.sleep(BEYOND_S)
    stage.tell("SIGCONT. For the broker every timeout is over at once.")
    stage.resume_broker()
    status = program.wait(120)
    ended = program.events[-1] if program.events else {}
    stage.note(f"the program: {ended.get('event')} {ended.get('text', '')}".rstrip(), status=status)
    stage.show_log(stage.name("shop"))
    if status == FENCED:
        stage.tell("The timeout was quicker than the commit. The program was told so, and is started again.")
        _finish(stage, plan)
    else:
        stage.check(status == 0, "the commit was quicker than the timeout, and the program finished", status)
    _look(stage, shop)


@scenario(8)
def program_pauses(stage: Stage) -> None:
    """The program stands still for longer than its transaction's timeout, then commits.

    What the timeout aborted stays aborted; the zombie is fenced by the epoch.
    """
    shop, plan, program = _open_transaction(stage, stage.random.randint(1, 4))
    stage.tell("SIGSTOP to the program.")
    program.pause()
    program.go_on()
    outputs = shop.outputs(stage)
    stage.wait_until_settled(outputs, "the timeout aborts it")
    stage.show_log(stage.name("shop"))
    stage.show_lso(*outputs)
    stage.tell("The timeout has aborted it. A second program takes over, and finishes.")
    _finish(stage, plan)
    stage.tell("SIGCONT. The first program goes on to commit, as if nothing had happened.")
    program.resume()
    status = program.wait(60)
    refused = program.wait_for("refused")
    stage.answer(f"{refused['error']}: {refused['text']}")
    stage.check(status == FENCED and bool(refused["fatal"]), "it is refused for good", program.said())
    _look(stage, shop)


def _open_transaction(stage: Stage, after: int) -> tuple[Shop, Plan, Program]:
    """A program that has done `after` purchases and stands in the middle of the next one."""
    shop = Shop.open(stage)
    shop.sell(stage, 12, 20)
    point = stage.random.choice([Point.SENT, Point.OFFSETS_SENT])
    plan = shop.plan(stage, timeout_ms=TIMEOUT_MS, stop_at=point, stop_after=after)
    program = stage.program("program", "loop", plan)
    purchase = program.wait_for("at")["purchase"]
    stage.show_epochs(stage.name("shop"))
    stage.show_lso(*shop.outputs(stage))
    stage.tell(f"Purchase {purchase} is in an open transaction ({point}), which times out after {TIMEOUT_MS} ms.")
    return shop, plan, program


def _finish(stage: Stage, plan: Plan) -> None:
    successor = stage.program("program again", "loop", replace(plan, stop_at="", timeout_ms=60_000))
    successor.wait_for("done")
    stage.check(successor.wait() == 0, "the successor finishes", successor.said())


def _look(stage: Stage, shop: Shop) -> None:
    stage.show_epochs(stage.name("shop"))
    stage.show_log(stage.name("shop"))
    stage.show_lso(*shop.outputs(stage))
    stage.show_readers(shop.invoices, shop.shipments)
    check_exactly_once(stage, shop)
