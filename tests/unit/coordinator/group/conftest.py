"""Fixtures of the group coordinator's tests."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.unit.coordinator.group.support import World

Story = Callable[[World], Awaitable[None]]


@pytest.fixture
def play() -> Callable[..., None]:
    """Runs a story in a world of its own: `play(story, group_max_size=2)`."""

    def run(story: Story, **settings: int) -> None:
        async def main() -> None:
            world = World(**settings)
            await story(world)
            world.groups.stop()

        asyncio.run(main())

    return run
