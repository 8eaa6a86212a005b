"""What the page asks for beside the live channels: details, one question of the cluster at a time.

Each function takes a `Cluster` and the request's parameters, and returns JSON. Raises `Wrong` for parameters that make
no sense; errors of the cluster pass through.
"""

from collections.abc import Iterator, Mapping, Sequence

from fencepost.client.cluster import Cluster
from fencepost.client.configs import Of, Source, describe_configs
from fencepost.client.offsets import partitions_of
from fencepost.console import logs, shapes
from fencepost.console.history import Story
from fencepost.console.logs import Outcome, read_window, sample
from fencepost.console.records import DOWNLOAD_MAX, LIMIT_MAX, Page, View, Wanted, last_start, offset_at, read_page
from fencepost.console.sampling import Sampler
from fencepost.console.shapes import Json
from fencepost.console.whole import find_parts, partitions_of_producer
from fencepost.errors import ClientError, FencepostError
from fencepost.lines.json_lines import as_dict
from fencepost.lines.reading import Outcome as Spelled
from fencepost.lines.reading import Seen
from fencepost.observe.groups import lags_of, survey_groups
from fencepost.observe.producers import open_in, producers_of
from fencepost.observe.stable import bounds_of
from fencepost.observe.transactions import describe, survey
from fencepost.observe.why import why
from fencepost.wire.terms import INTERNAL_TOPICS, TopicPartition

Parameters = Mapping[str, str]
POINTS_MAX = 200
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
NAME_BYTES_MAX = 32_767
SHOWN_MAX = 100  #: of a wrong parameter
LETTERS_SHOWN, LETTER_TOPICS_MAX = 20, 20


class Wrong(FencepostError):
    """A parameter is missing or makes no sense."""


def number(given: Parameters, name: str, default: int | None = None) -> int:
    text = given.get(name, "")
    if not text and default is not None:
        return default
    try:
        found = int(text)
    except ValueError:
        raise Wrong(f"{name} must be a number, not {text[:SHOWN_MAX]!r}") from None
    if not INT64_MIN <= found <= INT64_MAX:
        raise Wrong(f"{name} must fit into 64 bits")
    return found


def needed(given: Parameters, name: str) -> str:
    if not given.get(name):
        raise Wrong(f"{name} is missing")
    return short(given, name)


def short(given: Parameters, name: str) -> str:
    """What the protocol can carry as a name: a longer one makes brokers hang up."""
    try:
        size = len(given[name].encode())
    except UnicodeEncodeError:
        raise Wrong(f"{name} has half a surrogate pair, so it names nothing") from None
    if size > NAME_BYTES_MAX:
        raise Wrong(f"{name} has more than {NAME_BYTES_MAX} bytes, so it names nothing")
    return given[name]


def place(given: Parameters) -> TopicPartition:
    return TopicPartition(needed(given, "topic"), number(given, "partition", 0))


# -- a partition -------------------------------------------------------------------------------------------------------


def partition(cluster: Cluster, given: Parameters) -> Json:
    """Its bounds, the groups that read it, the transactions that are open in it."""
    where = place(given)
    known = logs.bounds(cluster, where)
    groups = survey_groups(cluster, partitions=[where]).groups
    opened = open_in(producers_of(cluster, [where]))
    owners = survey(cluster, producer_ids={each.producer_id for each in opened}).by_producer() if opened else {}
    return {
        "bounds": shapes.bounds(known),
        "partitions": len(cluster.topic(where.topic).partitions),
        "groups": [{"id": each.group_id, "offset": each.offsets[where]} for each in groups if where in each.offsets],
        "open": [
            {**shapes.producer(each), "id": owners[each.producer_id].transactional_id}
            if each.producer_id in owners
            else shapes.producer(each)
            for each in opened
        ],
    }


def strip(cluster: Cluster, given: Parameters) -> Json:
    batches = min(number(given, "batches", logs.BATCHES_MAX), logs.BATCHES_MAX)
    return shapes.window(read_window(cluster, place(given), number(given, "start", 0), batches_max=max(1, batches)))


def overview(cluster: Cluster, given: Parameters) -> Json:
    where = place(given)
    known = logs.bounds(cluster, where)
    points = max(1, min(number(given, "points", 100), POINTS_MAX))
    start, end = number(given, "start", known.log_start), number(given, "end", known.end)
    found = sample(cluster, where, start, end, points)
    return {"bounds": shapes.bounds(known), "batches": [shapes.batch(each) for each in found]}


def batch(cluster: Cluster, given: Parameters) -> Json:
    where, offset = place(given), number(given, "offset")
    window = read_window(cluster, where, offset, batches_max=1, with_records=True)
    if not window.batches:
        raise Wrong(f"{where} has nothing at offset {offset}")
    return shapes.batch_in_full(window.batches[0])


# -- records -----------------------------------------------------------------------------------------------------------


def wanted_in(given: Parameters, limit_max: int = LIMIT_MAX) -> Wanted:
    try:
        view = View(given.get("view") or View.UNCOMMITTED)
        outcome = Outcome(given["outcome"]) if given.get("outcome") else None
    except ValueError as error:
        raise Wrong(str(error)) from None
    producer = number(given, "producer") if given.get("producer") else None
    limit = max(1, min(number(given, "limit", 100), limit_max))
    return Wanted(view, given.get("filter", ""), outcome, producer, limit)


def start_in(cluster: Cluster, where: TopicPartition, given: Parameters, limit: int) -> int:
    if given.get("time_ms"):
        return offset_at(cluster, where, number(given, "time_ms"))
    return number(given, "start") if given.get("start") else last_start(cluster, where, limit)


def records(cluster: Cluster, given: Parameters) -> Json:
    where, wanted = place(given), wanted_in(given)
    start = start_in(cluster, where, given, wanted.limit)
    page = read_page(cluster, where, start, wanted)
    return {
        "start": start,
        "bounds": shapes.bounds(logs.bounds(cluster, where)),
        "records": [shapes.record(record, of) for record, of in page.found],
        "next": page.next_offset,
        "last": page.is_last,
        "searched": page.searched,
    }


def download(cluster: Cluster, given: Parameters) -> tuple[TopicPartition, Page]:
    where, wanted = place(given), wanted_in(given, DOWNLOAD_MAX)
    return where, read_page(cluster, where, start_in(cluster, where, given, wanted.limit), wanted)


def lines(where: TopicPartition, page: Page) -> Iterator[Json]:
    """Of a download: one object for each record, in full, as `fencepost consume --json` spells it."""
    for record, of in page.found:
        header = of.header
        yield as_dict(Seen(where, record, _SPELLED[of.outcome], None, header.producer_id, header.producer_epoch))


_SPELLED = {
    Outcome.PLAIN: Spelled.NONE,
    Outcome.COMMITTED: Spelled.COMMITTED,
    Outcome.ABORTED: Spelled.ABORTED,
    Outcome.OPEN: Spelled.OPEN,
    Outcome.UNDECIDED: Spelled.OPEN,  # to readers it is: it lies above the last stable offset
}


# -- transactions ------------------------------------------------------------------------------------------------------


def transaction(cluster: Cluster, given: Parameters, sampler: Sampler) -> Json:
    """What its coordinator and the log of coordinators tell of an id."""
    name = needed(given, "id")
    found = describe(cluster, name)
    stories = sampler.stories_of(name)
    places = [] if found is None else list(found.partitions)
    opened = [] if found is None else open_in(producers_of(cluster, places)) if places else []
    return {
        "id": name,
        "now": None if found is None else shapes.transaction_in_full(found),
        "stories": [shapes.story_in_full(each) for each in stories[:50]],
        "open": [shapes.producer(each) for each in opened if found and each.producer_id == found.producer_id],
    }


def whole(cluster: Cluster, given: Parameters, sampler: Sampler) -> Json:
    """The transaction of a batch, or a story's, in all its partitions."""
    if given.get("key"):
        name = needed(given, "id")
        story = next((each for each in sampler.stories_of(name) if each.key == given["key"]), None)
        if story is None:
            raise Wrong("the console does not remember that transaction any more")
        return _whole_of(cluster, story)
    where, offset = place(given), number(given, "offset")
    window = read_window(cluster, where, offset, batches_max=1)
    if not window.batches or not window.batches[0].header.is_transactional:
        raise Wrong(f"the record at offset {offset} of {where} is in no transaction")
    found = window.batches[0]
    producer_id = found.header.producer_id
    ended_ms = None if found.outcome is Outcome.OPEN else _marker_ms(cluster, where, found)
    story = sampler.story_of_producer(producer_id, ended_ms)
    if story is not None:
        return _whole_of(cluster, story)
    places = partitions_of_producer(cluster, producer_id)
    parts = find_parts(cluster, producer_id, {*places, where}, found.header.base_timestamp, ended_ms)
    return {
        "story": None,
        "producer": producer_id,
        "parts": [shapes.part(each) for each in parts if not each.problem or each.where == where],
    }


def _marker_ms(cluster: Cluster, where: TopicPartition, found: logs.LogBatch) -> int | None:
    """When its marker was written, by the broker's clock."""
    start, producer_id = found.header.base_offset, found.header.producer_id
    for _ in range(4):
        window = read_window(cluster, where, start)
        for each in window.batches:
            if each.outcome.is_marker and each.header.producer_id == producer_id:
                return each.header.max_timestamp
        if window.is_last:
            return None
        start = window.next_offset
    return None


def _whole_of(cluster: Cluster, story: Story) -> Json:
    parts = find_parts(cluster, story.producer_id, story.partitions, story.start_ms, story.ended_ms)
    return {
        "story": shapes.story_in_full(story),
        "producer": story.producer_id,
        "parts": [shapes.part(each) for each in parts],
    }


def stuck(cluster: Cluster, given: Parameters) -> Json:
    """`fencepost tx why`."""
    index = number(given, "partition") if given.get("partition") else None
    return shapes.explanation(why(cluster, short(given, "topic") if given.get("topic") else None, index))


# -- groups, topics, pipelines -----------------------------------------------------------------------------------------


def group(cluster: Cluster, given: Parameters, sampler: Sampler) -> Json:
    name = needed(given, "id")
    found = next(iter(survey_groups(cluster, names=[name]).groups), None)
    if found is None:
        raise Wrong(f"there is no group {name!r}")
    bounds = bounds_of(cluster, found.offsets).found if found.offsets else {}
    lags = lags_of(cluster, [found], bounds)[name]
    return {
        "id": name,
        "state": found.state,
        "coordinator": found.coordinator,
        "protocol": found.protocol_type,
        "members": shapes.members(found),
        "lags": [shapes.group_lag(each, bounds.get(each.where)) for each in lags],
        "points": sampler.lag_points(name),
    }


def topic(cluster: Cluster, given: Parameters) -> Json:
    name = needed(given, "name")
    places = partitions_of(cluster, [name])
    metadata = cluster.topic(name)
    found = bounds_of(cluster, places)
    try:
        configs = describe_configs(cluster, Of.TOPIC, name)
    except ClientError:  # hidden from us
        configs = {}
    return {
        "name": name,
        "id": metadata.id.hex(),
        "partitions": [
            {
                "partition": where.partition,
                "leader": metadata.partitions[where.partition].leader,
                "replicas": list(metadata.partitions[where.partition].replicas),
                "in_sync": list(metadata.partitions[where.partition].in_sync),
                "bounds": shapes.bounds(found.found[where]) if where in found.found else None,
                "problem": str(found.failed[where]) if where in found.failed and where not in found.found else "",
            }
            for where in places
        ],
        "settings": [
            {"name": each.name, "value": each.value, "own": each.source is Source.TOPIC}
            for each in sorted(configs.values(), key=lambda each: (each.source is not Source.TOPIC, each.name))
        ],
    }


def pipeline(cluster: Cluster, given: Parameters, sampler: Sampler) -> Json:
    from fencepost.cli.pipeline_text import description_as_dict
    from fencepost.client.naming import transactional_id_of
    from fencepost.operate import overview as overviews

    name = needed(given, "name")
    found: Json = description_as_dict(overviews.of(cluster, name, history=True))
    stories = sampler.stories_of(transactional_id_of(name))
    return {
        **found,
        "stories": [shapes.story(each) for each in stories[:100]],
        "history": found["history"][:100],
        "dead_letters": _letters(cluster, stories),
    }


def _letters(cluster: Cluster, stories: Sequence[Story]) -> list[Json]:
    """The last dead letters in the topics that these transactions wrote to."""
    from fencepost.dead_letters.reading import last

    names = {where.topic for story in stories for where in story.partitions if where.topic not in INTERNAL_TOPICS}
    found: list[Json] = []
    for name in sorted(names)[:LETTER_TOPICS_MAX]:
        try:
            letters = [each for each in last(cluster, name, LETTERS_SHOWN) if each.reason]
        except ClientError:  # the topic was deleted meanwhile, or is hidden from us
            continue
        found += [
            {**shapes.place(each.where), "offset": each.offset, "time_ms": each.time_ms, "reason": each.reason}
            for each in letters
        ]
    return sorted(found, key=lambda each: -each["time_ms"])[:LETTERS_SHOWN]
