"""The message of a failed query: our own error, without the many lines that Spark wraps around it.

Our error is raised in one process and arrives here as nested text: a Python traceback in a Java exception in a Python
exception. Invariant: `explain` returns a few lines at most, never a traceback.
"""

import re

#: The end of a traceback: the exception's class and message, up to an empty line or a line of Java.
_ENDING = re.compile(
    r"^(?P<name>(?:[a-z_]\w*\.)+[A-Z]\w*): (?P<message>.+?)(?=\n\s*\n|\n\s*at |\nSQLSTATE|\n\w+\.|\Z)",
    re.MULTILINE | re.DOTALL,
)
_OURS = "fencepost."
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\]\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


def explain(error: object) -> str:
    """The innermost error of ours in the text, else the first sentence of Spark's error."""
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
