"""Letters as the sink writes them, by hand, and a look at what becomes of them, with confluent-kafka."""

import json
from collections.abc import Mapping
from typing import Any

from click.testing import CliRunner, Result
from confluent_kafka import Message, Producer

from fencepost.cli.main import main
from tests import logins
from tests.spark.checker import read_records, wait_until_settled

TIMEOUT_S = 30.0


class Desk:
    """A topic for dead letters, and the topic that they were for."""

    def __init__(self, bootstrap: str, dead: str, target: str) -> None:
        self.bootstrap = bootstrap
        self.dead = dead
        self.target = target
        self._producer = Producer({**logins.confluent(bootstrap), "linger.ms": 0})

    def post(
        self,
        key: str | None,
        value: bytes | str | None,
        reason: str | None = "query",
        at: int = 0,
        own: Mapping[str, bytes | None] | None = None,
        time_ms: int = 0,
        **said: object,
    ) -> None:
        """In partition `at`. `said` are more headers of ours: `source_topic="orders"`; None leaves one out."""
        given: dict[str, object] = {"topic": self.target, "pipeline": "shop", "error.reason": reason, **said}
        given["error"] = None if reason is None else f"wrong: {reason}"
        ours = [(f"fencepost.{name.replace('_', '.')}", str(text)) for name, text in given.items() if text is not None]
        headers = [*(own or {}).items(), *ours]
        self._producer.produce(self.dead, value, key, at, headers=headers, timestamp=time_ms)  # type: ignore[arg-type]
        assert self._producer.flush(TIMEOUT_S) == 0

    def written(self, topic: str | None = None) -> list[Message]:
        """What a read_committed consumer finds, once no transaction is open."""
        wait_until_settled(self.bootstrap, topic or self.target)
        return list(read_records(self.bootstrap, topic or self.target))

    def values(self, topic: str | None = None) -> list[str]:
        return sorted((message.value() or b"").decode() for message in self.written(topic))

    def words(self, verb: str, *more: object) -> list[str]:
        settings = [word for name, value in logins.java(self.bootstrap).items() for word in ("-X", f"{name}={value}")]
        return ["dead-letters", verb, self.dead, *settings, *map(str, more)]

    def run(self, verb: str, *more: object) -> Result:
        """`fencepost dead-letters …`, in this process."""
        return CliRunner().invoke(main, self.words(verb, *more))

    def said(self, verb: str, *more: object, code: int = 0) -> str:
        done = self.run(verb, *more)
        assert done.exit_code == code, (done.output, done.exception)
        return done.stdout

    def objects(self, verb: str, *more: object, code: int = 0) -> list[Any]:
        return [json.loads(line) for line in self.said(verb, *more, "--json", code=code).splitlines()]
