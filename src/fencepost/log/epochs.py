"""Where each leader epoch begins: which epoch a log was written under, offset by offset.

Layout of `leader-epoch-checkpoint`, as Kafka's: lines of text, `0` (the version), the number of entries, then
`epoch startOffset` per line. Invariant: both columns ascend strictly. The file is small and rewritten whole; as batches
carry their epoch as well, a file that cannot be read is made again from the log.
"""

from fencepost.errors import Malformed
from fencepost.log import checkpoint

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    @property
    def latest(self) -> int:
        return self.entries[-1][0] if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """The epoch begins here, unless it already began; True when something changed."""
        if epoch < 0 or epoch <= self.latest:
            return False
        while self.entries and self.entries[-1][1] >= start_offset:
            self.entries.pop()
        self.entries.append((epoch, start_offset))
        return True

    def at(self, offset: int) -> int:
        """The epoch under which this offset was written."""
        for epoch, start_offset in reversed(self.entries):
            if start_offset <= offset:
                return epoch
        return self.entries[0][0] if self.entries else UNDEFINED_EPOCH

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The greatest known epoch up to `epoch` and where it ended (OffsetForLeaderEpoch)."""
        if epoch == UNDEFINED_EPOCH or not self.entries or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        found, end = epoch, self.entries[0][1]
        for number, (known, _) in enumerate(self.entries):
            if known > epoch:
                break
            found, end = known, self.entries[number + 1][1]
        return found, end

    def truncate_from_end(self, end_offset: int) -> bool:
        kept = [entry for entry in self.entries if entry[1] < end_offset]
        changed, self.entries = len(kept) != len(self.entries), kept
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """The epoch that was current at the new start now begins there."""
        before = [entry for entry in self.entries if entry[1] <= start_offset]
        if not before or before == [(before[-1][0], start_offset)]:
            return False
        self.entries = [(before[-1][0], start_offset), *self.entries[len(before) :]]
        return True

    def encode(self) -> bytes:
        return checkpoint.encode_lines([f"{epoch} {offset}" for epoch, offset in self.entries])

    @classmethod
    def decode(cls, data: bytes) -> "LeaderEpochs":
        epochs = cls()
        try:
            pairs = [line.split() for line in checkpoint.decode_lines(data)]
            epochs.entries = [(int(epoch), int(offset)) for epoch, offset in pairs]
        except ValueError as error:
            raise Malformed(f"a leader epoch checkpoint cannot be read: {error}") from None
        if epochs.entries != sorted(set(epochs.entries)):
            raise Malformed("a leader epoch checkpoint is not in order")
        return epochs
