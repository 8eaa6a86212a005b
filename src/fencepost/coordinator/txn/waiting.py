"""Waiting for a future, but not for ever, by a clock that tests can drive."""

import asyncio
from typing import Any

from fencepost.clock import Clock


async def within(clock: Clock, delay_ms: float, future: "asyncio.Future[Any]") -> bool:
    """Whether `future` was done before the delay ran out. Its outcome, good or bad, is left for the caller to read."""
    if future.done():
        return True
    expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    handle = clock.call_later(delay_ms, lambda: None if expired.done() else expired.set_result(None))
    try:
        await asyncio.wait({future, expired}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        handle.cancel()
        expired.cancel()
    return future.done()


async def pause(clock: Clock, delay_ms: float) -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    await within(clock, delay_ms, never)
