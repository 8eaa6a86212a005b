"""Numbers with their nouns, as every part that speaks to people says them. Pure, and imports nothing."""


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def at_most(count: int, noun: str, *, is_exact: bool) -> str:
    return plural(count, noun) if is_exact or not count else f"at most {plural(count, noun)}"
