"""A stateful step of ours, for all cases that need one: counts and sums by key."""

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.spark.state import Keyed, StatefulStep, Updated


def add_up(given: Keyed) -> Updated:
    keys = len(given.keys)
    counts = given.old.column("c").fill_null(0).to_numpy() + np.bincount(given.index, minlength=keys)
    added = np.zeros(keys, np.int64)
    np.add.at(added, given.index, given.rows.column("n").to_numpy())
    state = pa.table({"c": counts, "s": given.old.column("s").fill_null(0).to_numpy() + added})
    return Updated(state, state.add_column(0, "k", given.keys.column("k")))


def totals_step(topic: str) -> StatefulStep:
    return StatefulStep(
        name="totals",
        keys=("k",),
        state="c long, s long",
        update=add_up,
        output="k string, c long, s long",
        topic=topic,
        partitions=2,
    )
