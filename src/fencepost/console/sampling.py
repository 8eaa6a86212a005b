"""Asking the cluster, again and again: each kind of question in a thread and with connections of its own.

So what is slow (counting lag) does not hold up what is quick (transactions), and a dead broker only makes its own
question fail. A question takes at most a tenth of the time; where it takes long, it is asked less often. While nobody
watches, all are asked less often.

Invariant: what is kept is bounded: `POINTS` values for each of at most `SERIES_MAX` groups or topics.
"""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.client.admin import sizes_bytes
from fencepost.client.cluster import Cluster
from fencepost.client.naming import transactional_id_of
from fencepost.client.settings import ClientSettings
from fencepost.console import shapes
from fencepost.console.board import Board, Condition, Row, now_ms
from fencepost.console.history import Ending, Follower, History, Story
from fencepost.errors import ClientError, FencepostError
from fencepost.observe.groups import lags_of, survey_groups
from fencepost.observe.hanging import every_partition
from fencepost.observe.stable import Bounds, bounds_of
from fencepost.observe.transactions import survey
from fencepost.wire.terms import TopicPartition

logger = logging.getLogger(__name__)

POINTS = 240
SERIES_MAX = 2_000
SHARE = 10  #: a question of one second is asked every ten
UNWATCHED = 5  #: times less often
TIMELINE_SHOWN = 600  #: transactions that ended last
HELD_SHOWN = 200
LAG_BYTES_MAX = 4 << 20  #: what may be fetched in one round to count lag
RETRY_S = 1.0
OPERATION_MS_MAX = 1_500  #: it is asked again anyway, and the page wants to know

Sample = tuple[Mapping[str, Row], Row]  #: rows and head of a channel


class Series:
    """The last values of many things over time."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, deque[tuple[int, float]]] = OrderedDict()

    def add(self, key: str, time_ms: int, value: float) -> None:
        points = self._known.setdefault(key, deque(maxlen=POINTS))
        points.append((time_ms, value))
        self._known.move_to_end(key)
        while len(self._known) > SERIES_MAX:
            self._known.popitem(last=False)

    def of(self, key: str) -> list[tuple[int, float]]:
        return list(self._known.get(key, ()))

    def rate(self, key: str) -> float | None:
        """Per second, over the last few points of a value that grows."""
        points = self.of(key)[-4:]
        if len(points) < 2 or points[-1][0] <= points[0][0]:
            return None
        return max(0.0, (points[-1][1] - points[0][1]) * 1000 / (points[-1][0] - points[0][0]))


@dataclass(frozen=True, slots=True)
class Question:
    channel: str
    every_s: float
    ask: Callable[[Cluster], Sample]


class Sampler:
    def __init__(self, settings: ClientSettings, board: Board) -> None:
        self._settings = replace(settings, api_timeout_ms=min(settings.api_timeout_ms, OPERATION_MS_MAX))
        self._board = board
        self._stop = threading.Event()
        self.history = History()
        self.lags = Series()
        self.ends = Series()
        self._follower = Follower(self.history)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.questions = (
            Question("transactions", 1.0, self._transactions),
            Question("timeline", 1.0, self._timeline),
            Question("topics", 3.0, self._topics),
            Question("groups", 3.0, self._groups),
            Question("pipelines", 3.0, self._pipelines),
        )

    def start(self) -> None:
        for question in self.questions:
            self._board.report(question.channel, Condition.LOADING)
            thread = threading.Thread(target=self._run, args=(question,), name=question.channel, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Threads that wait for a broker end with their request; they are daemons."""
        self._stop.set()
        for thread in self._threads:
            thread.join(0.2)

    def stories_of(self, transactional_id: str) -> list[Story]:
        with self._lock:
            return self.history.of(transactional_id)

    def story_of_producer(self, producer_id: int, ended_ms: int | None) -> Story | None:
        with self._lock:
            return self.history.of_producer(producer_id, ended_ms)

    def lag_points(self, group: str) -> list[tuple[int, float]]:
        with self._lock:
            return self.lags.of(group)

    # -- the loop ----------------------------------------------------------------------------------------------------

    def _run(self, question: Question) -> None:
        is_first = True  # or the first again: it connects and catches up, so its time says nothing about the next
        with Cluster(self._settings) as cluster:
            while not self._stop.is_set():
                began_s = time.monotonic()
                is_good = self._once(question, cluster)
                took_s = 0.0 if is_first else time.monotonic() - began_s
                self._pause(max(question.every_s, SHARE * took_s) if is_good else RETRY_S)
                is_first = not is_good

    def _once(self, question: Question, cluster: Cluster) -> bool:
        began_s = time.monotonic()
        try:
            rows, head = question.ask(cluster)
        except FencepostError as error:
            cluster.close()
            self._board.report(question.channel, Condition.FAILING, str(error))
            return False
        except Exception as error:  # a bug of ours must not end the thread without a word
            logger.exception("sampling %s failed", question.channel)
            cluster.close()
            self._board.report(question.channel, Condition.FAILING, f"{type(error).__name__}: {error}")
            return False
        self._board.publish(question.channel, rows, head)
        self._board.report(question.channel, Condition.GOOD, took_ms=int((time.monotonic() - began_s) * 1000))
        return True

    def _pause(self, pause_s: float) -> None:
        """While nobody watches it is longer, and ends when somebody does."""
        began_s = time.monotonic()
        while not self._stop.is_set():
            left_s = began_s + pause_s * (1 if self._board.is_watched else UNWATCHED) - time.monotonic()
            if left_s <= 0:
                return
            self._stop.wait(min(left_s, 0.5))

    # -- questions ---------------------------------------------------------------------------------------------------

    def _transactions(self, cluster: Cluster) -> Sample:
        found = survey(cluster)
        rows = {each.transactional_id: shapes.transaction(each) for each in found.transactions}
        is_open = [each for each in found.transactions if each.is_open]
        return rows, {"open": len(is_open), "ids": len(rows), "missing": [str(each) for each in found.missing]}

    def _timeline(self, cluster: Cluster) -> Sample:
        now = now_ms()
        with self._lock:
            self._follower.follow(cluster, now)
            stories, since_ms = self.history.last(TIMELINE_SHOWN)
            figures = self.history.figures(now)
        return {each.key: shapes.story(each) for each in stories}, {**shapes.figures(figures), "since_ms": since_ms}

    def _topics(self, cluster: Cluster) -> Sample:
        places = every_partition(cluster)
        topics = cluster.known_topics()
        found = bounds_of(cluster, places)
        try:
            sizes = sizes_bytes(cluster, found.found)
        except ClientError:
            sizes = {}
        by_topic: dict[str, dict[TopicPartition, Bounds]] = {name: {} for name in {where.topic for where in places}}
        for where, bounds in found.found.items():
            by_topic[where.topic][where] = bounds
        now = now_ms()
        rows: dict[str, Row] = {}
        for name, known in by_topic.items():
            with self._lock:
                self.ends.add(name, now, sum(each.end for each in known.values()))
                rate = self.ends.rate(name)
            metadata = topics.get(name)
            size = [sizes.get(where) for where in known]
            rows[name] = shapes.topic(
                name,
                metadata is not None and metadata.is_internal,
                known,
                partitions=0 if metadata is None else len(metadata.partitions),
                replication=0 if metadata is None else metadata.replication_factor,
                silent=sum(where.topic == name for where in found.failed),
                bytes=None if None in size else sum(each or 0 for each in size),
                rate=None if rate is None else round(rate, 1),
            )
        held = sorted((each for each in found.found.values() if each.is_held), key=lambda each: each.stable - each.end)
        head = {
            "partitions": len(places),
            "brokers": [str(address) for address in cluster.brokers()],
            "held": [shapes.bounds(each) for each in held[:HELD_SHOWN]],
            "silent": [f"{where}: {failure}" for where, failure in list(found.failed.items())[:20]],
        }
        return rows, head

    def _groups(self, cluster: Cluster) -> Sample:
        found = survey_groups(cluster)
        places = {where for each in found.groups for where in each.offsets}
        bounds = bounds_of(cluster, places).found if places else {}
        lags = lags_of(cluster, found.groups, bounds, LAG_BYTES_MAX)
        now = now_ms()
        rows = {each.group_id: shapes.group(each, lags[each.group_id], now) for each in found.groups}
        for name, row in rows.items():
            if row["lag"] is not None:
                with self._lock:
                    self.lags.add(name, now, row["lag"])
                rows[name] = {**row, "trend": [value for _, value in self.lag_points(name)[-40:]]}
        return rows, {"missing": [str(each) for each in found.missing]}

    def _pipelines(self, cluster: Cluster) -> Sample:
        from fencepost.cli.pipeline_text import overview_as_dict
        from fencepost.operate import overview

        rows: dict[str, Row] = {}
        for each in overview.all_of(cluster):
            shown: dict[str, Any] = overview_as_dict(each)
            if each.standing is not None:
                shown["entry_ms"] = each.standing.entry_ms
            rows[each.name] = {**shown, "recent": pipeline_figures(self.stories_of(transactional_id_of(each.name)))}
        return rows, {}


def pipeline_figures(stories: list[Story]) -> dict[str, Any]:
    """What its last transactions tell: how many ended how, how long they and their commits took. Pure."""
    from fencepost.console.history import percentiles

    ended = [each for each in stories if each.ended_ms is not None]
    took = sorted(each.duration_ms for each in ended if each.duration_ms is not None)
    commits = sorted(
        each.ended_ms - each.decided_ms
        for each in ended
        if each.ended_ms is not None and each.decided_ms is not None and each.ending is Ending.COMMITTED
    )
    span_ms = (ended[0].ended_ms or 0) - (ended[-1].ended_ms or 0) if len(ended) > 1 else 0
    return {
        "transactions": len(ended),
        "aborts": sum(each.ending is Ending.ABORTED for each in ended),
        "per_minute": round((len(ended) - 1) * 60_000 / span_ms, 1) if span_ms > 0 else None,
        "transaction_ms": percentiles(took),
        "commit_ms": percentiles(commits),
        "durations": [each.duration_ms for each in ended[:40]][::-1],
    }
