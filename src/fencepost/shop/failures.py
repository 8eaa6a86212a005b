"""What a failed query tells a person: our own error out of the many lines that Spark wraps around it.

An error of ours is raised in one process and arrives here as text within text: Python's traceback in Java's exception
in Python's. Invariant: `explain` always gives one line or a few, never a traceback.
"""

import re

#: An exception as a traceback ends: its class and its message, up to an empty line or Java's own.
_ENDING = re.compile(
    r"^(?P<name>(?:[a-z_]\w*\.)+[A-Z]\w*): (?P<message>.+?)(?=\n\s*\n|\n\s*at |\nSQLSTATE|\n\w+\.|\Z)",
    re.MULTILINE | re.DOTALL,
)
_OURS = "fencepost."
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\]\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


def explain(error: object) -> str:
    """The innermost error of ours that the text holds, or else the first sentence of Spark's."""
    text = str(error)
    endings = [found for found in _ENDING.finditer(text) if "Py4J" not in found["name"]]
    ours = [found for found in endings if found["name"].startswith(_OURS)]
    if ours:
        return _tidy(ours[-1]["message"])
    if endings:
        return _tidy(f"{endings[-1]['name'].rpartition('.')[2]}: {endings[-1]['message']}")
    lines = text.strip().splitlines()
    return _tidy(lines[0]) if lines else type(error).__name__


def _tidy(message: str) -> str:
    return _SQLSTATE.sub("", _CONDITION.sub("", message.strip())).strip()
