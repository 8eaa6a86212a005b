"""What a cluster tells of its transactions: who has one open, who waits behind it, and what nobody will ever end.

Asks any Kafka through its protocol (KIP-664), in bulk: a few requests per broker, however many partitions there are.
Only `aborting` changes anything. Needs nothing beyond the base install.
"""
