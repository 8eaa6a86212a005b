"""What the console knows of the cluster, for Prometheus: of any Kafka, without an exporter of its own.

Labels are bounded: the partitions that hold most, and at most `GROUPS_MAX` groups, those with the most lag. Beside a
broker of ours, what that one serves follows; no name is in both.
"""

import urllib.request

from fencepost.console.board import Board, now_ms
from fencepost.metrics.text import Exposition

GROUPS_MAX = 200
PREFIX = "fencepost_console"
BROKER_S_MAX = 5.0

#: It is on this machine: no proxy.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def of_broker(url: str | None) -> str:
    """What the broker beside the console serves; nothing if there is none, or it does not answer."""
    if url is None:
        return ""
    try:
        with _opener.open(url, timeout=BROKER_S_MAX) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def exposition(board: Board) -> str:
    out = Exposition()
    transactions = board.rows("transactions").values()
    opened = [row for row in transactions if row["open"]]
    begun = [row["start_ms"] for row in opened if row["start_ms"] is not None]
    out.gauge(f"{PREFIX}_transactional_ids", "Transactional ids that coordinators know.", len(transactions))
    out.gauge(f"{PREFIX}_open_transactions", "Transactions that are open now.", len(opened))
    oldest_s = max(0, now_ms() - min(begun)) / 1000 if begun else 0
    out.gauge(f"{PREFIX}_oldest_open_transaction_seconds", "Age of the oldest open transaction.", oldest_s)
    held = [
        ({"topic": each["topic"], "partition": str(each["partition"])}, each["end"] - each["stable"])
        for each in board.head("topics").get("held", ())
    ]
    out.gauge(f"{PREFIX}_held_offsets", "Offsets from the last stable offset to the end, where there are any.", held)
    groups = [row for row in board.rows("groups").values() if row["lag"] is not None]
    groups = sorted(groups, key=lambda row: -row["lag"])[:GROUPS_MAX]
    lags = [({"group": row["id"], "counted": "exactly" if row["exact"] else "at_most"}, row["lag"]) for row in groups]
    out.gauge(f"{PREFIX}_group_lag_records", "Records that a read_committed reader will still get.", lags)
    health = board.rows("health")
    good = [({"question": name}, float(row["condition"] == "good")) for name, row in health.items()]
    out.gauge(f"{PREFIX}_answered", "Whether the cluster answered the last time it was asked.", good)
    return out.text()
