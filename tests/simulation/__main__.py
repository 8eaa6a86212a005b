"""Replays a seed, or looks for one that breaks something. See the package's docstring."""

import argparse
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.history import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one and print it")
    parser.add_argument("--histories", type=int, default=1000, help="how many to play otherwise")
    parser.add_argument("--first", type=int, help="the first seed of those; a random one by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes play them")
    options = parser.parse_args()
    if options.seed is not None:
        history = play(options.seed)
        print("\n".join(history.lines))
        print("\n".join(f"VIOLATION {violation}" for violation in history.violations) or "all invariants hold")
        print(history.digest)
        return bool(history.violations)
    first = options.first if options.first is not None else random.SystemRandom().randrange(2**31)
    began, broken, transactions = time.perf_counter(), 0, 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for history in pool.map(play, range(first, first + options.histories), chunksize=10):
            for violation in history.violations:
                print(f"seed {history.seed}: {violation}", flush=True)
            broken += bool(history.violations)
            transactions += history.transactions
    minutes = (time.perf_counter() - began) / 60
    print(
        f"{options.histories} histories with {transactions} transactions, {broken} broken; per minute "
        f"{options.histories / minutes:.0f} histories, {transactions / minutes:.0f} transactions"
    )
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
