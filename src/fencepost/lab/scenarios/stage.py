"""Where a scenario is played: a broker to harm, producers, readers, the brokers' own view, and the story.

Owns what a scenario may do. Invariants: on a broker that others use too, names of topics, groups and transactional ids
are unique to this run. What was started ends with the stage.
"""

import contextlib
import json
import random
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self, TypeVar

from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster
from fencepost.client.identity import TransactionProtocol
from fencepost.client.registration import protocol_of
from fencepost.errors import ErrorCode, FencepostError
from fencepost.lab.kit.programs import Program
from fencepost.lab.kit.raw import RawProducer
from fencepost.lab.kit.servers import Node, Ours, Server
from fencepost.lab.scenarios.readers import Seen, read_all, write_all
from fencepost.lab.scenarios.story import Kind, Story
from fencepost.lab.scenarios.view import NOT_OPEN, View, as_dict, shorten
from fencepost.wire.terms import Isolation, TopicPartition

T = TypeVar("T")

CLIENT_SETTINGS = {"request.timeout.ms": 10_000, "default.api.timeout.ms": 60_000}
EVENTUALLY_S = 60.0


class NotYet(FencepostError):
    """Something did not happen in time."""


class Stage:
    def __init__(self, target: Server, story: Story, seed: int, home: Path) -> None:
        self.target = target
        self.story = story
        self.seed = seed
        self.random = random.Random(seed)
        self.home = home
        self.suffix = "" if isinstance(target, Ours) else f".{uuid.uuid4().hex[:6]}"
        self._cluster: Cluster | None = None
        self._view: View | None = None
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()
        if self._view is not None:
            self._view.close()
        if self._cluster is not None:
            self._cluster.close()

    # -- telling -----------------------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        self.story.step(text)

    def note(self, text: str, **data: Any) -> None:
        self.story.fact(Kind.NOTE, text, data)

    def answer(self, text: str, **data: Any) -> None:
        self.story.fact(Kind.ANSWER, text, data)

    def check(self, holds: bool, text: str, seen: object = "") -> bool:
        return self.story.check(holds, text, seen)

    def expect(
        self, request: str, code: ErrorCode, text: str, expected: Collection[ErrorCode] = (ErrorCode.NONE,)
    ) -> None:
        """Tell what a request was answered, and check that it is one of the expected codes."""
        self.answer(f"{request}: {code.name}", code=code.name)
        self.check(code in expected, text, code.name)

    def short(self, text: object) -> str:
        """Without the suffix that makes names unique, so that a story can be read."""
        return str(text).replace(self.suffix, "") if self.suffix else str(text)

    # -- the cluster -------------------------------------------------------------------------------------------------

    @property
    def kafka(self) -> dict[str, str]:
        """The settings of a client, by Kafka's names."""
        return self.target.client_config("java")

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster({**self.kafka, **CLIENT_SETTINGS})
        return self._cluster

    @property
    def view(self) -> View:
        if self._view is None:
            self._view = View(self.cluster)
        return self._view

    def protocols(self) -> list[TransactionProtocol]:
        """The protocols of the cluster, the older one first."""
        return [protocol for protocol in TransactionProtocol if protocol <= protocol_of(self.cluster)]

    def protocol(self, number: int = 0) -> TransactionProtocol:
        """The seed chooses the first one, and the next numbers take turns."""
        known = self.protocols()
        return known[(self.seed + number) % len(known)]

    def name(self, word: str) -> str:
        """A name of this run for a topic, a group or a transactional id."""
        return f"{word}{self.suffix}"

    def topics(self, *names: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> list[str]:
        """Create topics. Returns their names."""
        wanted = [self.name(name) for name in names]
        create_topics(self.cluster, {name: NewTopic(partitions, configs=configs or {}) for name in wanted})
        return wanted

    def producer(self, protocol: TransactionProtocol = TransactionProtocol.V2) -> RawProducer:
        return self._exit.enter_context(RawProducer(self.cluster, protocol))

    def program(self, name: str, module: str, plan: Any, variables: Mapping[str, str] | None = None) -> Program:
        return self.enter(Program(name, f"fencepost.lab.scenarios.{module}", plan, self.home, variables))

    def enter(self, context: AbstractContextManager[T]) -> T:
        """Enter a context that ends with the stage."""
        return self._exit.enter_context(context)

    # -- harm --------------------------------------------------------------------------------------------------------

    def kill_broker(self) -> None:
        self.target.kill()

    def start_broker(self, crash_at: str | None = None) -> None:
        """Start it again. With `crash_at` our broker kills itself at that step of ending a transaction."""
        if isinstance(self.target, Ours):
            self.target.start(crash_at=crash_at)
        else:
            self.target.start()

    def wait_until_broker_is_dead(self) -> None:
        if isinstance(self.target, Node):
            self.target.wait_until_dead()

    def pause_broker(self) -> None:
        self.target.pause()

    def resume_broker(self) -> None:
        self.target.resume()

    def eventually(self, condition: Callable[[], T | None], what: str, timeout_s: float = EVENTUALLY_S) -> T:
        """Wait until there is a value that is neither None nor False."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            found = condition()
            if found is not None and found is not False:
                return found
            if time.monotonic() > deadline_s:
                raise NotYet(f"not within {timeout_s:.0f} s: {what}")
            time.sleep(0.05)

    def wait_until_settled(
        self, partitions: Iterable[TopicPartition], what: str = "markers are written", timeout_s: float = EVENTUALLY_S
    ) -> None:
        """Wait for the end of every transaction that is open now.

        An LSO never falls. So this cannot be missed, as a state of the coordinator can if the next transaction begins.
        """
        ends = {where: found.end for where, found in self.view.ends(partitions).items()}
        self.eventually(
            lambda: all(found.lso >= ends[where] for where, found in self.view.ends(ends).items()), what, timeout_s
        )

    def wait_until_logged(self, transactional_id: str, state: str, timeout_s: float = EVENTUALLY_S) -> None:
        """Wait until this is the last state in the coordinator's log."""
        self.eventually(
            lambda: [entry.state for entry in self.view.transaction_log(transactional_id)][-1:] == [state],
            f"{state} is logged",
            timeout_s,
        )

    # -- looking -----------------------------------------------------------------------------------------------------

    def show_epochs(self, transactional_id: str | None, *partitions: TopicPartition) -> None:
        """Who has which epoch, for the coordinator and for partitions."""
        if transactional_id is not None:
            owner = self.view.owner(transactional_id)
            text = self.short(owner) if owner is not None else f"{self.short(transactional_id)}: nobody"
            self.story.fact(Kind.EPOCHS, f"coordinator  {text}", as_dict(owner) if owner is not None else {})
        for where in partitions:
            writers = self.view.writers(where)
            words = [
                f"producer {w.producer_id}, epoch {w.epoch}, last sequence {w.last_sequence}"
                + (f", open since offset {w.open_since}" if w.open_since != NOT_OPEN else "")
                for w in writers
            ]
            data = {"partition": str(where), "producers": [[w.producer_id, w.epoch, w.open_since] for w in writers]}
            self.story.fact(Kind.EPOCHS, f"{self.short(where)}  {'; '.join(words) or 'no producer'}", data)

    def show_log(self, transactional_id: str) -> list[str]:
        """What the coordinator logged. Returns the names of the states."""
        logged = self.view.transaction_log(transactional_id)
        data = {"transactionalId": transactional_id, "records": [as_dict(entry) for entry in logged]}
        self.story.fact(Kind.LOG, f"{self.short(transactional_id)}: {shorten(logged)}", data)
        return [entry.state for entry in logged]

    def show_lso(self, *partitions: TopicPartition) -> dict[TopicPartition, tuple[int, int]]:
        ends = self.view.ends(partitions)
        text = ", ".join(f"{self.short(where)} {found}" for where, found in ends.items())
        data = {str(where): {"lso": found.lso, "end": found.end} for where, found in ends.items()}
        self.story.fact(Kind.LSO, text, data)
        return {where: (found.lso, found.end) for where, found in ends.items()}

    def read(self, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[Seen]:
        return read_all(self.kafka, topic, isolation)

    def show_readers(self, *topics: str) -> dict[str, tuple[list[Seen], list[Seen]]]:
        """What readers with both isolations see. Returns it, committed first."""
        seen = {
            topic: (self.read(topic, Isolation.READ_COMMITTED), self.read(topic, Isolation.READ_UNCOMMITTED))
            for topic in topics
        }
        for topic, (committed, uncommitted) in seen.items():
            text = f"{self.short(topic)}  read_committed {len(committed)}, read_uncommitted {len(uncommitted)}"
            data = {"topic": topic, "readCommitted": len(committed), "readUncommitted": len(uncommitted)}
            self.story.fact(Kind.READERS, text, data)
        return seen

    def show_offsets(self, group: str, partitions: Sequence[TopicPartition], *, stable: bool) -> dict[str, int | str]:
        found = self.view.committed(group, partitions, stable=stable)
        words = ", ".join(f"{self.short(name)}: {'none' if value == -1 else value}" for name, value in found.items())
        asked = "require_stable" if stable else "not require_stable"
        self.story.fact(Kind.OFFSETS, f"{self.short(group)} ({asked})  {words}", dict(found))
        return found

    # -- the shop ----------------------------------------------------------------------------------------------------

    def purchases(self, count: int, first: int = 1) -> list[tuple[bytes, bytes]]:
        """Keys and values, from the seed."""
        from fencepost.shop.purchases import purchase_rows

        rows = purchase_rows(self.seed, first, count).to_pydict()
        return [(key.encode(), value.encode()) for key, value in zip(rows["key"], rows["value"], strict=True)]

    def sell(self, topic: str, count: int, first: int = 1) -> None:
        """Purchases into a topic."""
        write_all(self.kafka, topic, self.purchases(count, first))


def ids_of(seen: Sequence[Seen]) -> list[int]:
    """The ids of the purchases in these records."""
    return [int(json.loads(entry.value)["purchaseId"]) for entry in seen]
