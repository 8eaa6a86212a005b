"""The coordinator against a model: clients, zombies, timeouts, crashes at every step and restarts, in any order.

The model knows what clients were promised: which values belong to which transaction, how it ended, and who owns the
id. After every rule the readers' view must agree with it, and replaying the log must give exactly the state in
memory.
"""

import asyncio
from dataclasses import dataclass, field
from dataclasses import replace as changed

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fencepost.coordinator.runtime import Replay, Shards
from fencepost.coordinator.txn.decide import Outcome, Producer
from fencepost.coordinator.txn.model import Transaction, TransactionVersion, encode
from fencepost.coordinator.txn.states import TransactionState as S
from fencepost.coordinator.txn.steps import Step
from fencepost.coordinator.txn.table import TransactionTable
from fencepost.errors import ErrorCode, KafkaError
from tests.unit.coordinator.machine import code_of, compact, settle
from tests.unit.coordinator.txn.rig import ABORT, COMMIT, ID, OFFSETS, P0, P1, V1, V2, Rig

TIMEOUT_MS = 60_000
PARTITIONS = (P0, P1, OFFSETS)
REFUSALS = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}


@dataclass
class ModelTransaction:
    values: dict[bytes, object] = field(default_factory=dict)
    outcome: str = "open"


@dataclass
class Owner:
    identity: Producer
    version: TransactionVersion
    is_fenced: bool = False  #: by a timeout that it does not know of yet


class CoordinatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.rig: Rig = self.run(self._make())
        self.owner: Owner | None = None
        self.zombies: list[Producer] = []
        self.given_out: list[Producer] = []
        self.done: list[ModelTransaction] = []
        self.current = ModelTransaction()
        self.last_end: tuple[Producer, Outcome, Producer] | None = None
        self.number = 0

    def teardown(self) -> None:
        self.rig.coordinator.stop()
        self.run(settle())
        self.loop.close()

    async def _make(self) -> Rig:
        return Rig()

    def run(self, request):
        return self.loop.run_until_complete(request)

    def code_of(self, request) -> ErrorCode:
        return self.run(code_of(request))

    # -- what clients do ----------------------------------------------------------------------------------------------

    @rule(version=st.sampled_from([V1, V2]))
    def a_new_producer_takes_over(self, version):
        new = self.run(self.rig.init(timeout_ms=TIMEOUT_MS))
        if self.owner is not None:
            self.zombies.append(self.owner.identity)
        self._is_new(new)
        self._ended("aborted")
        self.owner = Owner(new, version)
        self.last_end = None

    @precondition(lambda self: self.owner)
    @rule()
    def the_owner_goes_on_after_an_error(self):
        old = self.owner.identity
        new = self.run(self.rig.init(old, timeout_ms=TIMEOUT_MS))
        self._ended("aborted")
        self._is_new(new)
        assert self.run(self.rig.init(old, timeout_ms=TIMEOUT_MS)) == new, "repeated after a lost answer"
        self.owner.identity, self.owner.is_fenced = new, False
        self.last_end = None

    @precondition(lambda self: self.owner)
    @rule(where=st.sampled_from(PARTITIONS))
    def the_owner_writes(self, where):
        self.number += 1
        value = b"%d" % self.number
        code = self.code_of(self.rig.write(self.owner.identity, where, self.owner.version, value))
        if self.owner.is_fenced:
            assert code in REFUSALS
            return
        assert code is ErrorCode.NONE
        self.current.values[value] = where
        self.last_end = None

    @precondition(lambda self: self.owner)
    @rule(outcome=st.sampled_from(Outcome))
    def the_owner_ends(self, outcome):
        self._end(outcome)

    def _end(self, outcome: Outcome) -> None:
        owner = self.owner
        before = owner.identity
        refused, after = ErrorCode.NONE, before
        try:
            after = self.run(self.rig.end(before, outcome, owner.version))
        except KafkaError as error:
            refused = error.code
        if refused:
            assert self._may_refuse_end(owner, outcome, refused)
            return
        if owner.is_fenced:
            assert outcome is ABORT and owner.version is V2
            owner.is_fenced = False
        self._ended("committed" if outcome is COMMIT else "aborted")
        if owner.version is V2:
            if after not in self.given_out:
                self._is_new(after)
            self.last_end = (before, outcome, after)
        else:
            assert after == before
        owner.identity = after

    def _may_refuse_end(self, owner: Owner, outcome: Outcome, code: ErrorCode) -> bool:
        if owner.is_fenced:
            return code in REFUSALS
        nothing_is_open = not self.current.values
        return code is ErrorCode.INVALID_TXN_STATE and nothing_is_open and (outcome is COMMIT or owner.version is V1)

    @precondition(lambda self: self.last_end)
    @rule()
    def an_end_is_repeated(self):
        before, outcome, after = self.last_end
        assert self.run(self.rig.end(before, outcome, V2)) == after

    @precondition(lambda self: self.zombies)
    @rule(data=st.data(), version=st.sampled_from([V1, V2]), outcome=st.sampled_from(Outcome))
    def a_zombie_gets_nowhere(self, data, version, outcome):
        zombie = data.draw(st.sampled_from(self.zombies))
        before = self.rig.table()
        assert self.code_of(self.rig.add(zombie, P0)) in REFUSALS
        assert self.code_of(self.rig.produce(zombie, P0, b"from a zombie")) in REFUSALS
        assert self.code_of(self.rig.end(zombie, outcome, version)) in REFUSALS
        assert self.code_of(self.rig.init(zombie)) in REFUSALS
        assert self.rig.table() == before

    # -- what happens to everybody ------------------------------------------------------------------------------------

    @rule()
    def time_passes(self):
        self.run(self.rig.advance(2 * TIMEOUT_MS))
        if self.current.values:
            self._ended("aborted")
            self.owner.is_fenced = True

    @rule(power_loss=st.booleans())
    def the_broker_restarts(self, power_loss):
        before = self.rig.table()
        self.run(self._restart(power_loss))
        assert self.rig.table() == before

    async def _restart(self, power_loss: bool) -> None:
        await settle()
        self.rig.restart(power_loss=power_loss)
        await settle()

    @precondition(lambda self: self.owner and self.current.values and not self.owner.is_fenced)
    @rule(step=st.sampled_from(Step), outcome=st.sampled_from(Outcome), power_loss=st.booleans())
    def the_broker_is_killed_while_it_ends_a_transaction(self, step, outcome, power_loss):
        request = self.rig.end(self.owner.identity, outcome, self.owner.version)
        self.run(self.rig.killed_at(step, request, power_loss=power_loss))
        seen = {self._seen_of(value, where) for value, where in self.current.values.items()}
        assert len(seen) == 1, "a transaction is whole"
        decided = step >= Step.PREPARE_DURABLE or (step is Step.PREPARE_APPENDED and not power_loss)
        assert (seen != {"open"}) is decided
        self._end(outcome)
        assert not self.current.values

    @rule()
    def the_log_is_compacted(self):
        if self.rig.machine.topics.get("__transaction_state") is not None:
            self.run(compact(self.rig.state_log()))

    @precondition(lambda self: self.owner and self.owner.version is V2 and not self.current.values)
    @rule()
    def epochs_run_low(self):
        """Walking to 32766 takes too long, so the id is moved there, through its log."""
        present = self.rig.state()
        if present.producer_epoch >= 32760 or self.owner.is_fenced:
            return
        self.run(self._log(changed(present, producer_epoch=32764, last_producer_epoch=-1, state=S.EMPTY)))
        self.zombies.append(self.owner.identity)
        self.owner.identity = Producer(present.producer_id, 32764)
        self.given_out.append(self.owner.identity)
        self.last_end = None

    async def _log(self, transaction: Transaction) -> None:
        self.rig.coordinator._shards.for_key(ID).write([encode(transaction)])
        await settle()

    # -- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def readers_see_what_clients_were_promised(self):
        for transaction in [*self.done, self.current]:
            for value, where in transaction.values.items():
                assert self._seen_of(value, where) == transaction.outcome
        assert not any(b"from a zombie" in self.rig.outcomes(where) for where in PARTITIONS)

    @invariant()
    def replaying_the_log_gives_the_state_in_memory(self):
        live = self.rig.coordinator._table
        for replay in Replay:
            table = TransactionTable()
            topics, clock = self.rig.machine.topics, self.rig.clock
            Shards("__transaction_state", topics, lambda partition, table=table: table, clock, replay).load()
            assert {t.transactional_id: t for t in table} == {t.transactional_id: t for t in live}
            assert table.open() == live.open()
            assert table.prepared() == live.prepared() == []

    @invariant()
    def nothing_stays_open_that_the_coordinator_does_not_know(self):
        if not self.current.values:
            assert not any(self.rig.has_open_transaction(where) for where in PARTITIONS)

    def _seen_of(self, value: bytes, where) -> str | None:
        return self.rig.outcomes(where).get(value)

    def _ended(self, outcome: str) -> None:
        if self.current.values:
            self.current.outcome = outcome
            self.done.append(self.current)
            self.current = ModelTransaction()

    def _is_new(self, identity: Producer) -> None:
        """Nobody has had it, and it is above everything given out for the same producer id."""
        assert all(
            identity.producer_id != earlier.producer_id or identity.epoch > earlier.epoch for earlier in self.given_out
        )
        assert identity.epoch <= 32766
        self.given_out.append(identity)


CoordinatorMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
test_the_coordinator_keeps_its_promises = CoordinatorMachine.TestCase
