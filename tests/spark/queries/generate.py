"""Pipelines put together at random: sources, rows, a query, a sink, a trigger, deaths. From a seed, always the same.

A generated pipeline is data (`Made`), so that it can be made smaller (`shrink.py`), and its query is source text, so
that it can be shown as a program (`script.py`). Invariant: whatever is put together means the same as a stream and as a
batch. So the rows of a wave are within the watermark's delay of each other, a wave is read before the next is written
if there is a watermark, and what is aggregated comes last.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import functions as sf

from fencepost.spark.sink.steps import BatchStep
from tests.spark.queries import given as given_module
from tests.spark.queries import python_state, queries, sinks
from tests.spark.queries.acts import (
    COMMIT_SENT,
    Act,
    Check,
    Death,
    Grow,
    How,
    LoseCheckpoint,
    Loss,
    Run,
    RunRefused,
    Write,
)
from tests.spark.queries.case import DAY_S, ROCKS, Case, Kind, Match, Row, Source, Subscribed, Wave, Written
from tests.spark.queries.inputs import FIRST_S, KEYS

#: Where a driver may die. The permit for the first writer is given in another thread, which can only fail.
POINTS: tuple[BatchStep | str, ...] = (*(step for step in BatchStep if step is not BatchStep.WRITING), COMMIT_SENT)

REKEYED = "IF(k = '~', k, substr('wxyz', CAST(1 + pmod(n, 4) AS INT), 1))"
#: Steps of a query that keep nothing. `rows` has the columns k, n and t before and after.
STATELESS: dict[str, str] = {
    "where": 'rows = rows.where("n % 3 != 1")',
    "nothing": "rows = rows.where(\"k IN ('~', 'a')\")",
    "project": 'rows = rows.selectExpr("k", "2 * n + 1 AS n", "t")',
    "rekey": f'rows = rows.selectExpr("{REKEYED} AS k", "n", "t")',
    "explode": 'rows = rows.selectExpr("k", "n", "t", "explode(sequence(0, pmod(n, 3))) AS i")'
    '.selectExpr("k", "10 * n + i AS n", "t")',
    "static": f'rows = rows.join(given.table("{queries.SIZES}"), "k", "left")'
    '.selectExpr("k", "10 * n + coalesce(size, 0) AS n", "t")',
    "itself": 'rows = rows.unionByName(rows.selectExpr("k", "-n AS n", "t"))',
    "shuffle": 'rows = rows.repartition(3, "n")',
    "arrow": "rows = rows.mapInArrow(negated, rows.schema)",
    "pandas": 'rows = rows.select("k", squared("n").alias("n"), "t")',
}
#: Those that lose the order of a key's records, or the watermark of their column.
DISORDERING = {"itself", "shuffle", "rekey", "static"}
WATERMARK = f'rows = rows.withWatermark("t", "{queries.DELAY}")'
COUNTED = 'agg(sf.count("*").alias("c"), sf.sum("n").alias("s"))'


@dataclass(frozen=True, slots=True)
class Last:
    """How a query ends: its lines, and what that means for the rest."""

    lines: tuple[str, ...] = ()
    key: str = "k"
    batch_lines: tuple[str, ...] | None = None  #: where a batch cannot do it
    mode: str = "append"
    match: Match = Match.SAME
    keeps_state: bool = True
    has_watermark: bool = False
    is_step: bool = False  #: a step of ours: the sink does it


def _windows(windowing: str, mode: str = "append") -> Last:
    lines = (WATERMARK, f'rows = rows.groupBy("k", {windowing}.alias("w")).{COUNTED}')
    match = {"append": Match.SAME, "update": Match.LATEST, "complete": Match.ALL_AGAIN}[mode]
    return Last(lines, queries.WINDOW_START, mode=mode, match=match, has_watermark=mode == "append")


TUMBLING, SLIDING = 'sf.window("t", "5 minutes")', 'sf.window("t", "4 minutes", "2 minutes")'
SESSION = 'sf.session_window("t", "30 seconds")'
TOTALS = (f'rows = rows.groupBy("k").{COUNTED}',)
LASTS: dict[str, Last] = {
    "rows": Last(('rows = rows.select("k", "n")',), keeps_state=False),
    "tumbling, append": _windows(TUMBLING),
    "sliding, append": _windows(SLIDING),
    "session, append": _windows(SESSION),
    "tumbling, update": _windows(TUMBLING, "update"),
    "tumbling, complete": _windows(TUMBLING, "complete"),
    "totals, update": Last(TOTALS, mode="update", match=Match.LATEST),
    "totals, complete": Last(TOTALS, mode="complete", match=Match.ALL_AGAIN),
    "distinct": Last(('rows = rows.selectExpr("k", "pmod(n, 3) AS d").dropDuplicates()',)),
    "distinct in time": Last(
        (WATERMARK, 'rows = rows.dropDuplicates(["k", "n", "t"]).select("k", "n")'), has_watermark=True
    ),
    "distinct, then tumbling": Last(
        (
            WATERMARK,
            'rows = rows.dropDuplicates(["k", "n", "t"])',
            f'rows = rows.groupBy("k", {TUMBLING}.alias("w")).{COUNTED}',
        ),
        queries.WINDOW_START,
        has_watermark=True,
    ),
    "pandas state": Last(
        (
            'rows = rows.select("k", "n").groupBy("k").applyInPandasWithState(',
            '    add_up_by_key, "k string, c long, s long", "c long, s long", "update", "NoTimeout")',
        ),
        batch_lines=TOTALS,
        mode="update",
        match=Match.LATEST,
    ),
    "step": Last(('rows = rows.select("k", "n")',), match=Match.LATEST, keeps_state=False, is_step=True,
                 batch_lines=TOTALS),
}  # fmt: skip
#: A query triggered once has no batches without data; all others may.
TRIGGERS: dict[str, dict[str, Any]] = {
    "availableNow": {"availableNow": True},
    "processingTime": {"processingTime": "10 milliseconds"},
    "default": {},
    "once": {"once": True},
}
SINKS: dict[str, sinks.Sink] = {
    "write_stream": sinks.by_write_stream,
    "foreachBatch": sinks.by_foreach_batch,
    "beside parquet": sinks.beside_parquet,
    "two writes": sinks.in_two_writes,
    "unless empty": sinks.unless_empty,
    "step": sinks.with_step,
}
JOIN_LINES = (
    f'left = given("a").withWatermark("t", "{queries.DELAY}")',
    f'right = given("b").withWatermark("t", "{queries.DELAY}").selectExpr("k AS rk", "n AS rn", "t AS rt")',
    f'rows = left.join(right, sf.expr("{queries.MEET.replace("lt", "t")}"), "{{how}}")',
    'rows = rows.selectExpr("k", "10000 * n + coalesce(rn, 0) AS n", "t")',
)


@dataclass(frozen=True, slots=True)
class Made:
    """A generated pipeline."""

    seed: int
    sources: Mapping[str, Source]
    combine: str  #: `union`, or how two sources are joined
    steps: tuple[str, ...]  #: of `STATELESS`
    last: str  #: of `LASTS`
    sink: str
    trigger: str
    acts: tuple[Act, ...]
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_joined(self) -> bool:
        return self.combine != "union"

    @property
    def has_watermark(self) -> bool:
        return self.is_joined or LASTS[self.last].has_watermark

    @property
    def loss(self) -> Loss:
        kinds = {source.kind for source in self.sources.values()}
        if self.is_joined or LASTS[self.last].keeps_state:
            return Loss.OF_STATE
        if Kind.FILES in kinds:
            return Loss.OF_POSITIONS
        return Loss.OF_START if Kind.KAFKA in kinds else Loss.CONTINUES

    @property
    def match(self) -> Match:
        found = LASTS[self.last].match
        in_order = (
            found is Match.SAME
            and self.last == "rows"
            and len(self.sources) == 1
            and not self.is_joined
            and not DISORDERING & set(self.steps)
            and not any(source.options for source in self.sources.values())
            and not any(isinstance(act, Grow) for act in self.acts)  # keys move
        )
        return Match.IN_ORDER if in_order else found

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {source.kind.value}" for name, source in self.sources.items())
        deaths = [act.death for act in self.acts if isinstance(act, Run) and act.death is not None]
        return (
            f"{kinds}; {' '.join([self.combine, *self.steps])}; {self.last}; {self.sink}; {self.trigger}; "
            f"{len(deaths)} deaths"
        )


# -- from what was made to a case --------------------------------------------------------------------------------------


def query_text(made: Made, *, name: str = "query", is_stream: bool = True) -> str:
    """The query as a function. A step of ours takes rows; everything else ends with records."""
    last = LASTS[made.last]
    if made.is_joined:
        lines = [line.format(how=made.combine) for line in JOIN_LINES]
    else:
        names = [*made.sources]
        lines = [f'rows = given("{names[0]}")', *(f'rows = rows.unionByName(given("{each}"))' for each in names[1:])]
    lines += [STATELESS[step] for step in made.steps]
    lines += last.lines if is_stream or last.batch_lines is None else last.batch_lines
    if last.is_step and is_stream:
        lines += ["return rows"]
    else:
        lines += [f'return rows.selectExpr("{last.key} AS key", "to_json(struct(*)) AS value")']
    return f"def {name}(given):\n" + "".join(f"    {line}\n" for line in lines)


def as_case(made: Made) -> Case:
    last = LASTS[made.last]
    return Case(
        name=str(made),
        query=_compiled(made, is_stream=True),
        expected=_compiled(made, is_stream=False),
        sources=made.sources,
        sink=SINKS[made.sink],
        match=made.match,
        mode=last.mode,
        trigger=TRIGGERS[made.trigger],
        loss=made.loss,
        has_watermark=made.has_watermark,
        conf=made.conf,
        options=made.options,
        acts=made.acts,
        moves_group=made.sink != "unless empty",
    )


def _compiled(made: Made, *, is_stream: bool) -> Callable[[given_module.Given], Any]:
    names: dict[str, Any] = {
        "sf": sf,
        "negated": queries.negated,
        "squared": queries.squared,
        "add_up_by_key": python_state.add_up_by_key,
    }
    exec(query_text(made, is_stream=is_stream), names)
    return names["query"]


# -- at random ---------------------------------------------------------------------------------------------------------


def generate(seed: int, *, with_connector: bool = False) -> Made:
    """`with_connector`: Spark's own source may be among the sources."""
    rng = random.Random(seed)
    last = rng.choices([*LASTS], weights=[6 if name in ("rows", "step") else 1 for name in LASTS])[0]
    is_joined = LASTS[last].mode == "append" and not LASTS[last].is_step and last == "rows" and rng.random() < 0.4
    wave_count = rng.randint(1, 3)
    count = 2 if is_joined else rng.choice((1, 1, 1, 2, 2, 3))
    sources = {name: _source(rng, number, wave_count, with_connector) for number, name in enumerate("abc"[:count])}
    if count == 2 and rng.random() < 0.15 and sources["a"].kind is Kind.FENCEPOST:
        sources["b"] = Source(same_as="a", per_batch=rng.choice((sources["a"].per_batch, rng.randint(1, 12))),
                              partitions=sources["a"].partitions, topics=sources["a"].topics)  # fmt: skip
    combine = rng.choice(("inner", "left")) if is_joined else "union"
    stateless = [name for name in STATELESS if not (is_joined and name in ("arrow", "itself"))]
    steps = tuple(rng.sample(stateless, rng.choice((0, 0, 1, 1, 2, 3))))
    if last == "step":
        sink = "step"
    else:
        sink = rng.choice(("write_stream", "write_stream", "foreachBatch", "beside parquet", "two writes"))
        if last == "rows" and not is_joined and rng.random() < 0.2:  # to ask for one row of Spark's state spoils it
            sink = "unless empty"
    conf = {"spark.sql.shuffle.partitions": str(rng.choice((1, 2, 2, 3)))}
    if rng.random() < 0.3:
        conf["spark.sql.streaming.noDataMicroBatches.enabled"] = "false"
    if LASTS[last].keeps_state and rng.random() < 0.2:
        conf |= ROCKS
    # A writer that dies without a successor that fences it first holds up a source that starts from what is committed.
    options = {"kafka.transaction.timeout.ms": "20000"}
    if rng.random() < 0.3:
        options["smallBatchRecords"] = "0"
    if rng.random() < 0.3:
        options["transactionProtocol"] = rng.choice("12")
    trigger = rng.choices([*TRIGGERS], weights=(5, 2, 1, 1))[0]
    made = Made(seed, sources, combine, steps, last, sink, trigger, (), conf, options)
    return _with_acts(rng, made, wave_count)


def _source(rng: random.Random, number: int, wave_count: int, with_connector: bool) -> Source:
    kinds = [Kind.FENCEPOST] * 8 + [Kind.FILES] + [Kind.KAFKA] * with_connector
    kind = rng.choice(kinds)
    waves = tuple(_wave(rng, number, wave) for wave in range(wave_count))
    if kind is not Kind.FENCEPOST:
        return Source(waves, kind, partitions=rng.randint(1, 3), per_batch=rng.randint(2, 8))
    topics = rng.choice((1, 1, 1, 2))
    subscribed = rng.choice((Subscribed.BY_NAME, Subscribed.BY_NAME, Subscribed.BY_PATTERN, Subscribed.BY_PARTITION))
    return Source(
        waves,
        kind,
        topics=topics,
        partitions=rng.randint(1, 3),
        subscribed=subscribed,
        written=rng.choice((Written.PLAIN, Written.PLAIN, Written.WITH_ABORTS)),
        per_batch=rng.randint(2, 10),
        options={"minPartitions": str(rng.randint(2, 4))} if rng.random() < 0.15 else {},
    )


def _wave(rng: random.Random, source: int, number: int) -> Wave:
    """Now and then nothing at all."""
    count = rng.choice((0, 1, *range(4, 25)))
    first = 1000 * source + 100 * number
    day_s = FIRST_S + DAY_S * number
    return tuple(Row(rng.choice(KEYS), first + i, day_s + rng.randrange(600)) for i in range(count))


def _with_acts(rng: random.Random, made: Made, wave_count: int) -> Made:
    can_lose = made.loss is Loss.CONTINUES and not any(source.same_as for source in made.sources.values())
    can_lose = can_lose and made.sink != "unless empty"  # see the case of the matrix that is pending
    is_whole = made.last == "rows" and not made.is_joined  # may be compared at any time
    acts: list[Act] = []
    may_grow = [
        name
        for name, source in made.sources.items()
        if source.kind is Kind.FENCEPOST and source.subscribed is not Subscribed.BY_PARTITION and not source.same_as
    ]
    for wave in range(wave_count):
        if wave and may_grow and rng.random() < 0.15:
            acts.append(Grow(rng.choice(may_grow)))
        acts.append(Write(wave))
        for _ in range(rng.choice((0, 1, 1, 2))):
            acts.append(Run(_death(rng, (0, 0, 1, 1, 2, 3))))
            if can_lose and rng.random() < 0.25:
                acts.append(LoseCheckpoint())
        if made.has_watermark or rng.random() < 0.6:
            acts.append(Run())
            if is_whole and rng.random() < 0.3:
                acts.append(Check())
            if can_lose and rng.random() < 0.2:
                acts.append(LoseCheckpoint())
    acts.append(Run())
    if made.has_watermark:
        acts += [Write(wave_count), *_dying(rng), Run(), Write(wave_count + 1), *_dying(rng), Run()]
    acts.append(Check())
    has_read = any(
        any(source.waves)
        for source in made.sources.values()
        if made.loss is not Loss.OF_START or source.kind is Kind.KAFKA
    )
    if made.loss is not Loss.CONTINUES and has_read and rng.random() < 0.3:
        acts += [Write(wave_count + 2), LoseCheckpoint(), RunRefused(made.loss)]
    return replace(made, acts=tuple(acts))


def _dying(rng: random.Random) -> list[Act]:
    return [Run(_death(rng, (0, 1)))] if rng.random() < 0.4 else []


def _death(rng: random.Random, passes: Sequence[int]) -> Death:
    """One in three is none: the query is stopped, or an attempt repeated."""
    how = rng.choice((*[How.PLAYED] * 4, How.STOPPED, How.REPEATED))
    points = [point for point in POINTS if how is not How.REPEATED or point != COMMIT_SENT]
    return Death(rng.choice(points), rng.choice(passes), how)
