"""The result of a run, for people and as JSON: what was done, what was found, how to repeat it."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.lab.chaos.anomaly import Anomaly
from fencepost.lab.chaos.facts import READ_COMMITTED, Facts, Outcome
from fencepost.lab.chaos.facts import Kind as Writes

#: How many of each kind are printed. All are in the JSON.
PRINTED_MAX = 3
LINE_MAX = 400


@dataclass(frozen=True, slots=True)
class Counts:
    transactions: dict[str, int]
    sends: int
    records: int  #: that a read_committed reader finds in the end
    reads: int  #: records that live readers and loops received
    inputs: int  #: records that loops consumed in transactions that took effect or may have
    observations: int

    @classmethod
    def of(cls, facts: Facts) -> "Counts":
        transactions = [each for each in facts.transactions if each.kind is Writes.TRANSACTION]
        outcomes = Counter(each.outcome.value for each in transactions)
        return cls(
            transactions={outcome.value: outcomes[outcome.value] for outcome in Outcome},
            sends=sum(len(each.writes) for each in facts.transactions if each.kind is Writes.SENDS),
            records=sum(len(records) for records in facts.final(READ_COMMITTED).values()),
            reads=sum(len(read.records) for read in facts.reads),
            inputs=sum(len(each.inputs) for each in transactions if each.outcome is not Outcome.ABORTED),
            observations=len(facts.observations),
        )


@dataclass(frozen=True, slots=True)
class Result:
    target: str
    seed: int | None  #: None if a history was only checked
    seconds: float
    command: str
    counts: Counts
    anomalies: list[Anomaly]
    history: Path | None  #: None if it was not kept
    faults: Counter[str] = field(default_factory=Counter)
    client_starts: int = 0
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return {
            "target": self.target,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "command": self.command,
            "transactions": self.counts.transactions,
            "sends": self.counts.sends,
            "records": self.counts.records,
            "reads": self.counts.reads,
            "inputs": self.counts.inputs,
            "observations": self.counts.observations,
            "faults": dict(self.faults),
            "client_starts": self.client_starts,
            "notes": self.notes,
            "history": str(self.history) if self.history else None,
            "anomalies": [
                {
                    "kind": anomaly.kind.value,
                    "text": anomaly.text,
                    "ops": [{"client": op.client, "line": op.line()} for op in anomaly.ops],
                }
                for anomaly in self.anomalies
            ],
        }

    def lines(self) -> list[str]:
        counts = self.counts
        told = counts.transactions
        done = (
            f"{self.target}: {sum(told.values()):,} transactions ({told['committed']:,} committed, "
            f"{told['aborted']:,} aborted, {told['unknown']:,} unknown), {counts.sends:,} single sends, "
            f"{counts.inputs:,} inputs of loops"
        )
        checked = (
            f"checked {counts.records:,} records in the end, {counts.reads:,} read meanwhile, "
            f"{counts.observations:,} looks at committed offsets, in {self.seconds:.0f} s"
        )
        out = [done, checked]
        if self.faults:
            deeds = ", ".join(f"{count} × {name}" for name, count in sorted(self.faults.items()))
            out.append(f"faults: {deeds}; clients started {self.client_starts} times")
        out += [f"note: {note}" for note in self.notes]
        if not self.anomalies:
            return [*out, "no anomalies"]
        return [*out, *self._failure()]

    def _failure(self) -> list[str]:
        out = [""]
        kinds = Counter(anomaly.kind for anomaly in self.anomalies)
        for kind, count in kinds.items():
            out.append(f"{kind.value.upper()}: {count}")
            for anomaly in [each for each in self.anomalies if each.kind is kind][:PRINTED_MAX]:
                out.append(f"  {anomaly.text}")
                out += [f"    {op.client:>6} {_short(op.line())}" for op in anomaly.ops]
            if count > PRINTED_MAX:
                out.append(f"  ... and {count - PRINTED_MAX} more")
        out.append("")
        if self.history is not None:
            out.append(f"history: {self.history}")
        if self.seed is not None:
            out.append(f"again:   {self.command}")
            out.append(
                "         (the seed gives the same workload and faults, but not the same interleaving of processes)"
            )
        return out


def _short(line: str) -> str:
    return line if len(line) <= LINE_MAX else line[:LINE_MAX] + " ..."
