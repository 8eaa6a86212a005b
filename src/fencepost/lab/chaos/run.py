"""One run: start everything, do harm for a while, heal, wait for progress, drain, and check the history.

Invariant: nothing that was started here is left running.
"""

import shutil
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fencepost.client import Cluster
from fencepost.client.admin import NewTopic, create_topics, delete_topics
from fencepost.errors import FencepostError
from fencepost.lab.chaos import checkers, plan
from fencepost.lab.chaos.crew import ClientProcess, Crew
from fencepost.lab.chaos.facts import read_history
from fencepost.lab.chaos.history import Function, Recorder, Status, load
from fencepost.lab.chaos.nemesis import Nemesis
from fencepost.lab.chaos.network import FAIR, Network, Tamper
from fencepost.lab.chaos.passage import Passage
from fencepost.lab.chaos.plan import ClientSpec, Family, Role, Step
from fencepost.lab.chaos.report import Counts, Result
from fencepost.lab.chaos.tally import Tally
from fencepost.lab.kit.servers import (
    KAFKA_SMALL_SEGMENTS,
    LAB_SETTINGS,
    OUR_SMALL_SEGMENTS,
    Ours,
    Server,
)
from fencepost.lab.kit.target import Target
from fencepost.security.spellings import spelled

TICK_S = 0.2
RECOVERY_TIMEOUT_S = 45.0
#: Longer than any fault and the recovery of a client from it.
SILENCE_S = 30.0
DRAIN_TIMEOUT_S = 500.0
FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}
#: As often as possible, markers and all.
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}


class RunFailed(FencepostError):
    """The run could not be carried out, so there is nothing to judge."""


@dataclass(frozen=True, slots=True)
class Settings:
    seconds: float = 60.0
    seed: int = 0
    families: frozenset[Family] = frozenset(Family)
    history: Path | None = None
    target: Target = field(default_factory=Target)

    @property
    def command(self) -> str:
        words = ["fencepost chaos", f"--seed {self.seed}", f"--seconds {self.seconds:g}"]
        if self.families != frozenset(Family):
            words.append(f"--faults {','.join(sorted(self.families)) or 'none'}")
        return " ".join([*words, *self.target.words])


@dataclass(frozen=True, slots=True)
class Progress:
    """For the line that shows how a run is doing."""

    elapsed_s: float
    phase: str
    ops: int
    ops_per_s: float
    committed: int
    aborted: int
    unknown: int


class Run:
    """Tests replace our broker and `tamper`, and change specs, to show that faults are found."""

    def __init__(
        self,
        settings: Settings,
        show: Callable[[Progress], None] = lambda _: None,
        *,
        ours: Callable[[Path, Mapping[str, str]], Ours] | None = None,
        tamper: Tamper | None = None,
        change_spec: Callable[[ClientSpec], ClientSpec] = lambda spec: spec,
    ) -> None:
        self._settings = settings
        self._show = show
        self._kept = settings.history is not None
        self._directory = settings.history or Path(tempfile.mkdtemp(prefix="fencepost-chaos-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        if any(self._directory.iterdir()):
            raise RunFailed(f"{self._directory} is not empty: a history needs a directory of its own")
        self._target = self._make_target(ours, self._directory / "broker")
        passage = Passage.to(self._target.security, self._directory / "network")
        self._network = Network(f"{settings.seed}/network", tamper, passage)
        self._prefix = "" if self._target.is_ours_to_harm else f"chaos-{uuid.uuid4().hex[:8]}-"
        self._change_spec = change_spec
        self._recorder = Recorder(self._directory, "run")
        self._tally = Tally(self._directory)
        self._phase = "starting"
        self._faults: Counter[str] = Counter()
        self._notes: list[str] = []
        self._watches = False
        self._silent: Counter[str] = Counter()
        self._broker_back_ns = 0
        self._rate: tuple[float, int, float] = (0.0, 0, 0.0)

    def execute(self) -> Result:
        began_s = self._began_s = time.monotonic()
        with self._network:
            try:
                self._target.start()
                way = self._network.way_to(self._target.address)
                kafka = spelled(str(way), self._network.passage.clients, "java")
                specs = plan.clients(self._settings.seed, kafka, str(self._directory), self._prefix)
                self._specs = [self._change_spec(spec) for spec in specs]
                self._create_topics()
                self._crew = Crew(self._specs)
                try:
                    self._harm()
                    self._recover()
                    self._phase = "stopping"
                    stubborn = self._crew.stop_all()
                    if stubborn:
                        self._notes.append(f"killed because they did not stop when asked: {', '.join(stubborn)}")
                finally:
                    self._crew.kill_all()
                self._drain()
                self._look_at_the_log()
                self._delete_topics()
            finally:
                self._target.close()
        return self._judge(time.monotonic() - began_s)

    # -- phases ------------------------------------------------------------------------------------------------------

    def _harm(self) -> None:
        self._crew.start(*self._crew.names)
        self._nemesis = Nemesis(self._target, self._network, self._crew, self._sleep)
        faults = plan.available_faults(self._settings.families, owns_broker=self._target.is_ours_to_harm)
        self._phase = "none"
        self._watches = True
        deadline = time.monotonic() + self._settings.seconds
        for step in plan.schedule(self._settings.seed, self._settings.seconds, faults):
            self._sleep(step.wait_s)
            if time.monotonic() > deadline:
                break
            self._do(step)
        self._watches = False
        if self._silent:
            told = ", ".join(f"{name} ({count} times)" for name, count in sorted(self._silent.items()))
            self._notes.append(f"killed and restarted after {SILENCE_S:.0f} s without progress: {told}")

    def _do(self, step: Step) -> None:
        self._phase = str(step)
        self._faults[step.fault.value] += 1
        self._recorder.log(Function.FAULT, Status.INVOKE, what=self._phase)
        self._nemesis.carry_out(step)
        if step.fault.needs_broker:
            self._broker_back_ns = time.monotonic_ns()
        self._recorder.log(Function.FAULT, Status.OK, what=self._phase)
        self._phase = "none"

    def _recover(self) -> None:
        """After the faults every client makes progress. One that does not is restarted, and noted."""
        self._phase = "healing"
        self._network.change(FAIR)
        self._crew.wake_zombies()
        slow = self._await_progress(self._crew.names)
        if slow:
            self._notes.append(
                f"made no progress in {RECOVERY_TIMEOUT_S:.0f} s after the faults were over: {', '.join(slow)}"
            )
            self._crew.kill(*slow)
            self._crew.start(*slow)
        for name in self._await_progress(slow):
            what = f"{name} makes no progress after the faults are over, not even after a restart"
            self._recorder.log(Function.STUCK, Status.INFO, what=what)

    def _await_progress(self, names: list[str]) -> list[str]:
        since_ns = time.monotonic_ns()
        deadline = time.monotonic() + RECOVERY_TIMEOUT_S
        while names and time.monotonic() < deadline:
            self._sleep(TICK_S)
            names = [name for name in names if self._tally.last_ns.get(name, 0) <= since_ns]
        return names

    def _drain(self) -> None:
        self._phase = "draining"
        kafka = self._target.client_config("java")
        spec = replace(self._specs[0], name="drain", role=Role.DRAIN, kafka=kafka, incarnation=1)
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        with ClientProcess(spec) as drain:
            while drain.is_running:
                if time.monotonic() > deadline:
                    raise RunFailed(f"draining took longer than {DRAIN_TIMEOUT_S:.0f} s; see {self._directory}")
                self._tick()
                time.sleep(TICK_S)
        if drain.status != 0:
            raise RunFailed(f"draining failed; see {self._directory}:\n{drain.said()}")

    def _judge(self, seconds: float) -> Result:
        self._phase = "checking"
        self._tick()
        self._recorder.close()
        facts = read_history(load(self._directory))
        anomalies = checkers.check_facts(facts)
        self._notes += [f"a client crashed: {text.strip()}" for text in self._crew.crashes]
        keep = self._kept or bool(anomalies) or bool(self._crew.crashes)
        if not keep:
            shutil.rmtree(self._directory, ignore_errors=True)
        return Result(
            target=self._target.name,
            seed=self._settings.seed,
            seconds=seconds,
            command=self._settings.command,
            counts=Counts.of(facts),
            anomalies=anomalies,
            history=self._directory if keep else None,
            faults=self._faults,
            client_starts=self._crew.starts,
            notes=self._notes,
        )

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _make_target(self, ours: Callable[[Path, Mapping[str, str]], Ours] | None, home: Path) -> Server:
        chosen = self._settings.target
        if chosen.cluster is not None:
            return chosen.elsewhere()
        if chosen.kafka_library is not None:
            return chosen.kafka(home, {**LAB_SETTINGS, **KAFKA_SMALL_SEGMENTS})
        return (ours or chosen.ours)(home, {**LAB_SETTINGS, **OUR_SMALL_SEGMENTS})

    def _topics(self) -> dict[str, NewTopic]:
        spec = self._specs[0]
        topics = {**spec.topics, spec.target: spec.target_partitions}
        return {
            spec.ledger: NewTopic(1, configs=COMPACTED),
            **{name: NewTopic(count, configs=FOREVER) for name, count in topics.items()},
        }

    def _create_topics(self) -> None:
        with Cluster(self._target.client_config("java")) as cluster:
            create_topics(cluster, self._topics())

    def _delete_topics(self) -> None:
        """On a cluster that is not ours only groups and transactional ids are left behind."""
        if not self._target.is_ours_to_harm:
            with Cluster(self._target.client_config("java")) as cluster:
                delete_topics(cluster, [*self._topics(), self._specs[0].churned])

    def _look_at_the_log(self) -> None:
        if found := self._target.tracebacks():
            self._recorder.log(Function.SURPRISE, Status.INFO, what=f"the broker logged an error:\n{found[-1]}")

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            self._tick()
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(left_s, TICK_S))

    def _tick(self) -> None:
        if self._phase not in ("stopping", "draining", "checking"):
            self._crew.tend()
            self._see_that_the_broker_lives()
        self._tally.update()
        if self._watches:
            self._wake_the_silent()
        now_s, ops, per_s = self._rate
        elapsed_s = time.monotonic() - self._began_s
        if elapsed_s - now_s >= 2:
            self._rate = elapsed_s, self._tally.ops, (self._tally.ops - ops) / (elapsed_s - now_s)
        told = self._tally.transactions
        committed, aborted, unknown = told[Status.OK], told[Status.FAIL], told[Status.INFO]
        self._show(Progress(elapsed_s, self._phase, self._tally.ops, per_s, committed, aborted, unknown))

    def _wake_the_silent(self) -> None:
        """A client library may wait for ever after a fault, and the run would test less and less. A note says so."""
        # No client makes progress without a broker, and some brokers take long to start.
        last_ns = {name: max(self._tally.last_ns.get(name, 0), self._broker_back_ns) for name in self._crew.names}
        for name in self._crew.silent(last_ns, SILENCE_S):
            if self._nemesis.broker_is_down:
                return
            self._silent[name] += 1
            self._crew.kill(name)
            self._crew.start(name)

    def _see_that_the_broker_lives(self) -> None:
        if not self._nemesis.broker_is_down and not self._target.is_running:
            self._recorder.log(
                Function.SURPRISE, Status.INFO, what=f"the broker ended by itself: {self._target.log[-5000:]}"
            )
            self._target.start()


def check_only(directory: Path) -> Result:
    """The checkers over a history that was kept."""
    began_s = time.monotonic()
    ops = load(directory)
    if not ops:
        raise RunFailed(f"there is no history in {directory}")
    facts = read_history(ops)
    anomalies = checkers.check_facts(facts)
    seconds = time.monotonic() - began_s
    command = f"{sys.argv[0]} chaos --check {directory}"
    return Result(str(directory), None, seconds, command, Counts.of(facts), anomalies, directory)
