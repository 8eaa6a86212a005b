"""Random numbers that can be repeated: a failure names its seed, and `FENCEPOST_SEED` takes it."""

import contextlib
import os
import random
from collections.abc import Iterator

VARIABLE = "FENCEPOST_SEED"


def chosen_seed() -> int:
    given = os.environ.get(VARIABLE)
    return int(given) if given else random.SystemRandom().randrange(2**31)


@contextlib.contextmanager
def replayable(seed: int) -> Iterator[random.Random]:
    """A generator from the seed. An error inside gets a note with the command that repeats it."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    print(f"{VARIABLE}={seed}")
    try:
        yield random.Random(seed)
    except BaseException as error:
        error.add_note(f"replay: {VARIABLE}={seed} python -m pytest '{test}'")
        raise
