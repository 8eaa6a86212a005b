"""`fencepost verify`: checks the shop's result from outside, and reports it as text or JSON and as an exit code.

0: everything is right. 1: something is wrong. 2: it could not be checked.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from fencepost.cli.options import cluster_options

if TYPE_CHECKING:
    from fencepost.shop.verify import Report

WRONG, UNKNOWN = 1, 2
WATCH_EVERY_S = 1.0
SHOWN = 5


@click.command()
@cluster_options("The cluster.", default="localhost:9092")
@click.option("--group", default="shop", show_default=True, help="The pipeline's consumer group.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per check.")
@click.option("--watch", is_flag=True, help="Check every second while the pipeline runs, until Ctrl-C or a problem.")
@click.option(
    "--patience",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long an invoice may lack its shipment. A commit reaches one partition after the other.",
)
def verify(cluster: Mapping[str, str], group: str, as_json: bool, watch: bool, patience: float) -> None:
    """Check that every purchase has exactly one invoice and one shipment, and that there is nothing else.

    Reads all topics like any consumer, with confluent-kafka. Also checks the contents, that every bad purchase has its
    dead letter, and that the committed offsets match the processed purchases.

    With --watch an unprocessed purchase is not a problem, but an invoice without its shipment is.

    \b
    Examples:
      fencepost verify --bootstrap localhost:9092
      fencepost verify --bootstrap kafka.example.org:9093 --command-config client.properties
    """
    from fencepost.client.cluster import Cluster
    from fencepost.errors import FencepostError
    from fencepost.shop.verify import Verifier

    try:
        with Cluster(cluster) as ours:
            ours.any()  # if this fails, our error says what to change; librdkafka would try for a while
        with Verifier(cluster, group) as verifier:
            report = verifier.look(is_final=not watch, patience_s=patience)
            while watch and report.is_right:
                _print(report, as_json=as_json, watching=True)
                time.sleep(WATCH_EVERY_S)
                report = verifier.look(is_final=False, patience_s=patience)
    except KeyboardInterrupt:
        sys.exit(0)
    except FencepostError as error:
        if as_json:
            print(json.dumps({"right": None, "error": str(error)}))
        else:
            print(f"Error: {error}", file=sys.stderr)
        sys.exit(UNKNOWN)
    _print(report, as_json=as_json, watching=watch)
    sys.exit(0 if report.is_right else WRONG)


def conclude(report: "Report") -> None:
    """Print the result, and exit with 1 if something is wrong."""
    _print_verdict(report)
    sys.exit(0 if report.is_right else WRONG)


def _print(report: "Report", *, as_json: bool, watching: bool) -> None:
    if as_json:
        print(json.dumps(report.as_dict()), flush=True)
        return
    print(
        f"{report.purchases:,} purchases ({report.bad_purchases:,} bad), {report.invoices:,} invoices, "
        f"{report.shipments:,} shipments, {report.dead_letters:,} dead letters, {report.open:,} open"
    )
    if not watching or not report.is_right:
        _print_verdict(report)


def _print_verdict(report: "Report") -> None:
    if report.is_right:
        print(f"right: every purchase has exactly one invoice and one shipment (verified in {report.seconds:.1f} s)")
        return
    for name, found in report.problems.items():
        more = " …" if found.count > SHOWN else ""
        print(f"wrong: {found.count:,} {name}: {', '.join(found.first[:SHOWN])}{more}")
