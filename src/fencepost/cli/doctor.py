"""`fencepost doctor`: is this machine, and is a cluster, fit for exactly-once? `fencepost.doctor` does the work."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from fencepost.cli.names import complete_pipelines, complete_topics
from fencepost.cli.on_cluster import FAILED, NOT_SO, json_option, print_found, quiet_end
from fencepost.cli.options import cluster_options

EXIT_CODES = """\b
Exit codes:
  0  nothing speaks against exactly-once; there may be warnings
  1  the cluster does not answer
  2  wrong arguments
  4  there is an error among the findings; with --strict also a warning"""
#: What the sink asks for unless its option kafka.transaction.timeout.ms says otherwise.
SINK_TIMEOUT_MS = 60_000


@click.command(epilog=EXIT_CODES)
@click.option(
    "-t",
    "--topic",
    "topics",
    metavar="TOPIC",
    multiple=True,
    shell_complete=complete_topics,
    help="A topic that pipelines write to, also for dead letters. Repeatable.",
)
@click.option(
    "--pipeline",
    metavar="NAME",
    shell_complete=complete_pipelines,
    help="Check the rights of this pipeline, too: on its transactional id, its group, the ledger, its changelogs, and "
    "on the topics that it read when it last ran. Connect as the pipeline does.",
)
@click.option(
    "--source",
    "sources",
    metavar="TOPIC",
    multiple=True,
    shell_complete=complete_topics,
    help="A topic that the pipeline reads. Repeatable.",
)
@click.option("--step", "steps", metavar="STEP", multiple=True, help="A stateful step of the pipeline. Repeatable.")
@click.option(
    "--transaction-timeout-ms",
    type=click.IntRange(1),
    default=SINK_TIMEOUT_MS,
    show_default=True,
    help="What your pipelines ask for.",
)
@click.option("--strict", is_flag=True, help="Exit with 4 for warnings, too.")
@json_option
@cluster_options("The cluster to look at. Without it, only this machine is looked at.")
def doctor(
    cluster: Mapping[str, str] | None,
    topics: tuple[str, ...],
    pipeline: str | None,
    sources: tuple[str, ...],
    steps: tuple[str, ...],
    transaction_timeout_ms: int,
    strict: bool,
    as_json: bool,
) -> None:
    """Check this machine (Python, Java, Spark) and whether a cluster is fit for exactly-once.

    Every finding that needs mending comes with the command that does it.

    \b
    Examples:
      fencepost doctor
      fencepost doctor -b kafka:9092 -t invoices -t shipments
      fencepost doctor --command-config client.properties --pipeline shop --source purchases -t invoices --step totals
    """
    if cluster is None and (topics or sources or pipeline is not None):
        raise click.UsageError("which cluster? Give --bootstrap HOST:PORT as well")
    if steps and pipeline is None:
        raise click.UsageError("--step: of which pipeline? Give --pipeline NAME as well")
    from fencepost.client.cluster import Cluster
    from fencepost.doctor import cluster as asking
    from fencepost.doctor import machine
    from fencepost.doctor.findings import Severity
    from fencepost.doctor.judging import judge
    from fencepost.doctor.rights import Wanted
    from fencepost.errors import FencepostError
    from fencepost.spark.naming import changelog_name

    with quiet_end():
        found = list(machine.look())
        if cluster is not None:
            changelogs = [changelog_name(pipeline or "", step) for step in steps]
            wanted = Wanted(topics, sources, pipeline, changelogs)
            try:
                with Cluster(cluster) as opened:
                    found += judge(asking.look(opened, wanted), transaction_timeout_ms)
            except FencepostError as error:
                click.echo(f"Error: {error}", err=True)
                sys.exit(FAILED)
        print_found(found, as_json, _as_dict, _lines)
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    sys.exit(NOT_SO if any(each.severity in bad for each in found) else 0)


def _as_dict(finding: Any) -> dict[str, Any]:
    return {
        "severity": str(finding.severity),
        "subject": finding.subject,
        "text": finding.text,
        "remedy": finding.remedy or None,
    }


def _lines(found: Any) -> list[str]:
    width = max(len(each.severity) for each in found)
    lines = []
    for each in found:
        lines.append(f"{each.severity:<{width}}  {each.subject}: {each.text}")
        if each.remedy:
            lines.append(f"{'':<{width}}  mend it: {each.remedy}")
    return lines
