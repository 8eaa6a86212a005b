"""A broker's files, read without a broker: of fencepost and of Apache Kafka, which have the same formats.

`segments` reads record batches, `small_files` indexes, snapshots and checkpoints, `decoding` what the records of
internal topics mean. Only reads.
"""
