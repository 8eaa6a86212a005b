"""The settings of transactions."""

from fencepost.setting import Change, Table, boolean, integer

# fmt: off


class TransactionSettings(Table):
    transaction_version = integer(2, "The transaction protocol: 2 (KIP-890) for clients that know it, or only the "
                                  "first (1 or 0, which differ in nothing here).", low=0, high=2)
    transaction_max_timeout_ms = integer(900_000, "The longest transaction timeout that a producer may ask for.", low=1)
    transactional_id_expiration_ms = integer(604_800_000, "How long an unused transactional id is kept.", low=1)
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000, "How often transactions past their timeout are looked for.", low=1)
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000, "How often expired transactional ids are looked for.", low=1)
    transaction_partition_verification_enable = boolean(
        True, "Check that a partition belongs to the transaction before writing to it (KIP-890).", change=Change.LIVE)
