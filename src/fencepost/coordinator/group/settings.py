"""The settings of consumer groups and their offsets."""

from fencepost.setting import INT_MAX, Table, integer, long

# fmt: off


class GroupSettings(Table):
    group_min_session_timeout_ms = integer(6_000, "The shortest session timeout that a member may ask for.")
    group_max_session_timeout_ms = integer(1_800_000, "The longest session timeout that a member may ask for.")
    # Kafka spares a large group a rebalance per member that starts. On one machine nobody wants to wait for that.
    group_initial_rebalance_delay_ms = integer(
        0, "How long a new group waits for more members (3000 in Kafka). At 0 the first generation begins as soon as "
        "every member with an id has joined.", low=0, kafka="3000")
    group_max_size = integer(INT_MAX, "Members that a group may have.", low=1)
    offset_metadata_max_bytes = integer(4096, "The most metadata that a committed offset may carry.")
    offsets_retention_minutes = integer(10_080, "How long the offsets of a group without members are kept.", low=1)
    offsets_retention_check_interval_ms = long(600_000, "How often expired offsets are looked for.", low=1)
