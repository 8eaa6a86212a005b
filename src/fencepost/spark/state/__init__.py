"""State as a topic: kept per key in a compacted changelog, written in the same transaction as outputs and offsets.

=============  =======================================================================================================
`step`         what a user writes: keys, state, outputs, and the function from old to new
`plan`         a step as Spark operations: rows to the owner of their key, changes and outputs to records
`stage`        what the owner does: bring the cache up to date, look up, call the function
`cache`        what is committed, on a local disk; can be lost at any time
`values`       the JSON values of the changelog as Arrow columns
`changelog`    the topic: its name, its partitions, its ends
=============  =======================================================================================================
"""

from fencepost.spark.state.plan import State
from fencepost.spark.state.step import Keyed, StatefulStep, Updated

__all__ = ["Keyed", "State", "StatefulStep", "Updated"]
