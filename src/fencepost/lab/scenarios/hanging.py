"""Scenario 6: a transaction is left open. The LSO holds readers back until the timeout aborts it."""

import time

from fencepost.errors import ErrorCode
from fencepost.lab.scenarios.scenario import scenario
from fencepost.lab.scenarios.stage import Stage
from fencepost.lab.scenarios.zombie import REFUSALS
from fencepost.shop import INVOICES
from fencepost.wire.terms import Isolation, TopicPartition

TIMEOUT_MS = 3_000
BEHIND = 3


@scenario(6)
def left_open(stage: Stage) -> None:
    """A transaction is left open: the LSO holds readers back, the timeout aborts it, readers go on.

    The LSO is the offset below which all transactions have been resolved; nobody reads beyond it.
    """
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
        stage.expect("EndTxn(commit)", busy.end(commit=True), "its commit is acknowledged")
        stage.wait_until_logged(busy_name, "CompleteCommit")
        stage.show_epochs(silent_name, where)
        lso, _ = stage.show_lso(where)[where]
        committed, _ = stage.show_readers(where.topic)[where.topic]
        owner = stage.view.owner(silent_name)
        if owner is not None and owner.state == "Ongoing":
            stage.check(lso == start, "the LSO stands at the open transaction", lso)
            stage.check(len(committed) == visible, "read_committed waits, also for what is committed", len(committed))
        else:
            stage.note("this machine is slow: the transaction has timed out already")
        stage.tell("The coordinator aborts what is older than its timeout.")
        stage.wait_until_settled([where], "the timeout aborts the transaction")
        # Readers go on as soon as the marker is there. The coordinator notes a moment later that it is done.
        stage.wait_until_logged(silent_name, "CompleteAbort")
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
        stage.expect("EndTxn(commit)", code, "it is refused: an abort stays an abort", REFUSALS)
        code = silent.produce(where, [b'{"by":"silent"}']).error
        refusals = REFUSALS | {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
        stage.expect("Produce", code, "so is its next write", refusals)
        ends = stage.show_lso(where)[where]
        stage.check(ends[0] == ends[1], "and no transaction is open", ends)
