"""How a group gets from one generation to the next: joins, syncs, leaves and the deadlines between them.

A rebalance waits for every member to join again, up to the longest rebalance timeout among them; makes the next
generation of those who did, and tells them; waits for the leader's assignment; records it, and hands it out. A request
that waits has left a future with its `Member`. Nothing here is `async`: each function is one step on the event loop, so
a group is never seen half changed.

`decide.py` says what a request may do, `group.py` changes the group; this module says in which order. A client that
goes away while it waits stays a member, as in Kafka, until its session ends. Only a client that was never told its id
is removed at once, because it cannot come back.
"""

import enum
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from fencepost.clock import Clock, Handle
from fencepost.coordinator.group import decide
from fencepost.coordinator.group.decide import Join
from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.members import JoinWaiter, Member, SyncWaiter
from fencepost.coordinator.group.records import GroupRecord
from fencepost.coordinator.group.requests import JoinRequest, Leaver, MemberIdRequired, SyncRequest
from fencepost.coordinator.group.settings import GroupSettings
from fencepost.coordinator.group.states import Event, State, can
from fencepost.coordinator.runtime import coordinator_error
from fencepost.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

#: A member that was never part of a generation is removed after this long, even while it waits: its client may have
#: given up too, and joined again under another id.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000

#: How long the first generation of a group waits for clients that were given an id and have not joined with it yet.
#: Unless they died they join at once. Without the wait, two consumers that start together need a second rebalance.
FIRST_JOIN_GRACE_MS = 3_000


class Deadline(enum.Enum):
    SESSION = "a member has been heard of"
    JOIN = "the members of a group have joined again"
    SYNC = "the members of a generation have asked for their assignment"


class Timers:
    """The deadlines of groups, by name. Starting one that runs already starts it again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[tuple[Deadline, str, str], Handle] = {}

    def start(
        self, what: Deadline, group_id: str, delay_ms: int, callback: Callable[[], None], member_id: str = ""
    ) -> None:
        key = (what, group_id, member_id)
        self.cancel(what, group_id, member_id)

        def fire() -> None:
            del self._running[key]
            callback()

        self._running[key] = self._clock.call_later(delay_ms, fire)

    def cancel(self, what: Deadline, group_id: str, member_id: str = "") -> None:
        handle = self._running.pop((what, group_id, member_id), None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self, group_id: str | None = None) -> None:
        """Those of one group, or of all."""
        for key in [key for key in self._running if group_id is None or key[1] == group_id]:
            self._running.pop(key).cancel()


@dataclass(slots=True)
class _Gathering:
    """The initial delay of a group (`group.initial.rebalance.delay.ms`), prolonged while new members keep coming."""

    delay_ms: int
    remaining_ms: int
    grew: bool = False


class Rebalances:
    def __init__(
        self,
        clock: Clock,
        settings: GroupSettings,
        write: Callable[[Group, GroupRecord], None],
        new_id: Callable[[], str],
    ) -> None:
        """`write` appends the record and applies it, or raises KafkaError and does neither."""
        self._clock = clock
        self._settings = settings
        self._write = write
        self._new_id = new_id
        self._timers = Timers(clock)
        self._gathering: dict[str, _Gathering] = {}

    # -- requests

    def join(self, group: Group, request: JoinRequest, decision: Join, waiter: JoinWaiter) -> None:
        """Carry out what was decided; the waiter is answered now or when the rebalance is over, unless this raises."""
        match decision:
            case Join.TURN_AWAY:
                self._take_out(group, request.member_id)
                self._complete_if_all_joined(group)
                raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
            case Join.GIVE_MEMBER_ID:
                member_id = self._make_member_id(request)
                group.expect(member_id)
                self._start_session(group, member_id, request.session_timeout_ms)
                raise MemberIdRequired(member_id)
            case Join.TELL:
                waiter.set_result(group.joined(request.member_id))
            case Join.ADMIT:
                self._admit(group, request, waiter)
            case Join.REJOIN:
                member = group.members[request.member_id]
                member.update(request)
                member.await_join(waiter)
                self._rebalance(group, f"{member.member_id} joins again; its reason: {request.reason}")
            case Join.REPLACE:
                self._replace(group, request, waiter)

    def join_abandoned(self, group: Group, waiter: JoinWaiter) -> None:
        """The client behind this join is gone."""
        for member in list(group.members.values()):
            if member.waits_with(waiter) and not member.knows_its_id and member.instance_id is None:
                self._take_out(group, member.member_id)
                self._after_removal(group, f"{member.member_id} went away while it joined")

    def sync(self, group: Group, request: SyncRequest, waiter: SyncWaiter) -> None:
        member = group.members[request.member_id]
        group.note_sync(member.member_id)
        if not group.pending_syncs:
            self._timers.cancel(Deadline.SYNC, group.group_id)
        if group.state is State.STABLE:
            waiter.set_result(group.synced(member))
            return
        member.await_sync(waiter)
        if member.member_id == group.leader:
            self._assign(group, request)

    def sync_abandoned(self, group: Group, member_id: str) -> None:
        """The client behind a sync is gone: from now on its session counts again."""
        member = group.members.get(member_id)
        if member is not None and not member.is_excused:
            self._restart_session(group, member)

    def heard_from(self, group: Group, member_id: str) -> None:
        """A heartbeat, or a commit, which counts as one."""
        member = group.members.get(member_id)
        if member is not None:
            self._restart_session(group, member)

    def leave(self, group: Group, leavers: Iterable[Leaver]) -> list[ErrorCode]:
        results = []
        left = []
        for leaver in leavers:
            try:
                member_id = decide.leave(group, leaver)
            except KafkaError as error:
                results.append(error.code)
                continue
            results.append(ErrorCode.NONE)
            if member_id in group.members:
                left.append(member_id)
            self._take_out(group, member_id)
        if left:
            self._after_removal(group, f"{', '.join(left)} left")
        else:
            self._complete_if_all_joined(group)
        return results

    # -- the life of the process

    def loaded(self, group: Group) -> None:
        """After a restart members have a whole session to show that they are still there."""
        for member in group.members.values():
            self._restart_session(group, member)
        if len(group.members) > self._settings.group_max_size:
            self._prepare(group, "it has more members than group.max.size allows now")

    def forget(self, group: Group) -> None:
        """The group was deleted."""
        self._timers.cancel_all(group.group_id)
        self._gathering.pop(group.group_id, None)

    def stop(self, groups: Iterable[Group]) -> None:
        self._timers.cancel_all()
        self._gathering.clear()
        for group in groups:
            for member in group.members.values():
                member.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # -- joining

    def _admit(self, group: Group, request: JoinRequest, waiter: JoinWaiter) -> None:
        member_id = request.member_id or self._make_member_id(request)
        member = Member.joining(member_id, request)
        group.add(member, request.protocol_type)
        member.await_join(waiter)
        if (gathering := self._gathering.get(group.group_id)) is not None:
            gathering.grew = True
        self._start_session(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance(group, f"{member_id} is new; its reason: {request.reason}")

    def _replace(self, group: Group, request: JoinRequest, waiter: JoinWaiter) -> None:
        """A static member is back. Where nothing changes for the others they are not disturbed."""
        old_id = group.instances[request.instance_id or ""]
        member = Member.joining(self._make_member_id(request), request)
        member.is_new = False
        if group.state is State.STABLE and group.would_choose(old_id, request.protocols) == group.protocol:
            self._replace_quietly(group, request, old_id, member, waiter)
            return
        group.replace(old_id, member)
        self._timers.cancel(Deadline.SESSION, group.group_id, old_id)
        member.await_join(waiter)
        self._restart_session(group, member)
        # Also from CompletingRebalance: the leader is about to assign something to the id that is gone.
        self._rebalance(group, f"{member.instance_id} came back as {member.member_id}")

    def _replace_quietly(
        self, group: Group, request: JoinRequest, old_id: str, member: Member, waiter: JoinWaiter
    ) -> None:
        old_leader = group.leader or ""
        self._write(group, group.record_replacing(old_id, member, self._clock.now_ms()))
        recorded = group.members[member.member_id]
        recorded.update(request)  # what it knows beside the protocol of this generation
        self._timers.cancel(Deadline.SESSION, group.group_id, old_id)
        self._restart_session(group, recorded)
        is_leader = group.leader == member.member_id
        answer = group.joined(member.member_id, skip_assignment=is_leader)
        if not request.skips_assignment:
            # It must not think that it leads, or it would assign partitions again (KIP-814 has a flag for that).
            answer = replace(answer, leader=old_leader, members=(), skip_assignment=False)
        waiter.set_result(answer)

    def _make_member_id(self, request: JoinRequest) -> str:
        return f"{request.instance_id or request.client_id}-{self._new_id()}"

    # -- rebalancing

    def _rebalance(self, group: Group, reason: str) -> None:
        if can(group.state, Event.REBALANCE):
            self._prepare(group, reason)
        else:
            self._complete_if_all_joined(group)

    def _prepare(self, group: Group, reason: str) -> None:
        logger.info("group %s rebalances after generation %d: %s", group.group_id, group.generation, reason)
        self._refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._timers.cancel(Deadline.SYNC, group.group_id)
        is_first = group.state is State.EMPTY
        group.begin_rebalance(self._clock.now_ms())
        delay_ms = self._settings.group_initial_rebalance_delay_ms
        if is_first and delay_ms > 0:
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._gather(group, _Gathering(delay_ms, remaining_ms))
        elif group.has_everyone_joined:
            self._complete_join(group)
        else:
            wait_ms = group.rebalance_timeout_ms
            self._wait_for_joins(group, min(wait_ms, FIRST_JOIN_GRACE_MS) if is_first else wait_ms)

    def _wait_for_joins(self, group: Group, delay_ms: int) -> None:
        self._timers.start(Deadline.JOIN, group.group_id, delay_ms, lambda: self._complete_join(group))

    def _gather(self, group: Group, gathering: _Gathering) -> None:
        self._gathering[group.group_id] = gathering

        def is_over() -> None:
            if not gathering.grew or gathering.remaining_ms == 0:
                self._complete_join(group)
                return
            delay_ms = min(self._settings.group_initial_rebalance_delay_ms, gathering.remaining_ms)
            self._gather(group, _Gathering(delay_ms, max(gathering.remaining_ms - gathering.delay_ms, 0)))

        self._timers.start(Deadline.JOIN, group.group_id, gathering.delay_ms, is_over)

    def _complete_if_all_joined(self, group: Group) -> None:
        is_waiting = group.state is State.PREPARING and group.group_id not in self._gathering
        if is_waiting and group.has_everyone_joined:
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        """Go on with those who joined. Static members stay even when they did not: they are expected back."""
        self._timers.cancel(Deadline.JOIN, group.group_id)
        self._gathering.pop(group.group_id, None)
        for member in list(group.members.values()):
            if not member.has_joined and member.instance_id is None:
                logger.info("group %s goes on without %s, which did not join", group.group_id, member.member_id)
                self._take_out(group, member.member_id)
        if not group.members:
            self._become_empty(group)
        elif not group.elect_leader():
            self._wait_for_joins(group, group.rebalance_timeout_ms)  # static members only: their sessions end them
        else:
            self._begin_generation(group)

    def _become_empty(self, group: Group) -> None:
        record = group.record_of_nobody(self._clock.now_ms())
        try:
            self._write(group, record)
        except KafkaError as error:
            # No client waits for this. After a restart the last generation would come back and time out.
            logger.warning("could not record that group %s is empty: %s", group.group_id, error)
            group.adopt(record)
        logger.info("group %s is empty at generation %d", group.group_id, group.generation)

    def _begin_generation(self, group: Group) -> None:
        group.begin_generation(self._clock.now_ms())
        generation = group.generation
        logger.info("group %s begins generation %d of %d members", group.group_id, generation, len(group.members))
        for member in group.members.values():
            if member.has_joined:
                member.is_new = False
                member.answer_join(group.joined(member.member_id))
                self._restart_session(group, member)
        self._timers.start(
            Deadline.SYNC, group.group_id, group.rebalance_timeout_ms, lambda: self._sync_overdue(group, generation)
        )

    def _sync_overdue(self, group: Group, generation: int) -> None:
        if generation != group.generation or group.state not in (State.COMPLETING, State.STABLE):
            return
        overdue = sorted(group.pending_syncs)
        for member_id in overdue:
            self._take_out(group, member_id)
        if overdue:
            self._prepare(group, f"{', '.join(overdue)} did not ask for an assignment")

    # -- assigning

    def _assign(self, group: Group, request: SyncRequest) -> None:
        """The leader has spoken. Members that it forgot get an empty assignment."""
        try:
            self._write(group, group.record(request.assignments, self._clock.now_ms()))
        except KafkaError as error:
            self._refuse_syncs(group, coordinator_error(error).code)
            self._prepare(group, f"its assignment could not be recorded: {error}")
            return
        for member in group.members.values():
            if member.answer_sync(group.synced(member)):
                self._restart_session(group, member)

    def _refuse_syncs(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            if member.refuse_sync(error):
                self._restart_session(group, member)

    # -- sessions

    def _restart_session(self, group: Group, member: Member) -> None:
        self._start_session(group, member.member_id, member.session_timeout_ms)

    def _start_session(self, group: Group, member_id: str, timeout_ms: int) -> None:
        def is_over() -> None:
            self._session_over(group, member_id)

        self._timers.start(Deadline.SESSION, group.group_id, timeout_ms, is_over, member_id)

    def _session_over(self, group: Group, member_id: str) -> None:
        if member_id in group.pending_joins:
            self._take_out(group, member_id)
            self._complete_if_all_joined(group)
            return
        member = group.members.get(member_id)
        if member is not None and not member.is_excused:
            self._take_out(group, member_id)
            self._after_removal(group, f"the session of {member_id} is over")

    def _take_out(self, group: Group, member_id: str) -> None:
        """Its waiting requests are refused, so that a client that is still alive starts over."""
        self._timers.cancel(Deadline.SESSION, group.group_id, member_id)
        member = group.members.get(member_id)
        if member is not None:
            member.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member_id)

    def _after_removal(self, group: Group, reason: str) -> None:
        if group.state in (State.STABLE, State.COMPLETING):
            self._prepare(group, reason)
        else:
            self._complete_if_all_joined(group)
