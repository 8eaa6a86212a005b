"""What a pipeline's name gives: the names of its transactional id and its changelogs. The group has the name itself."""

from fencepost.client.naming import PREFIX, transactional_id_of

__all__ = ["PREFIX", "changelog_name", "transactional_id_of"]


def changelog_name(pipeline: str, step: str) -> str:
    return f"{pipeline}.{step}.changelog"
