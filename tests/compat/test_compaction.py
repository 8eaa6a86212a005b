"""Kafka's own LogCompactionTester: a consumer of a compacted topic ends up with the newest record of every key."""

import re

import pytest

from tests.compat.tools import Tool

RECORDS = 300_000
SETTINGS = {
    "log.segment.bytes": str(1024 * 1024),
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.max.compaction.lag.ms": "1000",
}
#: Longer than `log.cleaner.backoff.ms`, so that a run is over before the tester reads.
PAUSE_S = 20


@pytest.mark.parametrize("duplicates", [5, 100], ids=["many keys", "segments without a newest record"])
def test_the_tester_finds_the_newest_record_of_every_key(start_server, duplicates):
    """The tester stops at the first poll without records, so a consumer that meets nothing but litter fails it."""
    tool = Tool(start_server(SETTINGS).bootstrap)
    words = ("--messages", str(RECORDS), "--duplicates", str(duplicates), "--sleep", str(PAUSE_S))
    printed = tool("log-compaction-tester", *words, timeout_s=240)
    assert "Data verification is completed" in printed
    [(produced, consumed)] = re.findall(r"(\d+) rows of data produced, (\d+) rows", printed)
    assert int(produced) == RECORDS > int(consumed), printed
