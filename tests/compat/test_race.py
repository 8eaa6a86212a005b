"""The Kafka Streams programs of the benchmarks write, byte for byte, what Spark must write."""

from collections.abc import Callable

import pytest

from bench.harness.brokers import Flush, Server
from bench.race import run as races
from bench.race.contests import Contest, ShopContest, TotalsContest
from bench.race.input import create, fill
from bench.race.run import Run
from bench.race.systems import SHOP, TOTALS, System
from fencepost.shop import PURCHASES

COUNT = 30_000
HOW = Run(batch=1, cores=2, partitions=2, warm_up=0.1)


@pytest.mark.parametrize(
    ("contest", "systems"),
    [(ShopContest, SHOP), (lambda server: TotalsContest(server, 700), TOTALS)],
    ids=["shop", "totals"],
)
def test_kafka_streams_writes_the_same_bytes(
    start_server: Callable[..., Server], contest: Callable[[Server], Contest], systems: dict[str, System]
) -> None:
    server = start_server(Flush.NEVER.settings)
    create(server, [PURCHASES], HOW.partitions)
    fill(server, PURCHASES, COUNT)
    found = races.run(server, contest(server), systems["streams-100"], HOW)
    assert COUNT * 0.5 < found.records < COUNT
    assert found.cpu_s["JVM"] > 0
    assert found.cpu_s["broker"] > 0
