"""All that the seed decides: who the clients are, what they do, which faults come when.

Pure: the same seed, length and choice of faults give the same plan, and a longer run begins with the same faults. How
the operating system interleaves the processes is not in it, so a seed replays the workload and the faults, not the
instant at which they meet.
"""

import enum
import random
from dataclasses import dataclass, field

#: A quarter of the time there is no fault, so that normal work and recovery are tested as well.
QUIET_SHARE = 0.25
#: How often the network is bad during another fault.
BACKGROUND_SHARE = 0.3

SHORT_TRANSACTION_TIMEOUT_MS = 3_000
LONG_TRANSACTION_TIMEOUT_MS = 15_000
#: For a producer that exceeds its timeout by itself, without a fault.
OVERSLEPT_TRANSACTION_TIMEOUT_MS = 1_000
SESSION_TIMEOUT_MS = 6_000
#: Longer than every timeout except the long transaction timeout.
LONG_PAUSE_S = (4.0, 9.0)


class Family(enum.StrEnum):
    """What `--faults` names."""

    KILL = "kill"
    PAUSE = "pause"
    NET = "net"


class Fault(enum.StrEnum):
    NONE = "none"
    KILL_BROKER = "kill broker"
    KILL_BROKER_TWICE = "kill broker twice"  #: the second time while it recovers
    STOP_BROKER = "stop broker"  #: in good order
    KILL_CLIENTS = "kill clients"
    PAUSE_BROKER = "pause broker"
    PAUSE_CLIENTS = "pause clients"
    ZOMBIES = "zombies"  #: paused, replaced, and back
    CUT = "cut connections"  #: several times
    LOSE_ANSWERS = "lose answers"  #: requests arrive, answers do not
    HOLD = "hold traffic"  #: nothing passes, then all of it, late
    DELAY = "delay traffic"
    PARTITION = "partition clients"  #: some clients reach nobody

    @property
    def family(self) -> Family | None:
        return next((family for family, faults in FAULTS.items() if self in faults), None)

    @property
    def needs_broker(self) -> bool:
        """Whether the broker must be ours to kill."""
        return self in (Fault.KILL_BROKER, Fault.KILL_BROKER_TWICE, Fault.STOP_BROKER, Fault.PAUSE_BROKER)


FAULTS = {
    Family.KILL: (Fault.KILL_BROKER, Fault.KILL_BROKER_TWICE, Fault.STOP_BROKER, Fault.KILL_CLIENTS),
    Family.PAUSE: (Fault.PAUSE_BROKER, Fault.PAUSE_CLIENTS, Fault.ZOMBIES),
    Family.NET: (Fault.CUT, Fault.LOSE_ANSWERS, Fault.HOLD, Fault.DELAY, Fault.PARTITION),
}


class Role(enum.StrEnum):
    PRODUCER = "producer"  #: librdkafka, transactions of the first protocol
    SHARED_PRODUCER = "shared-producer"  #: our own client, the newest protocol that the cluster has (KIP-890)
    BY_HAND = "by-hand"  #: KIP-890 without a library: also sends what is late
    LEDGER = "ledger"  #: the same, on a compacted topic
    CHURNER = "churner"  #: creates and deletes a topic
    SENDER = "sender"  #: librdkafka, idempotent, no transactions
    LOOP = "loop"  #: librdkafka, consume-transform-produce in a group
    READER = "reader"  #: librdkafka
    PYTHON_READER = "python-reader"  #: kafka-python
    WATCHER = "watcher"  #: asks for the committed offsets of all groups
    DRAIN = "drain"  #: reads everything in the end, with several clients

    @property
    def can_be_fenced(self) -> bool:
        return self in (Role.PRODUCER, Role.SHARED_PRODUCER, Role.BY_HAND, Role.LEDGER, Role.LOOP)


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """All that a client's process has to know. Passed as JSON, on its standard input: it may hold a password."""

    name: str
    role: Role
    seed: str
    kafka: dict[str, str] = field(repr=False)  #: how to connect, by Kafka's names
    history: str  #: directory
    incarnation: int
    prefix: str  #: of topics, groups and transactional ids, so that runs on one cluster do not meet
    topics: dict[str, int]  #: that producers write to, with the number of partitions
    source: str  #: the topic that loops read: one of `topics`
    target: str  #: the topic that they write to
    target_partitions: int
    ledger: str  #: a compacted topic of one partition
    churned: str  #: a topic that comes and goes
    groups: tuple[str, ...]  #: for the watcher
    transaction_timeout_ms: int = LONG_TRANSACTION_TIMEOUT_MS
    isolation: str = "read_committed"
    claims: str = ""  #: the isolation that the reader writes down; tests let it lie

    @property
    def own_group(self) -> str:
        """The group whose offset this client alone raises, with every transaction."""
        return f"{self.prefix}{self.name}"


@dataclass(frozen=True, slots=True)
class Step:
    """Wait, then do harm for a while."""

    wait_s: float
    fault: Fault
    duration_s: float
    targets: tuple[str, ...] = ()  #: clients by name; empty for all
    background: Fault = Fault.NONE  #: of the network, at the same time
    delay_ms: float = 0.0

    def __str__(self) -> str:
        if self.fault is Fault.NONE:
            return "none"
        whom = f" {','.join(self.targets)}" if self.targets else ""
        also = f" + {self.background}" if self.background is not Fault.NONE else ""
        return f"{self.fault}{whom} {self.duration_s:.1f} s{also}"


#: Name, role, transaction timeout. Some timeouts are short, so that pauses exceed them.
CLIENTS: tuple[tuple[str, Role, int], ...] = (
    ("p1", Role.PRODUCER, LONG_TRANSACTION_TIMEOUT_MS),
    ("p2", Role.PRODUCER, SHORT_TRANSACTION_TIMEOUT_MS),
    ("q1", Role.SHARED_PRODUCER, LONG_TRANSACTION_TIMEOUT_MS),
    ("q2", Role.SHARED_PRODUCER, SHORT_TRANSACTION_TIMEOUT_MS),
    ("h1", Role.BY_HAND, LONG_TRANSACTION_TIMEOUT_MS),
    ("h2", Role.BY_HAND, OVERSLEPT_TRANSACTION_TIMEOUT_MS),
    ("k1", Role.LEDGER, LONG_TRANSACTION_TIMEOUT_MS),
    ("c1", Role.CHURNER, LONG_TRANSACTION_TIMEOUT_MS),
    ("s1", Role.SENDER, LONG_TRANSACTION_TIMEOUT_MS),
    ("l1", Role.LOOP, LONG_TRANSACTION_TIMEOUT_MS),
    ("l2", Role.LOOP, SHORT_TRANSACTION_TIMEOUT_MS),
    ("r1", Role.READER, LONG_TRANSACTION_TIMEOUT_MS),
    ("r2", Role.READER, LONG_TRANSACTION_TIMEOUT_MS),
    ("r3", Role.PYTHON_READER, LONG_TRANSACTION_TIMEOUT_MS),
    ("w1", Role.WATCHER, LONG_TRANSACTION_TIMEOUT_MS),
)
#: This reader also sees what is not committed.
UNCOMMITTED_READER = "r2"
TOPICS = {"orders": 2, "invoices": 2, "shipments": 1}
SOURCE, TARGET, TARGET_PARTITIONS = "orders", "copies", 2
LEDGER, CHURNED = "ledger", "churned"
LOOP_GROUP = "loops"


def available_faults(families: frozenset[Family], *, owns_broker: bool) -> tuple[Fault, ...]:
    return tuple(fault for fault in Fault if fault.family in families and (owns_broker or not fault.needs_broker))


def schedule(seed: int, seconds: float, faults: tuple[Fault, ...]) -> list[Step]:
    """Steps that together take at least this long. That is more than can be carried out."""
    rng = random.Random(f"{seed}/faults")
    steps: list[Step] = []
    total_s = 0.0
    while total_s < seconds:
        step = _step(rng, faults)
        steps.append(step)
        total_s += step.wait_s + step.duration_s
    return steps


def _step(rng: random.Random, faults: tuple[Fault, ...]) -> Step:
    wait_s = rng.uniform(0.1, 1.5)
    if not faults or rng.random() < QUIET_SHARE:
        return Step(wait_s, Fault.NONE, rng.uniform(1.0, 4.0))
    fault = rng.choice(faults)
    duration_s = rng.uniform(*LONG_PAUSE_S) if _may_be_long(fault) and rng.random() < 0.4 else rng.uniform(0.1, 2.5)
    names = [name for name, role, _ in CLIENTS if fault is not Fault.ZOMBIES or role.can_be_fenced]
    targets: tuple[str, ...] = ()
    if fault in (Fault.KILL_CLIENTS, Fault.PAUSE_CLIENTS, Fault.ZOMBIES, Fault.PARTITION):
        targets = tuple(sorted(rng.sample(names, rng.randint(1, 3))))
    background = Fault.NONE
    if fault.family is not Family.NET and Fault.DELAY in faults and rng.random() < BACKGROUND_SHARE:
        background = rng.choice((Fault.DELAY, Fault.CUT, Fault.LOSE_ANSWERS))
    return Step(wait_s, fault, duration_s, targets, background, rng.choice((5.0, 50.0, 400.0)))


def _may_be_long(fault: Fault) -> bool:
    return fault in (Fault.PAUSE_BROKER, Fault.PAUSE_CLIENTS, Fault.ZOMBIES, Fault.HOLD, Fault.PARTITION)


def clients(seed: int, kafka: dict[str, str], history: str, prefix: str) -> list[ClientSpec]:
    """The first incarnation of each client."""
    topics = {prefix + name: partitions for name, partitions in TOPICS.items()}
    with_groups = [name for name, role, _ in CLIENTS if role in (Role.SHARED_PRODUCER, Role.BY_HAND)]
    return [
        ClientSpec(
            name=name,
            role=role,
            seed=f"{seed}/{name}",
            kafka=kafka,
            history=history,
            incarnation=1,
            prefix=prefix,
            topics=topics,
            source=prefix + SOURCE,
            target=prefix + TARGET,
            target_partitions=TARGET_PARTITIONS,
            ledger=prefix + LEDGER,
            churned=prefix + CHURNED,
            groups=tuple(prefix + group for group in (LOOP_GROUP, *with_groups)),
            transaction_timeout_ms=timeout_ms,
            isolation="read_uncommitted" if name == UNCOMMITTED_READER else "read_committed",
        )
        for name, role, timeout_ms in CLIENTS
    ]
