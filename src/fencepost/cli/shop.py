"""`fencepost shop`: its options, the broker that it brings along, and its errors as messages."""

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

DEFAULT_DATA = Path("fencepost-shop")
INTERRUPTED = 130


@click.command()
@click.option(
    "--purchases",
    default=200_000,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="So many are in the topic in the end; those already there count.",
)
@click.option("--bootstrap", metavar="HOST:PORT", help="A Kafka cluster to use instead of a broker of its own.")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
@click.option(
    "--data",
    default=DEFAULT_DATA,
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the broker, the checkpoint and Spark's log are kept. Delete it to begin anew.",
)
@click.option(
    "--checkpoint",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where Spark's checkpoint is kept, if not in --data.",
)
@click.option("--partitions", default=4, show_default=True, type=click.IntRange(1), help="Of topics that are made.")
@click.option(
    "--batch",
    default=50_000,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Purchases per micro-batch, and so per transaction, at most.",
)
@click.option("--seed", type=click.IntRange(0), help="Which purchases; another seed, other purchases.")
@click.option("--follow", is_flag=True, help="Keep running on a live stream of purchases until Ctrl-C.")
@click.option(
    "--rate",
    default=500,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="New purchases per second with --follow.",
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port of its own broker; any unless given.")
def shop(
    purchases: int,
    bootstrap: str | None,
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
    """Purchases become invoices and shipments, exactly once: the whole of it, in one command.

    Starts a broker, writes purchases, runs the Spark pipeline on them, and verifies from outside that every purchase
    has exactly one invoice and one shipment. Run it again and it goes on where it was; kill it at any instant and do
    the same. Exits with 0 if everything is right, with 1 if not.

    \b
    Examples:
      fencepost shop                                 200,000 purchases
      fencepost shop --purchases 300000              100,000 more
      fencepost shop --follow                        purchases keep coming, until Ctrl-C
      fencepost shop --bootstrap localhost:9092      on any Kafka cluster
      fencepost shop --master spark://host:7077      on any Spark cluster
    """
    from fencepost.errors import FencepostError

    data = data.absolute()
    try:
        from fencepost.shop.display import display
        from fencepost.shop.run import Plan, Stopped, run
    except ImportError as error:
        raise click.ClickException(f"{error.name} is not installed: pip install 'fencepost[shop]'") from None
    show = display()
    try:
        with _cluster(bootstrap, data, port) as address:
            where = f"Kafka at {address}" if bootstrap else f"broker at {address}, data in {data}"
            show.say(f"{where}, Spark on {master}")
            plan = Plan(
                bootstrap=address,
                checkpoint=(checkpoint or data / "checkpoints" / _slug(bootstrap or "own")).absolute(),
                log_file=data / "spark.log",
                purchases=purchases,
                master=master,
                partitions=partitions,
                batch=batch,
                seed=seed,
                follow_per_second=rate if follow else 0,
            )
            report = run(plan, show)
    except Stopped as stopped:
        show.say(str(stopped))
        sys.exit(INTERRUPTED)
    except KeyboardInterrupt:
        show.say("stopped; the same command goes on from here")
        sys.exit(INTERRUPTED)
    except FencepostError as error:
        raise click.ClickException(str(error)) from None
    from fencepost.cli.verify import conclude

    conclude(report)


@contextlib.contextmanager
def _cluster(bootstrap: str | None, data: Path, port: int) -> Iterator[str]:
    if bootstrap is not None:
        yield bootstrap
        return
    from fencepost.embedded import Broker

    with Broker(data / "broker", port=port) as broker:
        yield broker.bootstrap_servers


def _slug(bootstrap: str) -> str:
    """A directory's name for a cluster: a checkpoint belongs to one."""
    return re.sub(r"[^\w.-]+", "_", bootstrap)
