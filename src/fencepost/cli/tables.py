"""Tables, times, names and words of a shell as commands print them. Pure.

Invariant: what others chose (ids, groups, keys) cannot speak to the terminal: control characters are spelt out.
"""

import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

NOTHING = "-"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "") -> list[str]:
    """Columns two spaces apart; numbers to the right."""
    cells = [[NOTHING if cell is None else visible(str(cell)).replace("\n", r"\n") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [list(headings), *cells]) for column in range(len(headings))]
    numeric = [
        all(row[column].lstrip("<= ").isdecimal() or row[column] == NOTHING for row in cells)
        for column in range(len(headings))
    ]
    return [
        (indent + "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, numeric, strict=True)
        )).rstrip()
        for row in [list(headings), *cells]
    ]  # fmt: skip


def visible(text: str) -> str:
    """Control characters, and those that turn the direction of writing, as escapes. Ends of lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        each.encode("unicode_escape").decode() if unicodedata.category(each) in _HIDDEN and each not in "\n\t" else each
        for each in text
    )


def shell_word(word: str) -> str:
    """As a shell takes it back: with control characters in the quotes of bash and zsh that spell them out."""
    if visible(word).replace("\n", r"\n") == word:
        return shlex.quote(word)
    spelt = "".join(
        each if each.isprintable() and each not in "'\\" else "".join(f"\\x{byte:02x}" for byte in each.encode())
        for each in word
    )
    return f"$'{spelt}'"


def moment(time_ms: int | None) -> str | None:
    """In UTC, as ISO 8601."""
    return None if not time_ms else datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
