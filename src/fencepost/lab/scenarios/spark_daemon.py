"""`fencepost.spark.daemon` with workers that look for orders while they encode, and after each write or handover."""

from typing import Any

from fencepost.lab.scenarios import orders
from fencepost.spark import daemon


def obey() -> None:
    """Only for workers, because a driver writes its ledger with the same class."""
    from fencepost.client.encode import Encoder
    from fencepost.client.writing import TransactionWriter
    from fencepost.spark.sink.handover import HandOverStage

    add, write, hand_over = Encoder.add, TransactionWriter.write, HandOverStage.hand_over

    def add_and_look(self: Encoder, rows: Any) -> Any:
        orders.look(orders.ENCODING)
        return add(self, rows)

    def write_and_look(self: TransactionWriter, where: Any, blob: Any) -> None:
        write(self, where, blob)
        self.flush()
        orders.look(orders.WRITTEN_SOME)

    def hand_over_and_look(self: HandOverStage, part: Any) -> None:
        hand_over(self, part)
        orders.look(orders.WRITTEN_SOME)

    Encoder.add, TransactionWriter.write = add_and_look, write_and_look  # type: ignore[method-assign]
    HandOverStage.hand_over = hand_over_and_look  # type: ignore[method-assign]


if __name__ == "__main__":
    daemon.preload()  # first, because it keeps libraries from starting threads
    obey()
    daemon.main()
