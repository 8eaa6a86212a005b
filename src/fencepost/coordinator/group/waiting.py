"""Requests that wait for other clients: a future that, unlike a task, is cancelled when the client goes away."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def abandonable(work: Coroutine[Any, Any, T]) -> "asyncio.Future[T]":
    """A future for what `work` returns; cancelling the future cancels the work.

    A connection lets the coroutines that it waits for finish when it is lost, because most of them are changing
    something. To wait for others is not that: there is nobody left to tell.
    """
    task = asyncio.ensure_future(work)
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def work_done(_: "asyncio.Task[T]") -> None:
        if future.done():
            if not task.cancelled():
                task.exception()  # seen, so that asyncio does not complain
        elif task.cancelled():
            future.cancel()
        elif (error := task.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())

    def future_done(_: "asyncio.Future[T]") -> None:
        if future.cancelled():
            task.cancel()

    task.add_done_callback(work_done)
    future.add_done_callback(future_done)
    return future
