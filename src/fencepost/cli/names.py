"""Names that a shell completes (topics, groups, transactional ids, pipelines): from the cluster, if it answers at once.

Invariant: completion never prints, never fails and never waits for longer than about a second.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import click

from fencepost.cli.options import Command, connection_settings

QUICK_MS = "700"
QUICKLY = {
    "socket.connection.setup.timeout.ms": QUICK_MS,
    "request.timeout.ms": QUICK_MS,
    "default.api.timeout.ms": QUICK_MS,
}


def complete_topics(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    return _complete(context, begun, lambda cluster: cluster.refresh())


def complete_groups(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    from fencepost.observe.groups import survey_groups

    return _complete(context, begun, lambda cluster: (each.group_id for each in survey_groups(cluster).groups))


def complete_ids(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    from fencepost.client.transaction_state import list_transactional_ids

    return _complete(context, begun, list_transactional_ids)


def complete_pipelines(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    from fencepost.client.naming import pipeline_of
    from fencepost.client.transaction_state import list_transactional_ids

    def names(cluster: Any) -> set[str]:
        return {name for each in list_transactional_ids(cluster) if (name := pipeline_of(each)) is not None}

    return _complete(context, begun, names)


def _complete(context: click.Context, begun: str, ask: Callable[[Any], Iterable[str]]) -> list[str]:
    from fencepost.client.cluster import Cluster
    from fencepost.errors import FencepostError

    given = context.params
    with contextlib.suppress(FencepostError, click.ClickException, OSError):
        settings = connection_settings(
            given.get("bootstrap"), given.get("command_config"), given.get("assignments") or (), "localhost:9092"
        )
        with Cluster({**(settings or {}), **QUICKLY}) as cluster:
            return sorted(name for name in ask(cluster) if name.startswith(begun))
    return []


def topic_argument(*, many: bool = False, required: bool = True) -> Callable[[Command], Command]:
    name = "topics" if many else "topic"
    shown = "TOPIC..." if many else "TOPIC" if required else "[TOPIC]"
    return click.argument(
        name, metavar=shown, nargs=-1 if many else 1, required=required, shell_complete=complete_topics
    )


def group_argument() -> Callable[[Command], Command]:
    return click.argument("group", metavar="GROUP", shell_complete=complete_groups)
