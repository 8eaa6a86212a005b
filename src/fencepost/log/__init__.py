"""One partition on disk: segments, indexes, producer state, recovery, retention and compaction."""
