"""Scenario 4: the loop dies before and after the commit; downstream, consumers die, and share partitions."""

from dataclasses import replace
from typing import Any

from fencepost.lab.kit.programs import Program
from fencepost.lab.kit.raw import RawProducer
from fencepost.lab.scenarios import downstream
from fencepost.lab.scenarios.audit import Shop, check_exactly_once, committed
from fencepost.lab.scenarios.loop import Point
from fencepost.lab.scenarios.scenario import scenario
from fencepost.lab.scenarios.stage import Stage, ids_of
from fencepost.shop import INVOICES
from fencepost.wire.terms import TopicPartition

#: The shortest session timeout on any Kafka, and on one that we have started.
SESSION_MS, SHORT_SESSION_MS = 6_000, 2_000


@scenario(4)
def loop_dies(stage: Stage) -> None:
    """The consuming side of the loop dies before and after the commit.

    After recovery the app starts from the last committed offset, which is part of the transaction.
    """
    shop = Shop.open(stage)
    shop.sell(stage, 10, 16)
    plan = shop.plan(stage, timeout_ms=20_000)
    deaths = [Point.POLLED, Point.OFFSETS_SENT, Point.COMMITTED]
    stage.random.shuffle(deaths)
    for number, point in enumerate(deaths, 1):
        when = {
            Point.POLLED: "a purchase is in hand, nothing is sent",
            Point.OFFSETS_SENT: "everything is sent, the commit is not",
            Point.COMMITTED: "the transaction is committed, nothing else is done",
        }[point]
        program = stage.program(f"program {number}", "loop", replace(plan, stop_at=point, stop_after=1))
        purchase = int(program.wait_for("at")["purchase"])
        stage.tell(f"Run {number} has reached purchase {purchase}: {when}. kill -9.")
        stage.show_epochs(stage.name("shop"))
        program.kill_all()
        stage.show_offsets(shop.group, shop.inputs(stage), stable=False)
        stage.show_lso(*shop.outputs(stage))
        seen = ids_of(stage.read(shop.invoices))
        if point is Point.COMMITTED:
            stage.check(purchase in seen, f"purchase {purchase} is invoiced, and stays so", seen)
            offset = committed(stage, shop).get(0)
            stage.check(offset == purchase, "its offset is committed with it", offset)
        else:
            stage.check(purchase not in seen, f"no reader sees an invoice of purchase {purchase}", seen)
    stage.tell("A last run processes the rest.")
    last = stage.program("last program", "loop", plan)
    last.wait_for("done")
    stage.show_log(stage.name("shop"))
    stage.show_offsets(shop.group, shop.inputs(stage), stable=True)
    stage.show_readers(shop.invoices, shop.shipments)
    check_exactly_once(stage, shop)


@scenario(4)
def downstream_dies(stage: Stage) -> None:
    """A downstream consumer dies; its successor goes on at the committed offset.

    In read_committed mode poll() only returns transactional messages which have been committed.
    """
    (topic,) = stage.topics(INVOICES)
    where = TopicPartition(topic, 0)
    group = stage.name("accounting")
    producer = stage.producer(stage.protocols()[-1])
    producer.init(stage.name("shop"))
    first, aborted, second = ([f"{word} {n}" for n in range(stage.random.randint(2, 5))] for word in ("a", "x", "b"))
    stage.tell(f"The shop commits {len(first)} invoices, aborts {len(aborted)}, commits {len(second)}.")
    for values, commit in ((first, True), (aborted, False), (second, True)):
        _write(stage, producer, [where], [values], commit=commit)
    stage.show_log(stage.name("shop"))
    stage.show_lso(where)
    stage.show_readers(topic)
    expected = [*first, *second]
    stop = stage.random.randint(1, len(expected) - 2)
    plan = downstream.Plan(stage.kafka, topic, group, _session_ms(stage), stop)
    stage.tell(f"Accounting reads {stop} invoices and commits each, reads one more. kill -9.")
    accounting = stage.program("accounting", "downstream", plan)
    accounting.wait_for("at")
    read_before = _values(accounting)
    accounting.kill_all()
    stage.note(f"it had read {', '.join(read_before)}")
    stage.show_offsets(group, [where], stable=True)
    stage.tell("A second one takes over when the session of the first has timed out.")
    successor = stage.program("accounting again", "downstream", replace(plan, stop_after=-1))
    left = len(expected) - stop
    stage.eventually(lambda: len(_values(successor)) >= left, "the rest is read")
    read_after = _values(successor)
    stage.note(f"it reads {', '.join(read_after)}")
    stage.check(read_after == expected[stop:], "it goes on at the group's offset, and misses nothing", read_after)
    stage.check(read_before + read_after[1:] == expected, "together they read every invoice in order", read_before)
    stage.check(not any(value.startswith("x") for value in read_before + read_after), "nobody saw an aborted invoice")
    stage.note("the last invoice is read again: effects of a reader outside of Kafka are not part of the transaction")
    stage.eventually(
        lambda: stage.view.committed(group, [where], stable=True)[str(where)] == _last_offset(successor) + 1,
        "the offset is committed",
    )
    stage.show_offsets(group, [where], stable=True)


@scenario(4)
def two_consumers(stage: Stage) -> None:
    """Two consumers of one group each see their partitions' part of a transaction.

    There is no guarantee that a single consumer reads all messages of a transaction: only its partitions'.
    """
    partitions = 2 * stage.random.randint(1, 2)
    (topic,) = stage.topics(INVOICES, partitions=partitions)
    group = stage.name("accounting")
    plan = downstream.Plan(stage.kafka, topic, group, _session_ms(stage))
    stage.tell(f"Two members of one group read {partitions} partitions of {INVOICES}.")
    members = [stage.program(name, "downstream", plan) for name in ("Anna", "Ben")]
    each = partitions // 2

    def shared() -> bool:
        return all(len(_assigned(member)) == each for member in members)

    stage.eventually(shared, "both have partitions")
    for member in members:
        stage.note(f"{member.name} has partitions {_assigned(member)}")
    stage.tell("One transaction writes to all partitions.")
    producer = stage.producer(stage.protocols()[-1])
    producer.init(stage.name("shop"))
    places = [TopicPartition(topic, n) for n in range(partitions)]
    _write(stage, producer, places, [[f"{n}"] for n in range(partitions)], commit=True)
    stage.show_log(stage.name("shop"))
    stage.show_lso(*places)
    stage.eventually(lambda: sum(len(_values(member)) for member in members) >= partitions, "everything is read")
    for member in members:
        stage.note(f"{member.name} reads the invoices {sorted(_values(member))}")
        own = sorted(str(n) for n in _assigned(member))
        stage.check(sorted(_values(member)) == own, f"{member.name} sees only the part in those partitions", own)
    together = sorted(value for member in members for value in _values(member))
    stage.check(together == [str(n) for n in range(partitions)], "together they see all of the transaction", together)


# -- inside ----------------------------------------------------------------------------------------------------------


def _write(
    stage: Stage, producer: RawProducer, places: list[TopicPartition], values: list[list[str]], *, commit: bool
) -> None:
    producer.prepare(places)
    codes = [producer.produce(where, each).error for where, each in zip(places, values, strict=True)]
    codes.append(producer.end(commit=commit))
    if any(codes):
        stage.check(False, "the transaction is written", [code.name for code in codes])
    stage.wait_until_settled(places)


def _session_ms(stage: Stage) -> int:
    return SHORT_SESSION_MS if stage.target.is_ours_to_harm else SESSION_MS


def _events(child: Program, name: str) -> list[dict[str, Any]]:
    return [event for event in list(child.events) if event["event"] == name]


def _values(child: Program) -> list[str]:
    return [event["value"] for event in _events(child, "read")]


def _last_offset(child: Program) -> int:
    return int(_events(child, "read")[-1]["offset"])


def _assigned(child: Program) -> list[int]:
    """The latest assignment."""
    found = _events(child, "assigned")
    return sorted(found[-1]["partitions"]) if found else []
