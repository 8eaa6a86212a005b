"""`fencepost topic`: look at topics, change and delete them. `manage` does the work; here are words and codes."""

from typing import Any

import click

from fencepost.cli.groups import Group
from fencepost.cli.names import topic_argument
from fencepost.cli.on_cluster import (
    COUNT,
    FAILED,
    NOT_SO,
    code_of,
    dry_run_option,
    json_option,
    on_cluster,
    print_found,
    print_one,
)
from fencepost.cli.options import parse_assignments

EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused or failed; the message says why
  2  wrong arguments
  3  there is no such topic
  4  describe: a partition has no leader, or replicas that are not in sync"""

_on_a_cluster = on_cluster("The cluster.", code_of)


@click.group(cls=Group, epilog=EXIT_CODES)
def topic() -> None:
    """Look at topics, create, change and delete them, on any Kafka.

    \b
    Examples:
      fencepost topic ls -b kafka:9092
      fencepost topic create invoices -p 6 -r 3 -c cleanup.policy=compact
      fencepost topic describe invoices
    """


@topic.command("ls", epilog=EXIT_CODES)
@click.option("-a", "--all", "internal", is_flag=True, help="Kafka's internal topics, too.")
@json_option
@_on_a_cluster
def list_topics(cluster: Any, internal: bool, as_json: bool) -> None:
    """List topics with their partitions and replicas.

    \b
    Examples:
      fencepost topic ls
      fencepost topic ls --all --json
    """
    from fencepost.cli import topic_text as text
    from fencepost.manage import topics

    print_found(topics.list_topics(cluster, internal=internal), as_json, text.listed_as_dict, text.listed)


@topic.command(epilog=EXIT_CODES)
@topic_argument(many=True)
@json_option
@_on_a_cluster
def describe(cluster: Any, topics: tuple[str, ...], as_json: bool) -> int:
    """Show topics: each partition's leader, replicas, offsets and size, and the topic's own settings.

    STABLE is the last stable offset, where read_committed readers stop; END is the high watermark. If they differ, a
    transaction is open: "fencepost tx why TOPIC" says whose.

    \b
    Examples:
      fencepost topic describe invoices
      fencepost topic describe invoices shipments --json
    """
    from fencepost.cli import topic_text as text
    from fencepost.manage import topics as facts

    found = [facts.describe(cluster, name) for name in topics]
    for each in found:
        print_one(text.described_as_dict(each), as_json, text.described(each))
    return NOT_SO if any(each.has_problem for each in found) else 0


@topic.command(epilog=EXIT_CODES)
@topic_argument(many=True)
@click.option("-p", "--partitions", type=COUNT, help="How many.  [default: the cluster's]")
@click.option(
    "-r", "--replicas", type=click.IntRange(1, 2**15 - 1), help="How often it is replicated.  [default: the cluster's]"
)
@click.option("-c", "--config", "given", metavar="NAME=VALUE", multiple=True, help="A setting. Repeatable.")
@click.option("--if-not-exists", is_flag=True, help="A topic that exists is no error, and stays as it is.")
@dry_run_option
@json_option
@_on_a_cluster
def create(
    cluster: Any,
    topics: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    given: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Create topics, and wait until they can be used. With --dry-run the cluster only checks the request.

    \b
    Examples:
      fencepost topic create invoices shipments -p 6
      fencepost topic create totals -c cleanup.policy=compact -c min.insync.replicas=2 -r 3
    """
    from fencepost.client.admin import CLUSTER_DEFAULT, NewTopic, create_topics

    wanted = NewTopic(partitions or CLUSTER_DEFAULT, replicas or CLUSTER_DEFAULT, parse_assignments(given, "--config"))
    chosen, made = dict.fromkeys(topics), set[str]()
    for name in chosen:  # one by one: a topic that is refused does not hide what became of those before it
        made |= create_topics(cluster, {name: wanted}, validate_only=dry_run)
        is_new = name in made
        said = ("would be created" if dry_run else "created") if is_new else "exists already; it was not changed"
        print_one({"topic": name, "created": is_new and not dry_run, "exists": not is_new}, as_json, f"{name}: {said}")
    return 0 if if_not_exists or len(made) == len(chosen) else FAILED


@topic.command(epilog=EXIT_CODES)
@topic_argument()
@click.option("-s", "--set", "given", metavar="NAME=VALUE", multiple=True, help="Set this. Repeatable.")
@click.option("-u", "--unset", "removed", metavar="NAME", multiple=True, help="Back to the default. Repeatable.")
@click.option("-a", "--all", "every", is_flag=True, help="Show defaults, too.")
@dry_run_option
@json_option
@_on_a_cluster
def config(
    cluster: Any,
    topic: str,
    given: tuple[str, ...],
    removed: tuple[str, ...],
    every: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show a topic's settings, after --set and --unset have changed them.

    Settings that are not named stay. With --dry-run the cluster checks the change, and does not make it.

    \b
    Examples:
      fencepost topic config invoices
      fencepost topic config invoices --set retention.ms=86400000 --unset segment.bytes
    """
    from fencepost.cli import topic_text as text
    from fencepost.client.configs import alter_topic
    from fencepost.manage import topics

    changes: dict[str, str | None] = {**parse_assignments(given), **dict.fromkeys(removed)}
    if len(changes) != len(given) + len(removed):
        raise click.UsageError("a setting is named twice")
    if changes:
        alter_topic(cluster, topic, changes, validate_only=dry_run)
    found = topics.configs_of(cluster, topic, every=every)
    if dry_run and changes:
        click.echo(f"{topic}: the cluster would take this change of {', '.join(sorted(changes))}", err=True)
    print_found(found, as_json, text.config_as_dict, text.configs)


@topic.command(epilog=EXIT_CODES)
@topic_argument(many=True)
@click.option("--yes", is_flag=True, help="Do it. Without this, only show what would be deleted.")
@dry_run_option
@json_option
@_on_a_cluster
def delete(cluster: Any, topics: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool) -> int:
    """Delete topics and all their records. There is no way back.

    \b
    Examples:
      fencepost topic delete scratch --dry-run
      fencepost topic delete scratch --yes
    """
    from fencepost.cli import topic_text as text
    from fencepost.client.admin import delete_topics
    from fencepost.errors import TopicNotFound
    from fencepost.manage import topics as facts

    is_done = yes and not dry_run
    found = [facts.describe(cluster, name) for name in dict.fromkeys(topics)]
    for each in found:  # one by one: a topic that is refused does not hide what became of those before it
        if is_done and not delete_topics(cluster, [each.metadata.name]):
            raise TopicNotFound(f"topic {each.metadata.name!r} is gone already")
        print_one(text.deleted_as_dict(each, is_done=is_done), as_json, text.deleted(each, is_done=is_done))
    if not is_done and not dry_run:
        click.echo("nothing was deleted; add --yes to do it", err=True)
        return FAILED
    return 0


@topic.command("add-partitions", epilog=EXIT_CODES)
@topic_argument()
@click.option("-n", "--num", required=True, type=click.IntRange(1, 2**30), help="How many more.")
@dry_run_option
@json_option
@_on_a_cluster
def add_partitions(cluster: Any, topic: str, num: int, dry_run: bool, as_json: bool) -> None:
    """Give a topic more partitions. They cannot be removed again.

    Keys are spread over all partitions, so most keys go to another one from now on. Records that are there stay.

    \b
    Example:
      fencepost topic add-partitions invoices -n 3
    """
    from fencepost.client.admin import add_partitions as add

    before = len(cluster.refresh([topic])[topic].partitions)
    add(cluster, topic, before + num, validate_only=dry_run)
    said = f"{topic}: {'would have' if dry_run else 'has'} {before + num} partitions instead of {before}"
    print_one({"topic": topic, "before": before, "partitions": before + num, "done": not dry_run}, as_json, said)
