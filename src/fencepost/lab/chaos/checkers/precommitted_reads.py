"""Precommitted reads: a read_committed reader sees no record before its commit was sent.

A read is stamped after it, a commit before it is sent. So if the read's stamp is smaller, the order is certain.
"""

from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import READ_COMMITTED, Facts


def check(facts: Facts) -> Iterator[Anomaly]:
    for read in facts.reads:
        if read.isolation != READ_COMMITTED:
            continue
        for offset, value in read.records:
            writer = facts.written.get(value)
            if writer is None or writer[0].commit_invoked_ns is None:
                continue  # without a commit it is an aborted read
            early_ns = writer[0].commit_invoked_ns - read.time_ns
            if early_ns > 0:
                text = (
                    f"{value} at {read.partition}@{offset} was seen by {read.client} {early_ns / 1e6:.1f} ms before "
                    f"the commit of {writer[0]} was sent"
                )
                yield Anomaly(Kind.PRECOMMITTED_READ, text, (*writer[0].ops, read.op))
