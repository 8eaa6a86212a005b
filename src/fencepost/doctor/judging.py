"""Whether a cluster is fit for exactly-once, by what it told. Pure.

A cluster of one broker cannot replicate: that is noted once, and the rules on replicas say nothing. From three brokers
on, a topic should have three replicas, and `min.insync.replicas` two: then one broker may be lost without losing what
was acknowledged, and one may be stopped without stopping writers.
"""

from collections.abc import Iterator

from fencepost.client.cluster import NO_LEADER, TopicMetadata
from fencepost.doctor.cluster import GRANT, INTERNAL, ClusterFacts, TopicFacts
from fencepost.doctor.findings import Finding, Severity
from fencepost.doctor.rights import Held
from fencepost.wire.terms import TRANSACTION_STATE
from fencepost.wording import plural

DAY_MS, MINUTES_PER_WEEK = 86_400_000, 7 * 24 * 60
REPLICAS = 3


def judge(facts: ClusterFacts, transaction_timeout_ms: int) -> Iterator[Finding]:
    """`transaction_timeout_ms` is what pipelines ask for."""
    yield from _brokers(facts)
    yield from _protocol(facts)
    yield from _settings(facts, transaction_timeout_ms)
    for name, topic in facts.topics.items():
        yield from _topic(facts, name, topic)
    yield from _rights(facts)
    for text in facts.hidden:
        said, _, command = text.partition(GRANT)
        yield Finding(Severity.NOTE, "rights", said, command)


def _brokers(facts: ClusterFacts) -> Iterator[Finding]:
    count = len(facts.brokers)
    if count == 1:
        text = "one broker: what it wrote is lost with its disk. Fine for tests; production has three or more"
        yield Finding(Severity.NOTE, "brokers", text)
    elif count < REPLICAS:
        text = f"{count} brokers: with three, one may be lost and one stopped without harm"
        yield Finding(Severity.WARNING, "brokers", text, "add a broker")
    else:
        yield Finding(Severity.OK, "brokers", str(count))
    for node, reason in facts.unreachable.items():
        text = f"broker {node} advertises {facts.brokers[node]}, which cannot be reached from here: {reason}"
        remedy = f"set advertised.listeners of broker {node} to an address that clients reach, or open the port"
        yield Finding(Severity.ERROR, "listeners", text, remedy)
    if not facts.unreachable:
        yield Finding(Severity.OK, "listeners", "every broker can be reached at the address that it advertises")


def _protocol(facts: ClusterFacts) -> Iterator[Finding]:
    found = facts.transaction_version
    if found is not None and found >= 2:
        yield Finding(Severity.OK, "transaction.version", str(found))
        return
    text = f"{found or 0}: a late request can end the next transaction, or leave one open for ever (KIP-890)"
    remedy = f"kafka-features --bootstrap-server {facts.bootstrap} upgrade --feature transaction.version=2"
    yield Finding(Severity.WARNING, "transaction.version", text, f"{remedy} (Kafka 4.0 and later)")


def _settings(facts: ClusterFacts, transaction_timeout_ms: int) -> Iterator[Finding]:
    if facts.settings is None:
        return
    longest = _number(facts, "transaction.max.timeout.ms")
    if longest is not None and longest < transaction_timeout_ms:
        text = f"{longest}, and pipelines ask for {transaction_timeout_ms}: they are refused at their start"
        remedy = f"set transaction.max.timeout.ms={transaction_timeout_ms} in every broker's properties, or the sink's "
        yield Finding(
            Severity.ERROR, "transaction.max.timeout.ms", text, f"{remedy}option kafka.transaction.timeout.ms={longest}"
        )
    elif longest is not None:
        yield Finding(
            Severity.OK, "transaction.max.timeout.ms", f"{longest}, pipelines ask for {transaction_timeout_ms}"
        )
    kept = _number(facts, "offsets.retention.minutes")
    if kept is not None and kept < MINUTES_PER_WEEK:
        text = f"{kept}: a consumer that is down for longer starts over, or skips. Pipelines of fencepost do not"
        remedy = f"set offsets.retention.minutes={MINUTES_PER_WEEK} in every broker's properties"
        yield Finding(Severity.WARNING, "offsets.retention.minutes", text, remedy)
    elif kept is not None:
        yield Finding(Severity.OK, "offsets.retention.minutes", str(kept))
    forgotten = _number(facts, "transactional.id.expiration.ms")
    if forgotten is not None and forgotten < DAY_MS:
        text = f"{forgotten}: a producer that is idle for longer loses its id, and most clients end with an error"
        remedy = "set transactional.id.expiration.ms=604800000 in every broker's properties"
        yield Finding(Severity.WARNING, "transactional.id.expiration.ms", text, remedy)
    elif forgotten is not None:
        yield Finding(Severity.OK, "transactional.id.expiration.ms", str(forgotten))
    if facts.settings.get("transaction.partition.verification.enable") == "false":
        text = "false: a record that comes late opens a transaction that nobody ends, and readers stand still"
        remedy = _set_by_default(facts, "transaction.partition.verification.enable=true")
        yield Finding(Severity.WARNING, "transaction.partition.verification.enable", text, remedy)
    if facts.settings.get("unclean.leader.election.enable") == "true" and len(facts.brokers) > 1:
        text = "true: a replica that misses acknowledged records may become leader, and they are gone"
        remedy = _set_by_default(facts, "unclean.leader.election.enable=false")
        yield Finding(Severity.ERROR, "unclean.leader.election.enable", text, remedy)


def _set_by_default(facts: ClusterFacts, assignment: str) -> str:
    where = "--alter --entity-type brokers --entity-default"
    return f"kafka-configs --bootstrap-server {facts.bootstrap} {where} --add-config {assignment}"


def _topic(facts: ClusterFacts, name: str, topic: TopicFacts) -> Iterator[Finding]:
    metadata = topic.metadata
    if topic.hidden:
        return  # `_rights` says it
    if metadata is None:
        yield from _missing(facts, name)
        return
    found = [*_partitions(name, metadata), *_replicas(facts, name, metadata, topic.min_insync)]
    found += _kept(facts, name, topic.cleanup)
    shown = f"{plural(len(metadata.partitions), 'partition')}, {plural(metadata.replication_factor, 'replica')}"
    insync = "" if topic.min_insync is None else f", min.insync.replicas {topic.min_insync}"
    yield from found or [Finding(Severity.OK, f"topic {name}", shown + insync)]


def _missing(facts: ClusterFacts, name: str) -> Iterator[Finding]:
    if name in facts.created_later:
        return
    if name not in INTERNAL:
        text = "it does not exist, so rights on it cannot be seen"
        if name in facts.wanted.sources:
            text += ". If the pipeline reads it on another cluster, look at that one, too"
        yield Finding(Severity.WARNING, f"topic {name}", text, f"fencepost topic create {name} -b {facts.bootstrap}")
        return
    factor = _number(facts, INTERNAL[name])
    if factor is not None and factor < min(REPLICAS, len(facts.brokers)):
        text = f"it will be made with {plural(factor, 'replica')}: {INTERNAL[name]}={factor}"
        yield Finding(Severity.ERROR, f"topic {name}", text, f"set {INTERNAL[name]}=3 in every broker's properties")
    else:
        yield Finding(Severity.OK, f"topic {name}", "not made yet; the first client that needs it makes it")


def _kept(facts: ClusterFacts, name: str, cleanup: str) -> Iterator[Finding]:
    """The last entry of each key counts, however old it is."""
    if name in facts.created_later and "delete" in cleanup:
        text = f"cleanup.policy {cleanup}: what pipelines know of themselves is deleted after retention.ms"
        remedy = f"fencepost topic config {name} --set cleanup.policy=compact -b {facts.bootstrap}"
        yield Finding(Severity.ERROR, f"topic {name}", text, remedy)


def _rights(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.rights is None:
        text = "the cluster has no authorizer: whoever can connect may do everything"
        yield Finding(Severity.OK, "rights", text)
        return
    for each in facts.rights:
        right, remark = " and ".join(each.right.operations), each.remark and f"; {each.remark}"
        if each.held is Held.YES:
            yield Finding(Severity.OK, each.subject, f"you have the right {right}: {each.what_for}")
        elif each.held is Held.NO:
            yield Finding(
                Severity.ERROR, each.subject, f"you lack the right {right}: {each.what_for}{remark}", each.remedy
            )
        else:
            text = f"whether you have the right {right} ({each.what_for}): {each.remark}"
            yield Finding(Severity.NOTE, each.subject, text, each.remedy)


def _partitions(name: str, topic: TopicMetadata) -> Iterator[Finding]:
    leaderless = [index for index, each in topic.partitions.items() if each.leader == NO_LEADER]
    if leaderless:
        text = f"partitions without leader: {', '.join(map(str, leaderless))}"
        yield Finding(Severity.ERROR, f"topic {name}", text, "start the brokers that have their replicas")
    lagging = [i for i, each in topic.partitions.items() if 0 < len(each.in_sync) < len(each.replicas)]
    if lagging:
        text = f"partitions with replicas out of sync: {', '.join(map(str, lagging))}"
        yield Finding(Severity.WARNING, f"topic {name}", text, f"fencepost topic describe {name}")


def _replicas(facts: ClusterFacts, name: str, topic: TopicMetadata, min_insync: int | None) -> Iterator[Finding]:
    brokers, factor = len(facts.brokers), topic.replication_factor
    subject = f"topic {name}"
    if brokers == 1:
        return
    if factor < min(REPLICAS, brokers):
        lost = f"acknowledged records can be lost with {plural(factor, 'disk')}"
        text = f"{plural(factor, 'replica')} on {brokers} brokers: {lost}"
        remedy = (
            f"kafka-reassign-partitions --bootstrap-server {facts.bootstrap} --reassignment-json-file FILE --execute"
        )
        yield Finding(Severity.ERROR, subject, text, remedy)
    if min_insync is None or factor == 1:
        return
    set_it = f"fencepost topic config {name} --set min.insync.replicas={factor - 1} -b {facts.bootstrap}"
    if min_insync == 1:
        text = "min.insync.replicas 1: one replica alone may acknowledge, and lose what it acknowledged"
        why = " (and transaction.state.log.min.isr)" if name == TRANSACTION_STATE else ""
        yield Finding(Severity.ERROR if factor > 2 else Severity.WARNING, subject, text + why, set_it)
    elif min_insync >= factor:
        text = f"min.insync.replicas {min_insync} of {factor} replicas: one stopped broker stops all writers"
        yield Finding(Severity.WARNING, subject, text, set_it)


def _number(facts: ClusterFacts, name: str) -> int | None:
    value = None if facts.settings is None else facts.settings.get(name)
    return int(value) if value is not None and value.lstrip("-").isdecimal() else None
