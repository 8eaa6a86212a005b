"""Scenario 3: a send that fails, a producer that dies with its transaction open, and a zombie that wakes up."""

from fencepost.client.identity import TransactionProtocol
from fencepost.errors import ErrorCode
from fencepost.lab.scenarios.scenario import scenario
from fencepost.lab.scenarios.stage import Stage
from fencepost.shop import INVOICES, PURCHASES, SHIPMENTS
from fencepost.wire.terms import TopicPartition

MAX_BYTES = 2_000

#: Each of them is final for the zombie.
REFUSALS = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


@scenario(3)
def failed_send(stage: Stage) -> None:
    """send() fails in the middle of a transaction, and the producer aborts.

    The invoice and the shipment are published together, or none of them is.
    """
    invoices = TopicPartition(stage.topics(INVOICES)[0], 0)
    shipments = TopicPartition(stage.topics(SHIPMENTS, configs={"max.message.bytes": str(MAX_BYTES)})[0], 0)
    name = stage.name("shop")
    for protocol in stage.protocols():
        producer = stage.producer(protocol)
        stage.tell(f"Protocol {protocol}: the producer gets {producer.init(name)} and writes an invoice.")
        before = stage.view.ends([invoices])[invoices].end
        producer.prepare([invoices, shipments])
        written = producer.produce(invoices, [b'{"purchaseId":1}'])
        stage.answer(f"Produce {INVOICES}: {written}")
        stage.tell(f"The shipment is larger than the topic takes ({MAX_BYTES} bytes): send() fails.")
        result = producer.produce(shipments, [b"x" * stage.random.randint(2 * MAX_BYTES, 4 * MAX_BYTES)])
        stage.answer(f"Produce {SHIPMENTS}: {result}")
        stage.check(result.error is ErrorCode.MESSAGE_TOO_LARGE, "the broker refuses the shipment", result)
        stage.show_epochs(name, invoices)
        ends = stage.show_lso(invoices, shipments)
        stage.check(ends[invoices][0] == before, "the LSO stands before the invoice", ends[invoices])
        stage.tell("The producer aborts.")
        stage.expect("EndTxn(abort)", producer.end(commit=False), "the abort is carried out")
        stage.wait_until_settled([invoices])
        stage.show_log(name)
        stage.show_lso(invoices, shipments)
        committed, uncommitted = stage.show_readers(invoices.topic)[invoices.topic]
        stage.check(not committed, "read_committed sees no invoice without its shipment", committed)
        stage.check(bool(uncommitted), "read_uncommitted sees the aborted invoice", uncommitted)


@scenario(3)
def zombie(stage: Stage) -> None:
    """A producer dies with an open transaction; its successor fences it; the zombie wakes up.

    If the epoch is lower than expected, the message is rejected; also where the successor never wrote.
    """
    for protocol in stage.protocols():
        _zombie(stage, protocol)


def _zombie(stage: Stage, protocol: TransactionProtocol) -> None:
    names = stage.topics(*(f"{name}-p{protocol}" for name in (INVOICES, SHIPMENTS, PURCHASES)))
    invoices, shipments, purchases = (TopicPartition(name, 0) for name in names)
    name, group = stage.name(f"shop-p{protocol}"), stage.name(f"group-p{protocol}")
    old, new = stage.producer(protocol), stage.producer(protocol)
    count = stage.random.randint(1, 4)
    stage.tell(f"Protocol {protocol}: the producer gets {old.init(name)}.")
    stage.tell(f"It writes {count} invoices and an offset, and falls silent.")
    old.prepare([invoices], group)
    old.produce(invoices, [b'{"purchaseId":%d,"by":"zombie"}' % n for n in range(count)])
    old.commit_offsets(group, {purchases: count})
    stage.show_epochs(name, invoices)
    stage.show_lso(invoices)
    stage.show_offsets(group, [purchases], stable=True)
    stage.tell("A successor asks for the same transactional id: InitProducerId.")
    who = new.init(name)
    stage.answer(f"InitProducerId: {who}")
    stage.check(
        who.producer_id != old.who.producer_id or who.epoch > old.who.epoch, "the successor has a higher epoch", who
    )
    stage.wait_until_settled([invoices])
    states = stage.show_log(name)
    stage.check("PrepareAbort" in states and "CompleteAbort" in states, "the open transaction was aborted", states)
    stage.show_epochs(name, invoices)
    ends = stage.show_lso(invoices)[invoices]
    stage.check(ends[0] == ends[1], "the LSO moves on", ends)
    offsets = stage.show_offsets(group, [purchases], stable=True)
    stage.check(offsets == {str(purchases): -1}, "the pending offset is gone", offsets)
    stage.tell(f"The successor opens a transaction of its own, in {INVOICES} alone.")
    new.prepare([invoices])
    written = new.produce(invoices, [b'{"purchaseId":0,"by":"successor"}'])
    stage.answer(f"Produce {INVOICES}: {written}")
    stage.show_epochs(name, invoices)
    stage.tell(f"The zombie wakes up as {old.who}, and tries everything.")
    attempts = {
        f"Produce {INVOICES}": old.produce(invoices, [b'{"by":"zombie"}']).error,
        f"Produce {SHIPMENTS}, which the successor never touched": old.produce(shipments, [b'{"by":"zombie"}']).error,
        "AddPartitionsToTxn": old.add_partitions([shipments]),
        "AddOffsetsToTxn": old.add_offsets(group),
        "TxnOffsetCommit": old.commit_offsets(group, {purchases: 99}),
        "EndTxn(commit)": old.end(commit=True),
    }
    for what, code in attempts.items():
        stage.expect(what, code, f"{what.split(',')[0]} is refused", REFUSALS)
    stage.tell("The successor commits. The zombie tries once more.")
    stage.expect("EndTxn(commit)", new.end(commit=True), "the successor commits")
    code = old.produce(shipments, [b'{"by":"zombie"}']).error
    stage.expect(f"Produce {SHIPMENTS} by the zombie", code, f"the zombie cannot write to {SHIPMENTS}", REFUSALS)
    stage.wait_until_settled([invoices])
    _look_for_traces(stage, name, group, (invoices, shipments, purchases))


def _look_for_traces(
    stage: Stage, name: str, group: str, places: tuple[TopicPartition, TopicPartition, TopicPartition]
) -> None:
    invoices, shipments, purchases = places
    stage.show_log(name)
    ends = stage.show_lso(invoices, shipments)
    hanging = [where for where, (lso, end) in ends.items() if lso != end]
    stage.check(not hanging, "no transaction is left hanging: every LSO is at the end", hanging)
    stage.check(ends[shipments][1] == 0, f"nothing of the zombie is in {SHIPMENTS}", ends[shipments])
    committed, _ = stage.show_readers(invoices.topic, shipments.topic)[invoices.topic]
    stage.check(
        [entry.value for entry in committed] == [b'{"purchaseId":0,"by":"successor"}'],
        "read_committed sees the successor's invoice and nothing else",
        [entry.value for entry in committed],
    )
    offsets = stage.show_offsets(group, [purchases], stable=True)
    stage.check(offsets == {str(purchases): -1}, "no offset of the zombie took effect", offsets)
