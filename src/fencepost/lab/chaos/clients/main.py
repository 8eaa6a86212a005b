"""The process of one client: reads its spec from the command line, is that client until it ends, says how it ended."""

import json
import sys

from fencepost.lab.chaos.clients.base import START_AGAIN, Client, StartAgain
from fencepost.lab.chaos.plan import ClientSpec, Role


def make(spec: ClientSpec) -> Client:
    """Libraries are imported where they are needed: a process that is started often should pay for little."""
    match spec.role:
        case Role.PRODUCER | Role.SENDER:
            from fencepost.lab.chaos.clients.producers import IdempotentSender, TransactionalProducer

            return TransactionalProducer(spec) if spec.role is Role.PRODUCER else IdempotentSender(spec)
        case Role.SHARED_PRODUCER:
            from fencepost.lab.chaos.clients.shared_producer import SharedProducer

            return SharedProducer(spec)
        case Role.BY_HAND | Role.LEDGER:
            from fencepost.lab.chaos.clients.by_hand import ByHand, Ledger

            return ByHand(spec) if spec.role is Role.BY_HAND else Ledger(spec)
        case Role.CHURNER:
            from fencepost.lab.chaos.clients.churner import Churner

            return Churner(spec)
        case Role.LOOP:
            from fencepost.lab.chaos.clients.loop import Loop

            return Loop(spec)
        case Role.READER | Role.PYTHON_READER:
            from fencepost.lab.chaos.clients.readers import PythonReader, RdkafkaReader

            return RdkafkaReader(spec) if spec.role is Role.READER else PythonReader(spec)
        case Role.WATCHER:
            from fencepost.lab.chaos.clients.watcher import Watcher

            return Watcher(spec)
        case Role.DRAIN:
            from fencepost.lab.chaos.clients.drain import Drain

            return Drain(spec)


def main() -> int:
    given = json.loads(sys.argv[1])
    spec = ClientSpec(**{**given, "role": Role(given["role"]), "groups": tuple(given["groups"])})
    try:
        make(spec).run()
    except StartAgain as reason:
        sys.stderr.write(f"start again: {reason}\n")
        return START_AGAIN
    return 0


if __name__ == "__main__":
    sys.exit(main())
