"""Times as people write them: a moment, or an age."""

import re
from datetime import UTC, datetime

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGE = re.compile(r"(\d+)\s*([smhd])")


def parse_age(text: str) -> int | None:
    """`90s`, `15m`, `24h` or `7d` in milliseconds; None for anything else."""
    found = _AGE.fullmatch(text)
    return None if found is None else int(found[1]) * _UNITS_MS[found[2]]


def parse_moment(text: str) -> int | None:
    """Milliseconds since 1970: such a number, or ISO 8601, in UTC unless it names a zone; None for anything else."""
    if text.isdecimal():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
