"""Group commit: appends that arrive while a sync is under way share the next one.

A `Round` syncs every file that changed since the last round, then the directories in which names changed: power loss
must not take back the name of a durable file. One round per log is in flight. Invariant: a waiter is answered only by a
round that began after its bytes were written. A failed sync ends the group commit for good: the kernel may have dropped
the dirty pages, and a later sync that succeeds would prove nothing.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fencepost.clock import Clock
from fencepost.errors import ErrorCode, KafkaError
from fencepost.log import files
from fencepost.log.counts import LogCounts
from fencepost.log.disk import Disk, File


class Worker(Protocol):
    """Runs slow work off the event loop and brings the outcome back to it."""

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back on the loop once what is running now is done."""

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run `work` on a thread, then `done` on the loop with what went wrong, if anything."""

    def background(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """The same for work that may take minutes. It has a thread of its own and does not delay syncs."""

    def create_future(self) -> "asyncio.Future[None]": ...


class ThreadWorker:
    """An executor's threads for syncs, one more for all that takes long, and the event loop that owns all state."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._loop = loop
        self._executor = executor
        self._patient: Executor | None = None

    def soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self._executor.submit(self._run, work, done)

    def background(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        if self._patient is None:
            self._patient = ThreadPoolExecutor(1, thread_name_prefix="fencepost-cleaner")
        self._patient.submit(self._run, work, done)

    def create_future(self) -> "asyncio.Future[None]":
        return self._loop.create_future()

    def _run(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(done, error)


class Dirty:
    """What has changed on disk since the last round began, and is not among what `collect` adds."""

    def __init__(self) -> None:
        self.files: dict[int, File] = {}
        self.paths: dict[str, None] = {}
        self.directories: dict[str, None] = {}
        #: Small files that are replaced as a whole: path → content. `sync` writes them, so that the event loop does not
        #: wait for files to be created.
        self.replacements: dict[str, bytes] = {}

    def add_file(self, file: File) -> None:
        if id(file) not in self.files:
            file.retain()
            self.files[id(file)] = file

    def take(self) -> "Dirty":
        """All of it, to be synced; from now on new changes are noted here."""
        taken = Dirty()
        taken.files, self.files = self.files, {}
        taken.paths, self.paths = self.paths, {}
        taken.directories, self.directories = self.directories, {}
        taken.replacements, self.replacements = self.replacements, {}
        return taken

    def sync(self, disk: Disk) -> None:
        """Runs on a background thread. What could not be replaced (a full disk) stays in `replacements`."""
        for path, content in list(self.replacements.items()):
            with suppress(OSError):
                disk.write_bytes(path + files.TEMPORARY, content)
                disk.sync_file(path + files.TEMPORARY)
                disk.rename(path + files.TEMPORARY, path)
                del self.replacements[path]
        for file in self.files.values():
            file.fdatasync()
        for path in self.paths:
            disk.sync_file(path)
        for directory in self.directories:
            disk.fsync_dir(directory)

    def release(self) -> None:
        for file in self.files.values():
            file.release()


class Mark(NamedTuple):
    """A point in the log: an offset, and the segment and position where its batch begins."""

    offset: int
    segment_base: int
    position: int
    #: Once everything up to this mark is synced, recovery can begin here.
    recovery_point: int


@dataclass(slots=True)
class Round:
    dirty: Dirty
    end: Mark
    waiters: "list[asyncio.Future[None]]"
    began_ns: int


class GroupCommit:
    """One log's rounds. `collect` adds what was written to a round and says how far that reaches."""

    def __init__(
        self, disk: Disk, worker: Worker, clock: Clock, counts: LogCounts, dirty: Dirty, synced_offset: int,
        *, collect: Callable[[Dirty], Mark], synced: Callable[[Mark], None], failed: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self._disk = disk
        self._worker = worker
        self._clock = clock
        self._counts = counts
        self._collect = collect
        self._synced = synced
        self._failed = failed
        self._in_flight: Round | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._requested = False
        self._error: KafkaError | None = None
        self.dirty = dirty
        #: Everything below is on stable storage, and so are the names of the files that hold it.
        self.synced_offset = synced_offset

    def request(self) -> None:
        """See to it that what has been written up to now gets synced."""
        if not self._requested:
            self._requested = True
            if self._in_flight is None:
                # Not at once: the round includes everything that this turn of the loop still appends.
                self._worker.soon(self._start)

    def when_synced(self, offset: int) -> "asyncio.Future[None] | None":
        """None when `offset` is synced already. Every caller gets a future of its own: cancelling one cancels one."""
        if offset < self.synced_offset:
            return None
        future = self._worker.create_future()
        if self._error is not None:
            future.set_exception(fresh(self._error))
        elif self._in_flight is not None and offset < self._in_flight.end.offset:
            self._in_flight.waiters.append(future)
        else:
            self._waiting.append(future)
            self.request()
        return future

    def hand_over(self) -> Callable[[], None]:
        """A sync of everything written so far, for a log that is being opened or closed.

        The caller makes it on any thread while nobody else uses the log. It raises OSError.
        """
        dirty = self.dirty.take()
        end = self._collect(dirty)

        def sync() -> None:
            try:
                dirty.sync(self._disk)
            finally:
                dirty.release()
            if dirty.replacements:
                raise OSError(f"could not write {', '.join(dirty.replacements)}")
            self._advance(end, [])

        return sync

    def stop(self, error: KafkaError) -> None:
        """Start no further rounds; those who wait get `error`."""
        self._error = error
        waiting, self._waiting = self._waiting, []
        if self._in_flight is not None:
            waiting += self._in_flight.waiters
            self._in_flight.waiters = []
        self.dirty.take().release()
        _refuse(waiting, error)

    def _start(self) -> None:
        if self._error is not None or self._in_flight is not None:
            return
        self._requested = False
        dirty = self.dirty.take()
        try:
            end = self._collect(dirty)
        except OSError as error:
            dirty.release()
            self._fail(error, [])
            return
        current = self._in_flight = Round(dirty, end, self._waiting, self._clock.monotonic_ns())
        self._waiting = []
        disk = self._disk
        self._worker.submit(lambda: dirty.sync(disk), lambda error: self._done(current, error))

    def _done(self, finished: Round, error: BaseException | None) -> None:
        self._in_flight = None
        finished.dirty.release()
        self._counts.syncs.observe_ns(self._clock.monotonic_ns() - finished.began_ns)
        if self._error is not None:
            return
        if error is not None:
            self._fail(error, finished.waiters)
        else:
            # Anything newer for the same path has the last word.
            self.dirty.replacements = {**finished.dirty.replacements, **self.dirty.replacements}
            if self._requested:
                self._start()
            self._advance(finished.end, finished.waiters)

    def _advance(self, end: Mark, waiters: "list[asyncio.Future[None]]") -> None:
        self.synced_offset = max(self.synced_offset, end.offset)
        self._synced(end)
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _fail(self, error: BaseException, waiters: "list[asyncio.Future[None]]") -> None:
        refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk failed to sync: {error}")
        self._counts.sync_errors += 1
        self.stop(refusal)
        _refuse(waiters, refusal)
        self._failed(error)


def fresh(error: KafkaError) -> KafkaError:
    """The same refusal once more. Raising one object again and again would grow its traceback each time."""
    return KafkaError(error.code, error.message)


def _refuse(waiters: "list[asyncio.Future[None]]", error: KafkaError) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(fresh(error))
