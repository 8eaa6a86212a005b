"""A generated pipeline as a program that needs nothing of this directory: it starts a broker, writes the rows, runs the
query with its deaths, and compares.

What the harness does is written a second time here, straight on: a failure that both show is not one of the harness. A
driver that was really killed dies here as the others do.
"""

import json
from collections.abc import Iterator, Mapping
from pprint import pformat
from string import Template

from fencepost.spark.sink.steps import BatchStep
from tests.spark.queries.acts import Act, Check, Death, Grow, How, LoseCheckpoint, Run, RunRefused, Write
from tests.spark.queries.case import SENTINEL, SENTINEL_YEAR, Kind, Source, Subscribed, Written
from tests.spark.queries.generate import LASTS, TRIGGERS, Made, query_text
from tests.spark.queries.inputs import sentinel
from tests.spark.queries.script_parts import COMPARISONS, ENDS, FUNCTIONS, GIVEN, HEAD, RUN, STARTS, STEP


def script_of(made: Made, *, replay: str = "") -> str:
    """The whole program."""
    last, trigger = LASTS[made.last], TRIGGERS[made.trigger]
    queries = query_text(made, name="query_of_stream"), query_text(made, name="query_of_batch", is_stream=False)
    ends = {"availableNow", "once"} & set(trigger)
    parts = [
        HEAD.safe_substitute(
            title=f"{made}.",
            replay=replay,
            rows=_pretty({name: _rows(source) for name, source in made.sources.items() if source.same_as is None}),
            topics=_pretty({name: (_topics(name, each), each.partitions) for name, each in _written(made).items()}),
            conf=_pretty({"spark.sql.streaming.pollingDelay": "10", **made.conf}),
            options=_pretty(dict(made.options)),
        ),
        ENDS,
        *(f"\n{text}" for name, text in FUNCTIONS.items() if name in "".join(queries)),
        f"\n{STEP}" if last.is_step else "",
        GIVEN + "".join(f"    {line}\n" for name, source in made.sources.items() for line in _reading(name, source)),
        *(f"\n{query}" for query in queries),
        Template(STARTS[made.sink]).substitute(
            trigger=trigger, mode=last.mode, with_trigger=f".trigger(**{trigger})" if trigger else ""
        ),
        RUN.substitute(
            wait="awaitTermination()" if ends else "processAllAvailable()",
            times=4 if "once" in trigger else 1,
            sentinel=SENTINEL,
            year=SENTINEL_YEAR,
        )
        + COMPARISONS[made.match],
        "\n" + "".join(f"{line}\n" for act in made.acts for line in _act(made, act)),
        'print("right")\nspark.stop()\nbroker.close()\n',
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _pretty(given: object) -> str:
    return pformat(given, width=118, compact=True)


def _rows(source: Source) -> list[list[tuple[str, int, int]]]:
    return [[(row.k, row.n, row.s) for row in wave] for wave in source.waves]


def _written(made: Made) -> Mapping[str, Source]:
    """Sources with topics of their own."""
    return {n: each for n, each in made.sources.items() if each.same_as is None and each.kind is not Kind.FILES}


def _topics(name: str, source: Source) -> list[str]:
    return [f"in-{name}-{index}" for index in range(source.topics)]


def _reading(name: str, source: Source) -> Iterator[str]:
    yield f'if name == "{name}":'
    if source.kind is Kind.FILES:
        yield f'    (HOME / "files-{name}").mkdir(exist_ok=True)'
        yield '    reader = reader.option("maxFilesPerTrigger", 1) if is_stream else reader'
        yield f'    return reader.schema(COLUMNS).json(str(HOME / "files-{name}"))'
        return
    whose = source.same_as or name
    topics = _topics(whose, source)
    given = {
        Subscribed.BY_NAME: ",".join(topics),
        Subscribed.BY_PATTERN: f"in-{whose}-.*",
        Subscribed.BY_PARTITION: json.dumps({topic: list(range(source.partitions)) for topic in topics}),
    }[source.subscribed]
    options = {"maxOffsetsPerTrigger": str(source.per_batch), **source.options}
    if source.kind is Kind.KAFKA:
        options |= {"startingOffsets": "earliest"}
    else:
        options |= {"startingOffsets": "committed", "kafka.group.id": "p"}
    yield f"    options = {options} if is_stream else {{}}"
    yield f'    reader = reader.format("{source.kind.value}" if is_stream else "fencepost").options(**options)'
    yield f'    reader = reader.option("{source.subscribed.value}", {given!r})'
    yield '    reader = reader.option("kafka.bootstrap.servers", servers)'
    yield "    rows = reader.load()"
    yield "    return rows.selectExpr(f\"inline(array(from_json(CAST(value AS STRING), '{COLUMNS}')))\")"


def _act(made: Made, act: Act) -> Iterator[str]:
    if isinstance(act, Write):
        yield from _writing(made, act)
    elif isinstance(act, Run) and act.death is not None:
        end = {How.STOPPED: "stop", How.REPEATED: "fail"}.get(act.death.how, "die")
        if act.death.how is How.REPEATED and act.death.point in (BatchStep.COMMITTING, BatchStep.COMMITTED):
            end = "lose_the_outcome"
        yield f"run_until({_point(act.death)}, {act.death.passes}, {end})"
    elif isinstance(act, Run):
        yield "run_to_the_end()"
    elif isinstance(act, LoseCheckpoint):
        yield "shutil.rmtree(CHECKPOINT, ignore_errors=True)"
    elif isinstance(act, Grow):
        by_pattern = made.sources[act.source].subscribed is Subscribed.BY_PATTERN
        yield f'grow("{act.source}", by_pattern={by_pattern})'
    elif isinstance(act, Check):
        yield "check()"
    elif isinstance(act, RunRefused):
        yield "said = run()"
        yield f"assert said is not None and all(words in said for words in {act.words}), said"


def _writing(made: Made, act: Write) -> Iterator[str]:
    waves = max((len(source.waves) for source in made.sources.values()), default=0)
    for number, (name, source) in enumerate(made.sources.items()):
        if source.same_as is not None:
            continue
        function = "write_with_aborts" if source.written is Written.WITH_ABORTS else "write"
        function = "write_files" if source.kind is Kind.FILES else function
        if act.wave >= waves:
            rows = [(row.k, row.n, row.s) for row in sentinel(number, act.wave - waves)]
            yield f'{function}("{name}", {rows})  # moves the watermark'
        elif act.wave < len(source.waves) and source.waves[act.wave]:
            yield f'{function}("{name}", ROWS["{name}"][{act.wave}])'


def _point(death: Death) -> str:
    return f"BatchStep.{death.point.name}" if isinstance(death.point, BatchStep) else repr(death.point)
