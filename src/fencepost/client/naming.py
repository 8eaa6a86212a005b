"""What a pipeline's name gives: its transactional id, and back. The group has the name itself."""

from fencepost.client.identity import MADE_UP_IDS

PREFIX = "fencepost-"


def transactional_id_of(pipeline: str) -> str:
    return PREFIX + pipeline


def pipeline_of(transactional_id: str) -> str | None:
    """The pipeline that an id belongs to; None for ids of others, and for those made up for one write."""
    if not transactional_id.startswith(PREFIX) or transactional_id.startswith(MADE_UP_IDS):
        return None
    return transactional_id.removeprefix(PREFIX) or None
