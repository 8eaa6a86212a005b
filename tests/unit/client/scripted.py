"""A broker that says what a test wants it to say, on a real socket.

A script is a function `(api key, request) -> answer`: a dict of fields, `HANG_UP`, `SILENCE`, or None for what any
broker would answer (ApiVersions, Metadata with one partition, FindCoordinator: itself). What was asked is kept.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.wire import messages
from fencepost.wire.frame import API_VERSIONS_KEY, encode_response, read_request_header, skip_tags
from tests.fakes.frames import FrameServer

METADATA, FIND_COORDINATOR = 3, 10
TOPIC, TOPIC_ID = "t", bytes(range(16))

Script = Callable[[int, Any], Any]


def say_nothing_special(_api_key: int, _request: Any) -> Any:
    return None


class ScriptedBroker(FrameServer):
    def __init__(
        self,
        script: Script = say_nothing_special,
        *,
        transaction_version: int = 2,
        versions: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        self.script = script
        self.asked: list[tuple[int, Any]] = []
        self._transaction_version = transaction_version
        self._versions = dict(versions or {})
        super().__init__()
        self.port = self.address.port

    @property
    def bootstrap(self) -> str:
        return str(self.address)

    def keys(self) -> list[int]:
        """The API keys of what was asked, without what every client asks first."""
        return [key for key, _ in self.asked if key not in (API_VERSIONS_KEY, METADATA, FIND_COORDINATOR)]

    def respond(self, frame: bytes) -> Any:
        header = read_request_header(frame)
        api = messages.api(header.api_key)
        body = skip_tags(frame, header.body) if header.version in api.request.flexible else header.body
        request = api.request.decode(header.version, frame, body)
        self.asked.append((header.api_key, request))
        answer = self.script(header.api_key, request)
        if answer is None:
            answer = self._usual(header.api_key, request)
        if isinstance(answer, bytes) or not isinstance(answer, dict):
            return answer
        return bytes(encode_response(api, header.version, header.correlation_id, answer))

    def _usual(self, api_key: int, request: Any) -> dict[str, Any]:
        if api_key == API_VERSIONS_KEY:
            ours = {key: (messages.api(key).request.versions.first, messages.api(key).request.versions.last)
                    for key in messages.api_names()}  # fmt: skip
            return {
                "api_keys": [
                    {"api_key": key, "min_version": low, "max_version": high}
                    for key, (low, high) in {**ours, **self._versions}.items()
                ],
                "finalized_features": [
                    {
                        "name": "transaction.version",
                        "min_version_level": self._transaction_version,
                        "max_version_level": self._transaction_version,
                    }
                ],
            }
        if api_key == METADATA:
            partition = {"partition_index": 0, "leader_id": 7, "replica_nodes": [7], "isr_nodes": [7]}
            topic = {"name": TOPIC, "topic_id": TOPIC_ID, "partitions": [partition]}
            brokers = [{"node_id": 7, "host": "127.0.0.1", "port": self.port}]
            wanted = request.topics is None or any(entry.name == TOPIC for entry in request.topics)
            missing = [{"name": entry.name, "error_code": 3} for entry in request.topics or () if entry.name != TOPIC]
            return {"brokers": brokers, "controller_id": 7, "topics": ([topic] if wanted else []) + missing}
        if api_key == FIND_COORDINATOR:
            here = {"node_id": 7, "host": "127.0.0.1", "port": self.port}
            return {**here, "coordinators": [{"key": key, **here} for key in request.coordinator_keys]}
        raise AssertionError(f"the script has no answer to {messages.api_names()[api_key]}")


def settings(broker: ScriptedBroker, **more: object) -> dict[str, object]:
    """Impatient ones."""
    return {
        "bootstrap.servers": broker.bootstrap,
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 5,
        "request.timeout.ms": 500,
        "default.api.timeout.ms": 1_000,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
