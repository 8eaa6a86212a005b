"""The parts of a record and their formats: words that the driver and the executors share. Without PyArrow."""

from dataclasses import dataclass

KEY, VALUE, TIMESTAMP = "key", "value", "timestamp"
#: In a record column: false where it is null. Without this field, a record is there where the column is not null.
IS_THERE = "__there"
#: The columns of one record.
RECORD = ("topic", KEY, VALUE, "headers", "partition", TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Formats:
    """What the options `keyFormat` and `valueFormat` say; None where the type decides."""

    key: str | None = None
    value: str | None = None

    def of(self, column: str) -> str | None:
        return self.key if column == KEY else self.value

    @property
    def are_given(self) -> bool:
        return self.key is not None or self.value is not None


NO_FORMATS = Formats()
