"""Makes a generated pipeline that fails smaller, as long as it fails in the same way.

Greedy: whatever can be taken away is, the largest parts first. Each try is a run, so the time is bounded.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tests.spark.queries.acts import Act, Check, Death, Grow, How, LoseCheckpoint, Run, Write
from tests.spark.queries.case import Kind, Source, Subscribed, Written
from tests.spark.queries.generate import Made

#: Whether it still fails in the same way.
Fails = Callable[[Made], bool]


def shrink(made: Made, fails: Fails, is_over: Callable[[], bool]) -> Made:
    """The smallest that was found before `is_over`."""
    while True:
        for smaller in candidates(made):
            if is_over():
                return made
            if fails(smaller):
                made = smaller
                break
        else:
            return made


def candidates(made: Made) -> Iterator[Made]:
    """Legal pipelines that are a little smaller, those that save most first."""
    waves = max((len(source.waves) for source in made.sources.values()), default=0)
    if waves > 1:
        for wave in range(waves):
            yield without_wave(made, wave, waves)
    for name in made.sources:
        if len(made.sources) > 1 and not made.is_joined and not _is_read_again(made, name):
            yield _without_source(made, name)
    for index, act in enumerate(made.acts):
        if _may_go(act, made.acts[index + 1 :]):
            yield _with_acts(made, [*made.acts[:index], *made.acts[index + 1 :]])
    if made.is_joined:
        yield replace(made, combine="union")
    for index in range(len(made.steps)):
        yield replace(made, steps=made.steps[:index] + made.steps[index + 1 :])
    yield from _plainer(made)
    for name, source in made.sources.items():
        for smaller in _smaller_sources(source):
            yield _with_source(made, name, smaller)
    yield from _shorter_deaths(made)


def _may_go(act: Act, later: tuple[Act, ...]) -> bool:
    if isinstance(act, Run):
        return act.death is not None
    return isinstance(act, LoseCheckpoint | Grow) or (isinstance(act, Check) and Check() in later)


def without_wave(made: Made, wave: int, waves: int) -> Made:
    """Neither its rows nor what is done between its writing and the next."""
    acts: list[Act] = []
    is_in_it = False
    for act in made.acts:
        if isinstance(act, Write):
            is_in_it = act.wave == wave
            if not is_in_it:
                acts.append(Write(act.wave - (act.wave > wave)))
        elif not is_in_it or wave == waves - 1:
            acts.append(act)
    sources = {
        name: replace(source, waves=source.waves[:wave] + source.waves[wave + 1 :])
        for name, source in made.sources.items()
    }
    return replace(made, sources=sources, acts=tuple(acts))


def _without_source(made: Made, name: str) -> Made:
    sources = {other: source for other, source in made.sources.items() if other != name}
    return replace(made, sources=sources, acts=tuple(act for act in made.acts if act != Grow(name)))


def _plainer(made: Made) -> Iterator[Made]:
    if made.last != "rows":
        yield replace(made, last="rows", sink="write_stream" if made.sink == "step" else made.sink)
    if made.sink not in ("write_stream", "step"):
        yield replace(made, sink="write_stream")
    if made.trigger != "availableNow":
        yield replace(made, trigger="availableNow")
    for name in made.conf:
        yield replace(made, conf=_without(made.conf, name))
    for name in made.options:
        yield replace(made, options=_without(made.options, name))


def _smaller_sources(source: Source) -> Iterator[Source]:
    if source.kind is not Kind.FENCEPOST:
        yield replace(source, kind=Kind.FENCEPOST)
    plain = {
        "topics": 1, "partitions": 1, "subscribed": Subscribed.BY_NAME, "written": Written.PLAIN, "options": {},
    }  # fmt: skip
    for name, value in plain.items():
        if getattr(source, name) != value and source.same_as is None:
            yield replace(source, **{name: value})  # type: ignore[arg-type]
    for number, wave in enumerate(source.waves):
        half = len(wave) // 2
        parts = [(), wave[:half], wave[half:]] if half else [()]
        if len(wave) <= 6:
            parts += [wave[:index] + wave[index + 1 :] for index in range(len(wave))]
        for part in parts:
            if len(part) < len(wave):
                yield replace(source, waves=(*source.waves[:number], part, *source.waves[number + 1 :]))


def _shorter_deaths(made: Made) -> Iterator[Made]:
    for index, act in enumerate(made.acts):
        if isinstance(act, Run) and act.death is not None:
            shorter = []
            if act.death.how is not How.PLAYED:
                shorter.append(Death(act.death.point, act.death.passes))
            if act.death.passes:
                shorter.append(replace(act.death, passes=act.death.passes - 1))
            for death in shorter:
                yield _with_acts(made, [*made.acts[:index], Run(death), *made.acts[index + 1 :]])


def _is_read_again(made: Made, name: str) -> bool:
    return any(source.same_as == name for source in made.sources.values())


def _with_source(made: Made, name: str, source: Source) -> Made:
    """Whoever reads the same topics knows how they are."""
    changed = {
        other: replace(each, topics=source.topics, partitions=source.partitions) if each.same_as == name else each
        for other, each in made.sources.items()
    }
    return replace(made, sources={**changed, name: source})


def _with_acts(made: Made, acts: list[Act]) -> Made:
    return replace(made, acts=tuple(acts))


def _without(given: Mapping[str, str], name: str) -> dict[str, str]:
    return {other: value for other, value in given.items() if other != name}
