"""Whether an output is right, given the batch query's. Pure.

Records of sentinels are left out on both sides: which of them a stream gives depends on where its watermark ends.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.spark.queries.case import SENTINEL, SENTINEL_YEAR, Match
from tests.spark.queries.outside import Seen

SHOWN_MAX = 6

Key = tuple[str, str | None]


def complaints(
    match: Match, found: Iterable[Seen], batch: Iterable[Seen], running: Iterable[Seen] | None = None
) -> list[str]:
    """What is wrong, in words; nothing if it is right."""
    found, batch = without_sentinels(found), without_sentinels(batch)
    if match in (Match.SAME, Match.IN_ORDER):
        wrong = _differences(found, batch)
        if not wrong and match is Match.IN_ORDER:
            wrong = _disorders(_by_key(found), _by_key(batch))
        return wrong
    legal = None if running is None else _by_key(without_sentinels(running))
    return _progressions(_by_key(found), _by_key(batch), legal, may_repeat=match is Match.ALL_AGAIN)


def without_sentinels(records: Iterable[Seen]) -> list[Seen]:
    return [
        record
        for record in records
        if (record.key or "").split("/")[0] != SENTINEL
        and f'"{SENTINEL}"' not in (record.value or "")
        and f"{SENTINEL_YEAR}-" not in f"{record.key} {record.value}"
    ]


def _differences(found: Sequence[Seen], batch: Sequence[Seen]) -> list[str]:
    missing, surplus = Counter(batch) - Counter(found), Counter(found) - Counter(batch)
    known = set(batch)
    wrong = []
    if missing:
        wrong.append(f"{missing.total()} of {len(batch)} records are missing: {_some(missing)}")
    if twice := Counter({record: times for record, times in surplus.items() if record in known}):
        wrong.append(f"{twice.total()} records are there too often: {_some(twice)}")
    if foreign := Counter({record: times for record, times in surplus.items() if record not in known}):
        wrong.append(f"{foreign.total()} records are not the batch query's: {_some(foreign)}")
    return wrong


def _disorders(found: dict[Key, list[str | None]], batch: dict[Key, list[str | None]]) -> list[str]:
    odd = [key for key, values in batch.items() if found[key] != values]
    return [f"records of key {key} are in another order: {found[key]} instead of {batch[key]}" for key in odd[:1]]


def _progressions(
    found: dict[Key, list[str | None]],
    batch: dict[Key, list[str | None]],
    legal: dict[Key, list[str | None]] | None,
    *,
    may_repeat: bool,
) -> list[str]:
    """For each key: it goes through legal values, in their order, and ends with the batch's."""
    wrong = [f"key {key} is missing" for key in batch if key not in found]
    wrong += [f"key {key} is not the batch query's" for key in found if key not in batch]
    for key, values in found.items():
        if key not in batch:
            continue
        if len(batch[key]) != 1:
            wrong.append(f"the batch query has {len(batch[key])} records of key {key}: it is no key")
        elif values[-1] != batch[key][0]:
            wrong.append(f"key {key} ends with {values[-1]} instead of {batch[key][0]}")
        steps = list(_without_repetitions(values)) if may_repeat else values
        if len(set(steps)) != len(steps):
            wrong.append(f"key {key} has a value twice: {steps}")
        if legal is not None and not _is_subsequence(steps, legal.get(key, [])):
            wrong.append(f"key {key} has been {steps}, and only {legal.get(key, [])} are possible, in this order")
    return wrong[:SHOWN_MAX]


def _by_key(records: Iterable[Seen]) -> dict[Key, list[str | None]]:
    found: dict[Key, list[str | None]] = {}
    for record in records:
        found.setdefault((record.label, record.key), []).append(record.value)
    return found


def _without_repetitions(values: Sequence[str | None]) -> Iterable[str | None]:
    return (value for i, value in enumerate(values) if i == 0 or value != values[i - 1])


def _is_subsequence(part: Sequence[str | None], whole: Sequence[str | None]) -> bool:
    rest = iter(whole)
    return all(value in rest for value in part)


def _some(records: Counter[Seen]) -> str:
    shown = [f"{record.label}: {record.key} {record.value}" for record in list(records)[:SHOWN_MAX]]
    return "; ".join(shown) + (" …" if len(records) > SHOWN_MAX else "")
