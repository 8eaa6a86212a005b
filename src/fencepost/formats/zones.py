"""How far a time zone is from UTC, for a column of times at once.

Zones are named as Spark names them: by region (`Europe/Amsterdam`), by offset (`+01:00`, `UTC-3`), or by Java's short
names (`PST`).

Invariant: only times on days when the offset changes are looked at one by one.
"""

import datetime
import functools
import re
import zoneinfo
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client.arrow import Longs
from fencepost.errors import ConfigError

DAY_S = 86_400
#: The calendar, weekdays included, repeats after 400 years. So do the rules of zones, in years beyond 9999.
CYCLE_S = 146_097 * DAY_S
#: The years that Python's zones know, without the first and the last day.
FIRST_S, LAST_S = -62_135_510_400, 253_402_214_400
#: Later years are looked up in a cycle that Python knows and whose rules are the last ones: 3570 to 3969.
FAR_S = 4 * CYCLE_S

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_UTC = {"Z", "UTC", "GMT", "UT", "ETC/UTC", "ETC/GMT", "ZULU", "UCT"}
#: Java's `ZoneId.SHORT_IDS`.
SHORT_IDS = {
    "EST": "-05:00", "HST": "-10:00", "MST": "-07:00", "ACT": "Australia/Darwin", "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo", "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


class Zone:
    """Raises ConfigError for a name that is no time zone."""

    def __init__(self, name: str) -> None:
        self._fixed_s, self._region = _find(name.strip())

    def offsets_s(self, utc_s: Longs) -> Longs:
        """Seconds ahead of UTC: one number if it is the same at all times, else one for each."""
        if self._region is None or not utc_s.size:
            return np.array([self._fixed_s], np.int64)
        inside = np.where(utc_s > LAST_S, utc_s % CYCLE_S + FAR_S, np.maximum(utc_s, FIRST_S))
        days, place = np.unique(inside // DAY_S, return_inverse=True)
        at_start = np.array([self._look_up(day * DAY_S) for day in days.tolist()], np.int64)
        at_end = np.array([self._look_up(day * DAY_S + DAY_S) for day in days.tolist()], np.int64)
        found = at_start[place]
        for row in np.flatnonzero((at_start != at_end)[place]).tolist():
            found[row] = self._look_up(int(inside[row]))
        return np.ascontiguousarray(found)

    def _look_up(self, utc_s: int) -> int:
        offset = (_EPOCH + datetime.timedelta(seconds=utc_s)).astimezone(self._region).utcoffset()
        return 0 if offset is None else int(offset.total_seconds())


@functools.cache
def _find(name: str) -> tuple[int, zoneinfo.ZoneInfo | None]:
    if name.upper() in _UTC:
        return 0, None
    name = SHORT_IDS.get(name, name)
    if found := _OFFSET.fullmatch(name):
        hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        size = 3600 * hours + 60 * minutes + seconds
        return (-size if found[1] == "-" else size), None
    try:
        return 0, zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"there is no time zone {name!r} on this machine; if it exists, install the zones: pip install tzdata"
        ) from None


def in_zone(kind: Any, zone: str) -> Any:
    """An Arrow type with this zone for all times that have one. What is stored does not change: it is UTC."""
    types = pa.types
    if types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, zone)
    if types.is_struct(kind):
        return pa.struct([_field_in_zone(kind.field(index), zone) for index in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(_field_in_zone(kind.key_field, zone), _field_in_zone(kind.item_field, zone))
    if types.is_list(kind):
        return pa.list_(_field_in_zone(kind.value_field, zone))
    if types.is_large_list(kind):
        return pa.large_list(_field_in_zone(kind.value_field, zone))
    return kind


def _field_in_zone(field: Any, zone: str) -> Any:
    return field.with_type(in_zone(field.type, zone))
