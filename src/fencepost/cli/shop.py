"""`fencepost shop`: its options, the broker that it starts, and its errors as messages."""

import contextlib
import functools
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from fencepost.cli.options import DIRECTORY, check_secure, cluster_options

DEFAULT_DATA = Path("fencepost-shop")
INTERRUPTED = 130
_number_option = functools.partial(click.option, show_default=True, type=click.IntRange(1), metavar="N")


@click.command()
@_number_option(
    "--purchases",
    default=200_000,
    type=click.IntRange(0),
    help="Total purchases in the topic, including those already there.",
)
@cluster_options("Use this Kafka cluster instead of starting a broker.")
@click.option("--secure", is_flag=True, help="Start the broker with TLS and a login (SASL_SSL with SCRAM).")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
@click.option(
    "--data",
    default=DEFAULT_DATA,
    show_default=True,
    type=DIRECTORY,
    help="Directory for the broker, the checkpoint and Spark's log. Delete it to start over.",
)
@click.option("--checkpoint", type=DIRECTORY, help="Directory for Spark's checkpoint, if not in --data.")
@_number_option("--partitions", default=4, help="Partitions of new topics.")
@_number_option("--batch", default=50_000, help="Maximum purchases per micro-batch, which is one transaction.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the generated purchases.")
@click.option("--follow", is_flag=True, help="Keep adding and processing purchases until Ctrl-C.")
@_number_option("--rate", default=500, help="New purchases per second with --follow.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of the broker; default: a free one.")
def shop(
    purchases: int,
    cluster: Mapping[str, str] | None,
    secure: bool,
    master: str,
    data: Path,
    checkpoint: Path | None,
    partitions: int,
    batch: int,
    seed: int | None,
    follow: bool,
    rate: int,
    port: int,
) -> None:
    """Turn purchases into invoices and shipments, exactly once, in one command.

    Starts a broker, writes purchases, runs the Spark pipeline, and verifies from outside that every purchase has
    exactly one invoice and one shipment. Run it again to continue, also after killing it at any moment. Exits with 0 if
    everything is right, with 1 if not.

    \b
    Examples:
      fencepost shop                                 200,000 purchases
      fencepost shop --purchases 300000              100,000 more
      fencepost shop --follow                        purchases keep coming, until Ctrl-C
      fencepost shop --secure                        the same over TLS, with a login
      fencepost shop --bootstrap localhost:9092      on any Kafka cluster
      fencepost shop --bootstrap kafka.example.org:9093 --command-config client.properties
      fencepost shop --master spark://host:7077      on any Spark cluster
    """
    from fencepost.errors import FencepostError

    data = data.absolute()
    check_secure(cluster, secure=secure)
    try:
        from fencepost.shop.display import Display
        from fencepost.shop.run import ShopPlan, run
    except ImportError as error:
        raise click.ClickException(f"{error.name} is not installed: pip install 'fencepost[shop]'") from None
    show = Display()
    try:
        with _cluster(cluster, data, port, secure=secure) as kafka:
            address, protocol = kafka["bootstrap.servers"], kafka.get("security.protocol", "PLAINTEXT")
            secured = "" if protocol == "PLAINTEXT" else f" over {protocol}"
            where = f"Kafka at {address}{secured}" if cluster else f"broker at {address}{secured}, data in {data}"
            show.say(f"{where}, Spark on {master}")
            plan = ShopPlan(
                kafka=kafka,
                checkpoint=(checkpoint or data / "checkpoints" / _slug(address if cluster else "own")).absolute(),
                log_file=data / "spark.log",
                purchases=purchases,
                master=master,
                partitions=partitions,
                batch=batch,
                seed=seed,
                follow_per_second=rate if follow else 0,
            )
            report = run(plan, show)
    except KeyboardInterrupt:
        show.say("stopped; run the same command to continue")
        sys.exit(INTERRUPTED)
    except FencepostError as error:
        raise click.ClickException(str(error)) from None
    from fencepost.cli.verify import conclude

    conclude(report)


@contextlib.contextmanager
def _cluster(cluster: Mapping[str, str] | None, data: Path, port: int, *, secure: bool) -> Iterator[Mapping[str, str]]:
    """Kafka's settings for a client of the given cluster, or of a broker that runs meanwhile."""
    if cluster is not None:
        yield cluster
        return
    from fencepost.embedded import Broker

    with Broker(data / "broker", port=port, security="SASL_SSL" if secure else None) as broker:
        yield broker.client_config("java")


def _slug(bootstrap: str) -> str:
    """A directory name for a cluster, because a checkpoint belongs to one cluster."""
    return re.sub(r"[^\w.-]+", "_", bootstrap)
