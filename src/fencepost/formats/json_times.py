"""Dates and timestamps in text, by the rules of Spark's default formatters: what `CAST` takes, and what JSON adds.

Pure. A date is days, a timestamp microseconds since 1970. None is what Spark refuses. The proleptic Gregorian calendar
has years before 1 and after 9999, which Python's `datetime` has not: so days are counted here.
"""

import functools
import re
import zoneinfo
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from fencepost.formats.zones import SHORT_IDS

MICROS, DAY_S = 1_000_000, 86_400
DAY_MICROS = DAY_S * MICROS
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
#: White space and control characters, which Spark trims.
_BLANK = "".join(map(chr, range(33))) + "\x7f"
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_CLOCK = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?"
_TIMESTAMP = re.compile(rf"([+-]?)([0-9]{{4,6}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T]{_CLOCK})?)?)?", re.DOTALL)
_TIME = re.compile(f"(T?){_CLOCK}", re.DOTALL)
_OFFSET = re.compile(r"([+-])(?:([0-9])|([0-9]{2})(?::?([0-9]{2}))?|([0-9]{2}):([0-9]{2}):([0-9]{2})|([0-9]{6}))")
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")


def date(text: str) -> int | None:
    """A date, or else (as in Spark 1.5) the number of days."""
    for tried in (text, text.replace("GMT", "")):
        found = _date(tried)
        if found is not None:
            return found
    if re.fullmatch(r"[+-]?\d+", text) and max(text) <= "\uffff":
        days = int(text)
        if -INT_MAX - 1 <= days <= INT_MAX:
            return _from_julian(days)
    return None


def timestamp(text: str, zone: tzinfo) -> int | None:
    """A timestamp; `zone` counts where the text has none. A time without a date is today."""
    for tried in (text, text.replace("GMT", "")):
        found = _instant(tried, zone)
        if found is not None:
            return found
    return None


def local_timestamp(text: str) -> int | None:
    """A timestamp without a time zone. One that has a time zone is refused."""
    match = _TIMESTAMP.fullmatch(text.strip(_BLANK))
    if match is None or match[9] is not None:
        return None
    return _fitting(_local(*_date_parts(match), *_clock_parts(match, 5)))


@functools.lru_cache(maxsize=1000)
def zone(name: str) -> tzinfo | None:
    """A time zone by a name or offset that Java knows."""
    name = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", name, count=1)
    name = re.sub(r"([+-])([0-9]{2}):([0-9])$", r"\1\2:0\3", name, count=1)
    name = SHORT_IDS.get(name, name)
    if name == "Z":
        return UTC
    if name[:1] in ("+", "-"):
        return _offset(name)
    for prefix in ("UTC", "GMT", "UT"):
        if name == prefix:
            return UTC
        if name.startswith((prefix + "+", prefix + "-")):
            return _offset(name[len(prefix) :])
    if not _REGION.fullmatch(name) or name.startswith(("posix/", "right/")) or name in ("localtime", "posixrules"):
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _offset(text: str) -> tzinfo | None:
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    sign, hour, *pairs, packed = match.groups()
    if hour is not None:
        parts = [int(hour), 0, 0]
    elif packed is not None:
        parts = [int(packed[index : index + 2]) for index in (0, 2, 4)]
    else:
        parts = [int(part) for part in pairs if part is not None] + [0, 0, 0]
    hours, minutes, seconds = parts[:3]
    east = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or east > 18 * 3600:
        return None
    return timezone(timedelta(seconds=-east if sign == "-" else east))


def _date(text: str) -> int | None:
    match = _DATE.fullmatch(text.strip(_BLANK))
    days = _days(*_date_parts(match)) if match is not None else None
    return days if days is not None and -INT_MAX - 1 <= days <= INT_MAX else None


def _instant(text: str, default: tzinfo) -> int | None:
    text_trimmed = text.strip(_BLANK)
    match = _TIMESTAMP.fullmatch(text_trimmed)
    today = None
    if match is None:
        match = _TIME.fullmatch(text_trimmed)
        if match is None or not (text.startswith("T") if match[1] else match[3]):  # T is at the very beginning
            return None
        today = match
    first = 2 if today else 5
    name = match[first + 4]
    # Java's String.trim
    found = default if name is None else zone(name.strip(_BLANK[:33]))
    if found is None:
        return None
    if today:
        now = datetime.now(found)
        local = _local(now.year, now.month, now.day, *_clock_parts(match, first))
    else:
        local = _local(*_date_parts(match), *_clock_parts(match, first))
    return None if local is None else _fitting(local - _east_us(local, found))


def _date_parts(match: re.Match[str]) -> tuple[int, int, int]:
    year = int(match[2])
    return -year if match[1] == "-" else year, int(match[3] or 1), int(match[4] or 1)


def _clock_parts(match: re.Match[str], first: int) -> tuple[int, int, int, int]:
    hour, minute, second, fraction = match.group(first, first + 1, first + 2, first + 3)
    return int(hour or 0), int(minute or 0), int(second or 0), int(((fraction or "") + "000000")[:6])


def _local(year: int, month: int, day: int, hour: int, minute: int, second: int, micros: int) -> int | None:
    days = _days(year, month, day)
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    return (days * DAY_S + hour * 3600 + minute * 60 + second) * MICROS + micros


def _fitting(micros: int | None) -> int | None:
    return micros if micros is not None and -LONG_MAX - 1 <= micros <= LONG_MAX else None


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970 in the proleptic Gregorian calendar."""
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    if not 1 <= month <= 12 or not 1 <= day <= (31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]:
        return None
    return _first_of_month(year, month) + day - 1


def _first_of_month(year: int, month: int) -> int:
    shifted = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + of_year - 719_468


def _from_julian(days: int) -> int | None:
    """Days of the calendar that Spark 2 used, Julian before 1582-10-15, to the day that is written the same today."""
    if days >= -141_427:
        return days
    of_epoch = days + 719_470  # days since 1 March of year 0, Julian
    cycle, of_cycle = divmod(of_epoch, 1461)
    year, of_year = divmod(min(of_cycle, 1459), 365)
    of_year += of_cycle == 1460
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    years = 4 * cycle + year + (month >= 10)
    found = _first_of_month(years, month + 3 if month < 10 else month - 9) + day - 1
    return found if found >= -INT_MAX - 1 else None


def _east_us(local_us: int, found: tzinfo) -> int:
    """The offset at a local time: the earlier one if there are two; if there is none, the one before the gap."""
    if isinstance(found, timezone):
        offset: timedelta | None = found.utcoffset(None)
    else:
        seconds = local_us // MICROS
        first, cycle_s = -62_135_596_800, 146_097 * DAY_S  # 0001-01-01; the calendar repeats after 400 years
        seconds = max(seconds, first)
        if seconds >= 253_402_300_800 - DAY_S:  # 9999-12-31
            seconds -= (seconds - 64_000_000_000) // cycle_s * cycle_s
        offset = (datetime(1970, 1, 1) + timedelta(seconds=seconds)).replace(tzinfo=found).utcoffset()
    return 0 if offset is None else (offset.days * DAY_S + offset.seconds) * MICROS
