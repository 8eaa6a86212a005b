"""A finding: what was looked at, how bad it is, and what mends it."""

import enum
from dataclasses import dataclass


class Severity(enum.StrEnum):
    OK = "ok"
    NOTE = "note"  #: good to know
    WARNING = "warning"  #: works, and will hurt some day
    ERROR = "error"  #: exactly-once does not hold, or does not work at all


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    subject: str
    text: str
    remedy: str = ""  #: a command, or what to do; empty if nothing needs mending
