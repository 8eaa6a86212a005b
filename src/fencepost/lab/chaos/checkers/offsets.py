"""Committed offsets of groups: they never go back, and come from transactions that took effect.

Every group here commits in transactions only, and each transaction moves its group forward. Two observations are
compared only if one was answered before the other was requested. An observed offset must come from a transaction that
is not aborted and whose commit was sent before the answer came. In the end, the greatest offset of all transactions
whose records are there must be the committed one: records and offsets are one.
"""

from collections import defaultdict
from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import Facts, Observation, Outcome, Partition, Transaction

ByOffset = dict[tuple[str, Partition, int], list[Transaction]]


def check(facts: Facts) -> Iterator[Anomaly]:
    by_offset: ByOffset = defaultdict(list)
    for transaction in facts.transactions:
        for where, offset in transaction.offsets.items():
            by_offset[transaction.group or "", where, offset].append(transaction)
    yield from _never_back(facts)
    for observation in facts.observations:
        yield from _has_a_source(observation, by_offset)
    if facts.drains:
        yield from _one_with_the_records(facts, by_offset)


def _never_back(facts: Facts) -> Iterator[Anomaly]:
    by_group: dict[str, list[Observation]] = defaultdict(list)
    for observation in facts.observations:
        by_group[observation.group].append(observation)
    for group, observations in by_group.items():
        observations.sort(key=lambda each: each.began_ns)
        answered = sorted(observations, key=lambda each: each.time_ns)
        highest: dict[Partition, tuple[int, Observation]] = {}
        next_answered = 0
        for observation in observations:
            while answered[next_answered].time_ns < observation.began_ns:
                earlier = answered[next_answered]
                for where, offset in earlier.offsets.items():
                    if where not in highest or highest[where][0] < offset:
                        highest[where] = offset, earlier
                next_answered += 1
            for where, (offset, earlier) in highest.items():
                now = observation.offsets.get(where, -1)
                if now < offset:
                    text = f"{group} had committed {offset} for {where}, and later {now}"
                    yield Anomaly(Kind.OFFSET_WENT_BACK, text, (earlier.op, observation.op))


def _has_a_source(observation: Observation, by_offset: ByOffset) -> Iterator[Anomaly]:
    for where, offset in observation.offsets.items():
        candidates = by_offset.get((observation.group, where, offset), [])
        if not any(
            each.outcome is not Outcome.ABORTED and (each.commit_invoked_ns or 0) <= observation.time_ns
            for each in candidates
        ):
            said = ", ".join(map(str, candidates)) or "nobody"
            text = f"{observation.group} has {offset} for {where}, which {said} committed"
            yield Anomaly(Kind.WRONG_OFFSET, text, (*(op for each in candidates for op in each.ops), observation.op))


def _one_with_the_records(facts: Facts, by_offset: ByOffset) -> Iterator[Anomaly]:
    visible = facts.visible()
    final = facts.final_offsets()
    for (group, where, offset), candidates in by_offset.items():
        if group not in final:
            continue
        last = final[group]
        now = last.offsets.get(where, -1)
        there = [each for each in candidates if any(write.value in visible for write in each.writes)]
        if offset > now and there:
            text = f"{there[0]} is there, but {group} has {now} for {where} and not {offset}"
            yield Anomaly(Kind.TORN_TRANSACTION, text, (*there[0].ops, last.op))
        if offset == now and not there and any(each.writes for each in candidates):
            text = f"{group} has {now} for {where} in the end, but nothing of {candidates[-1]} is there"
            yield Anomaly(Kind.TORN_TRANSACTION, text, (*candidates[-1].ops, last.op))
