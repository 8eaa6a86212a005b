"""The settings that the group coordinator goes by, under Kafka's names with underscores. The broker's settings fit."""

from typing import Protocol


class GroupSettings(Protocol):
    @property
    def group_min_session_timeout_ms(self) -> int: ...

    @property
    def group_max_session_timeout_ms(self) -> int: ...

    @property
    def group_initial_rebalance_delay_ms(self) -> int:
        """How long a new group waits for more members before its first generation. Kafka waits three seconds, to
        spare a large group a rebalance per member that starts; on one machine nobody wants to wait for that, so
        the default here is 0: the first generation begins as soon as everyone who has an id has joined."""

    @property
    def group_max_size(self) -> int: ...

    @property
    def offset_metadata_max_bytes(self) -> int: ...

    @property
    def offsets_retention_minutes(self) -> int: ...

    @property
    def offsets_retention_check_interval_ms(self) -> int: ...
