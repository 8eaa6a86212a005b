"""What a pipeline's name gives: the names of its transactional id and its changelogs. The group has the name itself."""

PREFIX = "fencepost-"


def transactional_id_of(pipeline: str) -> str:
    return PREFIX + pipeline


def changelog_name(pipeline: str, step: str) -> str:
    return f"{pipeline}.{step}.changelog"
