"""Replays a seed, or looks for one that breaks something. See the package's docstring."""

import argparse
import itertools
import random
import sys
import time

from tests.simulation.history import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one and print it")
    parser.add_argument("--histories", type=int, default=1000, help="how many to play otherwise")
    parser.add_argument("--first", type=int, help="the first seed of those; a random one by default")
    options = parser.parse_args()
    if options.seed is not None:
        history = play(options.seed)
        print("\n".join(history.lines))
        print("\n".join(f"VIOLATION {violation}" for violation in history.violations) or "all invariants hold")
        print(history.digest)
        return bool(history.violations)
    first = options.first if options.first is not None else random.SystemRandom().randrange(2**31)
    began, began_cpu, broken = time.perf_counter(), time.process_time(), 0
    for seed in itertools.islice(itertools.count(first), options.histories):
        history = play(seed)
        for violation in history.violations:
            print(f"seed {seed}: {violation}", flush=True)
        broken += bool(history.violations)
    minutes, cpu_minutes = (time.perf_counter() - began) / 60, (time.process_time() - began_cpu) / 60
    print(
        f"{options.histories} histories, {broken} broken; {options.histories / minutes:.0f} per minute, "
        f"{options.histories / cpu_minutes:.0f} per minute of CPU"
    )
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
