"""Scenario 6: a transaction is left open; the LSO holds readers back until the timeout aborts it."""

import time

from fencepost.errors import ErrorCode
from fencepost.lab.scenarios.scenario import Scenario
from fencepost.lab.scenarios.stage import Stage
from fencepost.lab.scenarios.zombie import REFUSALS
from fencepost.shop import INVOICES
from fencepost.wire.terms import Isolation, TopicPartition

TIMEOUT_MS = 3_000
BEHIND = 3


def left_open(stage: Stage) -> None:
    where = TopicPartition(stage.topics(INVOICES)[0], 0)
    for protocol in stage.protocols():
        silent_name, busy_name = stage.name(f"silent-p{protocol}"), stage.name(f"busy-p{protocol}")
        silent, busy = stage.producer(protocol), stage.producer(protocol)
        start = stage.view.ends([where])[where].end
        visible = len(stage.read(where.topic))
        silent.init(silent_name, TIMEOUT_MS)
        silent.prepare([where])
        opened_s = time.monotonic()
        stage.tell(f"Protocol {protocol}: a producer opens a transaction (timeout {TIMEOUT_MS} ms) and falls silent.")
        silent.produce(where, [b'{"by":"silent"}'])
        stage.tell(f"Another one commits {BEHIND} invoices behind it.")
        busy.init(busy_name)
        busy.prepare([where])
        busy.produce(where, [b'{"by":"busy","n":%d}' % n for n in range(BEHIND)])
        code = busy.end(commit=True)
        stage.check(not code, "its commit is acknowledged", code.name)
        stage.eventually(lambda: _state(stage, busy_name) == "CompleteCommit", "the commit is complete")  # noqa: B023
        stage.show_epochs(silent_name, where)
        lso, _ = stage.show_lso(where)[where]
        committed, _ = stage.show_readers(where.topic)[where.topic]
        if _state(stage, silent_name) == "Ongoing":
            stage.check(lso == start, "the LSO stands at the open transaction", lso)
            stage.check(len(committed) == visible, "read_committed waits, also for what is committed", len(committed))
        else:
            stage.note("this machine is slow: the timeout came before the look")
        stage.tell("Nobody does anything. The coordinator aborts what is older than its timeout.")

        def moved() -> bool:
            found = stage.view.ends([where])[where]
            return found.lso == found.end

        stage.eventually(moved, "the timeout aborts the transaction")
        # Readers go on as soon as the marker is there; that it is done the coordinator notes a moment later.
        stage.eventually(lambda: _last_logged(stage, silent_name) == "CompleteAbort", "the abort is complete")  # noqa: B023
        stage.note(f"it was open for {time.monotonic() - opened_s:.1f} s")
        states = stage.show_log(silent_name)
        stage.check("CompleteAbort" in states, "the coordinator logged the abort", states)
        stage.show_epochs(silent_name, where)
        stage.show_lso(where)
        stage.show_readers(where.topic)
        committed = stage.read(where.topic, Isolation.READ_COMMITTED)
        values = [entry.value for entry in committed[visible:]]
        stage.check(
            len(values) == BEHIND and all(b"busy" in value for value in values),
            f"read_committed goes on, and sees the {BEHIND} invoices behind it, not the aborted one",
            values,
        )
        stage.tell("The silent one wakes up and commits.")
        code = silent.end(commit=True)
        stage.answer(f"EndTxn(commit): {code.name}")
        stage.check(code in REFUSALS, "it is refused: an abort is never turned round", code.name)
        code = silent.produce(where, [b'{"by":"silent"}']).error
        stage.answer(f"Produce: {code.name}")
        stage.check(code in REFUSALS | {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}, "so is its next write", code.name)
        ends = stage.show_lso(where)[where]
        stage.check(ends[0] == ends[1], "and no transaction is open", ends)


def _state(stage: Stage, transactional_id: str) -> str:
    owner = stage.view.owner(transactional_id)
    return owner.state if owner is not None else ""


def _last_logged(stage: Stage, transactional_id: str) -> str:
    logged = stage.view.transaction_log(transactional_id)
    return logged[-1].state if logged else ""


SCENARIOS = [
    Scenario(
        "left-open",
        6,
        "A transaction is left open: the LSO holds readers back, the timeout aborts it, readers go on",
        "The LSO is the offset below which all transactions have been resolved; nobody reads beyond it.",
        left_open,
    ),
]
