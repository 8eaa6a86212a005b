"""Where a response holds error codes, found in its table, so that no handler has to count its errors."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from fencepost.wire.codec import Field


class ErrorPlaces:
    """Of one struct and what is below it. False if there is none."""

    __slots__ = ("_below", "_has_code")

    def __init__(self, fields: Iterable[Field]) -> None:
        fields = list(fields)
        self._has_code = any(field.name == "error_code" for field in fields)
        below = [(field.name, field.is_array, ErrorPlaces(field.children)) for field in fields if field.children]
        self._below = [(name, is_array, places) for name, is_array, places in below if places]

    def __bool__(self) -> bool:
        return self._has_code or bool(self._below)

    def count(self, answer: Any, errors: Counter[int]) -> None:
        """Add the codes in `answer`, a dict or a message."""
        values = answer if isinstance(answer, dict) else vars(answer)
        if self._has_code and (code := values.get("error_code")):
            errors[int(code)] += 1
        for name, is_array, places in self._below:
            value = values.get(name)
            if value:
                for each in value if is_array else (value,):
                    places.count(each, errors)
