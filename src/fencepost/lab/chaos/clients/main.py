"""The process of one client: reads its spec from standard input, and runs the client until it ends."""

import importlib
import json
import sys

from fencepost.errors import AuthenticationFailed
from fencepost.lab.chaos.clients.base import START_AGAIN, Client, StartAgain
from fencepost.lab.chaos.plan import ClientSpec, Role

#: By name: a process that is started often imports only the libraries of its own role.
CLASSES = {
    Role.PRODUCER: "producers.TransactionalProducer",
    Role.SENDER: "producers.IdempotentSender",
    Role.SHARED_PRODUCER: "shared_producer.SharedProducer",
    Role.BY_HAND: "by_hand.ByHand",
    Role.LEDGER: "by_hand.Ledger",
    Role.CHURNER: "churner.Churner",
    Role.LOOP: "loop.Loop",
    Role.READER: "readers.RdkafkaReader",
    Role.PYTHON_READER: "readers.PythonReader",
    Role.WATCHER: "watcher.Watcher",
    Role.DRAIN: "drain.Drain",
}


def make(spec: ClientSpec) -> Client:
    module, _, name = CLASSES[spec.role].partition(".")
    found: type[Client] = getattr(importlib.import_module(f"fencepost.lab.chaos.clients.{module}"), name)
    return found(spec)


def main() -> int:
    given = json.loads(sys.stdin.readline())
    spec = ClientSpec(**{**given, "role": Role(given["role"]), "groups": tuple(given["groups"])})
    client = make(spec)
    try:
        client.run()
    except StartAgain as reason:
        if isinstance(reason.__cause__, AuthenticationFailed):  # no fault makes a login wrong
            client.surprise(reason)
        sys.stderr.write(f"start again: {reason}\n")
        return START_AGAIN
    return 0


if __name__ == "__main__":
    sys.exit(main())
