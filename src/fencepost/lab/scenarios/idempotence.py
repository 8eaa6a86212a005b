"""Scenario 1: an answer is lost after the append, and the same batch is sent again, also after a restart."""

from fencepost.client.raw import Session
from fencepost.errors import ErrorCode
from fencepost.lab.scenarios.scenario import Needs, scenario
from fencepost.lab.scenarios.stage import Stage
from fencepost.shop import INVOICES
from fencepost.wire.terms import TopicPartition


@scenario(1)
def lost_answer(stage: Stage) -> None:
    """An answer is lost after the append; the same batch is retried.

    The producer retries with the same sequence number. The broker knows it, and does not append the batch again.
    """
    (topic,) = stage.topics(INVOICES)
    where = TopicPartition(topic, 0)
    producer = stage.producer()
    stage.tell(f"An idempotent producer gets an id: {producer.init()}.")
    batch = [value for _, value in stage.purchases(stage.random.randint(2, 5))]
    stage.tell(f"It sends a batch of {len(batch)}, sequence 0. The connection breaks before it reads the answer.")
    sent = producer.send(where, batch, 0)
    stage.eventually(lambda: stage.view.ends([where])[where].end == len(batch), "the batch is appended")
    sent.hang_up()
    stage.show_epochs(None, where)
    stage.show_lso(where)
    stage.tell("It sends the same batch again, on a new connection.")
    _again(stage, where, batch)
    stage.tell("And once more, to be sure.")
    _again(stage, where, batch)
    stage.tell(f"The next batch has sequence {len(batch)}.")
    result = producer.produce(where, [b'{"purchaseId":0}'], sequence=len(batch))
    stage.answer(f"Produce: {result}")
    stage.check(not result.error and result.base_offset == len(batch), "the next batch follows at once", result)
    stage.tell("A batch with a gap in the sequence, as if one before it had been lost.")
    result = producer.produce(where, [b'{"purchaseId":0}'], sequence=len(batch) + 7)
    stage.answer(f"Produce: {result}")
    stage.check(result.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the gap is refused", result)
    _count(stage, topic, len(batch) + 1)


def _again(stage: Stage, where: TopicPartition, batch: list[bytes]) -> None:
    """Sent by the same identity on other connections."""
    first = stage.view.writers(where)[0]
    with_new_connections = stage.producer()
    with_new_connections.who = Session(first.producer_id, first.epoch)
    result = with_new_connections.produce(where, batch, sequence=0)
    stage.answer(f"Produce: {result}")
    is_known = result.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER or (not result.error and result.base_offset == 0)
    stage.check(is_known, "the broker recognises the batch and names its first offset", result)
    end = stage.show_lso(where)[where][1]
    stage.check(end == len(batch), "nothing is appended", f"the partition ends at {end}")


def _count(stage: Stage, topic: str, expected: int) -> None:
    committed, uncommitted = stage.show_readers(topic)[topic]
    stage.check(len(committed) == len(uncommitted) == expected, f"both readers see {expected} records, each once")


@scenario(1, Needs.OWN_BROKER)
def retry_after_restart(stage: Stage) -> None:
    """The broker dies before it answers; the same batch is retried after its restart.

    Producer id and sequence are in the log, so a broker that starts again rejects the duplicate as well.
    """
    (topic,) = stage.topics(INVOICES)
    where = TopicPartition(topic, 0)
    producer = stage.producer()
    stage.tell(f"An idempotent producer gets an id: {producer.init()}. It writes four batches.")
    sizes = [stage.random.randint(1, 4) for _ in range(4)]
    sequence = 0
    for size in sizes:
        producer.produce(where, [b'{"purchaseId":%d}' % n for n in range(sequence, sequence + size)])
        sequence += size
    last = [b'{"purchaseId":%d}' % n for n in range(sequence, sequence + 3)]
    stage.tell("It sends a fifth batch. The broker appends it, and is killed before the answer is read.")
    sent = producer.send(where, last, sequence)
    stage.eventually(lambda: stage.view.ends([where])[where].end == sequence + 3, "the batch is appended")
    stage.kill_broker()
    sent.hang_up()
    stage.tell("The broker starts again, and reads its producers' state from its own log.")
    stage.start_broker()
    stage.show_epochs(None, where)
    stage.show_lso(where)
    stage.tell(f"The producer retries the batch with sequence {sequence}.")
    result = producer.produce(where, last, sequence=sequence)
    stage.answer(f"Produce: {result}")
    is_known = result.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER or (
        not result.error and result.base_offset == sequence
    )
    stage.check(is_known, "the broker recognises the batch after its restart", result)
    stage.tell("The next one is new.")
    result = producer.produce(where, [b'{"purchaseId":0}'], sequence=sequence + 3)
    stage.answer(f"Produce: {result}")
    stage.check(not result.error, "the sequence goes on where it was", result)
    _count(stage, topic, sequence + 4)
