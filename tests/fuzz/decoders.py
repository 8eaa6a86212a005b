"""Throw bytes at every decoder that takes them from outside.

    python -m tests.fuzz.decoders --seconds 60 [--seed S] [--target NAME …]
    python -m tests.fuzz.decoders --replay NAME HEX

An input passes when the decoder returns or raises Malformed, within `SLOW_S` and within the memory limit. A failure
prints the command that repeats it.
"""

import argparse
import itertools
import logging
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.errors import Malformed
from tests.fuzz import beyond_wire, security_targets
from tests.fuzz import targets as wire
from tests.fuzz.mutate import mutate
from tests.fuzz.targets import Target

#: No decoder may take longer for the few kilobytes of one input.
SLOW_S = 2.0
#: More than any decoder needs here; an unbounded one hits it and raises MemoryError.
MEMORY_BYTES = 2 * 1024**3
#: Inputs that were understood are kept and mutated further, as many as this for each target.
CORPUS_SIZE = 60


def targets() -> dict[str, Target]:
    return {
        target.name: target
        for target in itertools.chain(wire.targets(), beyond_wire.targets(), security_targets.targets())
    }


@dataclass(frozen=True, slots=True)
class Failure:
    target: str
    data: bytes
    reason: str

    def __str__(self) -> str:
        command = f"python -m tests.fuzz.decoders --replay {self.target} {self.data.hex() or '-'}"
        return f"{self.target}: {self.reason}\n  {command}"


@dataclass(slots=True)
class Result:
    runs: int = 0
    understood: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


def try_one(target: Target, data: bytes) -> tuple[bool, Failure | None]:
    """Whether the decoder understood the bytes, and what is wrong if something is."""
    before = time.perf_counter()
    understood = False
    try:
        target.decode(data)
        understood = True
    except Malformed:
        pass
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic in a compiled library is not an Exception
        return False, Failure(target.name, data, f"{type(error).__name__}: {error}")
    took_s = time.perf_counter() - before
    if took_s > SLOW_S:
        return understood, Failure(target.name, data, f"took {took_s:.1f} s")
    return understood, None


def inputs(rng: random.Random, target: Target, corpus: list[bytes]) -> Iterator[bytes]:
    """Without end: the seeds themselves, then mutations of whatever was understood, then some plain noise."""
    corpus += target.seeds(rng)
    yield from list(corpus)
    yield b""
    while True:
        if rng.random() < 0.05:
            yield rng.randbytes(rng.randrange(64))
        else:
            yield mutate(rng, rng.choice(corpus), rng.choice(corpus))


def run(chosen: list[Target], seed: int, *, rounds: int | None = None, seconds: float | None = None) -> Result:
    """Each target in turn, one input a round, until the rounds or the seconds are over."""
    result = Result()
    deadline = None if seconds is None else time.monotonic() + seconds
    lanes = []
    for target in chosen:
        rng = random.Random(f"{seed} {target.name}")  # one target alone repeats what it did among others
        corpus: list[bytes] = []
        lanes.append((target, rng, corpus, inputs(rng, target, corpus)))
    failed: set[str] = set()
    for _ in range(rounds) if rounds is not None else itertools.count():
        for target, rng, corpus, source in lanes:
            if target.name in failed:
                continue
            data = next(source)
            understood, failure = try_one(target, data)
            result.runs += 1
            result.understood[target.name] += understood
            if failure is not None:
                failed.add(target.name)
                result.failures.append(failure)
            elif understood and len(data) < 4096:
                if len(corpus) < CORPUS_SIZE:
                    corpus.append(data)
                else:
                    corpus[rng.randrange(CORPUS_SIZE)] = data
        if deadline is not None and time.monotonic() > deadline:
            break
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=str(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m tests.fuzz.decoders",
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    parser.add_argument("--target", nargs="+", metavar="NAME", choices=sorted(targets()), help="default: all")
    parser.add_argument("--replay", nargs=2, metavar=("NAME", "HEX"), help="one input, from a failure or a file")
    options = parser.parse_args()
    logging.disable()  # what is refused may be logged where it is refused
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if options.replay:
        name, text = options.replay
        data = Path(text).read_bytes() if Path(text).exists() else bytes.fromhex(text.replace("-", ""))
        targets()[name].decode(data)
        print("understood")
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    chosen = [target for name, target in targets().items() if not options.target or name in options.target]
    result = run(chosen, seed, seconds=options.seconds)
    understood = sum(result.understood.values())
    print(f"{result.runs} inputs for {len(chosen)} decoders, {understood} understood, {len(result.failures)} failures")
    for failure in result.failures:
        print(failure)
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
