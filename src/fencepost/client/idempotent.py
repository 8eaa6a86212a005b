"""The identity of an idempotent producer: what it repeats after a lost answer is written once (KIP-98).

It has no transactional id, so any broker gives one, and nobody is fenced. One writer uses it, from sequence 0 on.
"""

from fencepost.client.cluster import Cluster
from fencepost.client.identity import ProducerIdentity, TransactionProtocol
from fencepost.client.retry import BUSY, COORDINATOR_MOVED, Retry, known_code
from fencepost.errors import ConnectionLost
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

INIT_PRODUCER_ID = 22
#: Brokers read it although it means nothing without a transaction.
ANY_TIMEOUT_MS = 60_000


def init_idempotent(cluster: Cluster) -> ProducerIdentity:
    retry = Retry("getting a producer id", cluster.settings)
    fields = {
        "transactional_id": None,
        "transaction_timeout_ms": ANY_TIMEOUT_MS,
        "producer_id": NO_PRODUCER_ID,
        "producer_epoch": NO_PRODUCER_EPOCH,
    }
    while True:
        reason: object
        try:
            answer = cluster.any().call(INIT_PRODUCER_ID, fields)
            reason = code = known_code(answer.error_code)
            if not code:
                return ProducerIdentity("", answer.producer_id, answer.producer_epoch, TransactionProtocol.V2)
            if code not in BUSY | COORDINATOR_MOVED:
                raise cluster.refusal(INIT_PRODUCER_ID, code, "kafka-cluster", "an idempotent producer")
        except ConnectionLost as error:
            reason = error
        retry.wait(reason)
