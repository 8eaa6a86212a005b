"""A stateful step whose state is too large for its changelog. In a module of its own: workers import it."""

import pyarrow as pa

from fencepost.spark.state import Keyed, Updated


def grow(given: Keyed) -> Updated:
    return Updated(pa.table({"text": ["x" * 50_000] * len(given.keys)}))
