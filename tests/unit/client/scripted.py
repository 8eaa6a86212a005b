"""A broker that says what a test wants it to say, on a real socket.

`answers[api key]` is what it says: a dict of fields, an error code, bytes, `HANG_UP`, `SILENCE`, or a function from the
request to one of these. `queued[api key]` is a list of answers that come first, one for each request; None in it stands
for the usual one. ApiVersions, Metadata (one partition) and FindCoordinator (itself) need no answer of the test's own.
What was asked is kept.
"""

from typing import Any

from fencepost.wire import messages
from fencepost.wire.frame import API_VERSIONS_KEY, encode_response, read_request_header, skip_tags
from tests.fakes.frames import FrameServer

METADATA, FIND_COORDINATOR = 3, 10
TOPIC, TOPIC_ID = "t", bytes(range(16))
NODE = 7


class ScriptedBroker(FrameServer):
    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}
        self.queued: dict[int, list[Any]] = {}
        self.asked: list[tuple[int, Any]] = []
        self.transaction_version = 2
        self.versions = {
            key: (messages.api(key).request.versions.first, messages.api(key).request.versions.last)
            for key in messages.api_names()
        }
        super().__init__()
        self.port = self.address.port

    @property
    def bootstrap(self) -> str:
        return str(self.address)

    def keys(self) -> list[int]:
        """The API keys of what was asked, without what every client asks first."""
        return [key for key, _ in self.asked if key not in (API_VERSIONS_KEY, METADATA, FIND_COORDINATOR)]

    def requests(self, api_key: int) -> list[Any]:
        return [request for key, request in self.asked if key == api_key]

    def respond(self, frame: bytes) -> Any:
        header = read_request_header(frame)
        api = messages.api(header.api_key)
        body = skip_tags(frame, header.body) if header.version in api.request.flexible else header.body
        request = api.request.decode(header.version, frame, body)
        self.asked.append((header.api_key, request))
        answer = self._answer(header.api_key, request)
        if isinstance(answer, int):
            answer = {"error_code": answer}
        if not isinstance(answer, dict):
            return answer
        return bytes(encode_response(api, header.version, header.correlation_id, answer))

    def _answer(self, api_key: int, request: Any) -> Any:
        queued = self.queued.get(api_key)
        answer = queued.pop(0) if queued else None
        if answer is None:
            answer = self.answers.get(api_key)
        if callable(answer):
            answer = answer(request)
        return self._usual(api_key, request) if answer is None else answer

    def _usual(self, api_key: int, request: Any) -> dict[str, Any]:
        if api_key == API_VERSIONS_KEY:
            level = self.transaction_version
            return {
                "api_keys": [
                    {"api_key": key, "min_version": low, "max_version": high}
                    for key, (low, high) in self.versions.items()
                ],
                "finalized_features": [
                    {"name": "transaction.version", "min_version_level": level, "max_version_level": level}
                ],
            }
        if api_key == METADATA:
            names = [TOPIC] if request.topics is None else [entry.name for entry in request.topics]
            known = self.metadata()
            missing = [{"name": name, "error_code": 3} for name in names if name != TOPIC]
            return {**known, "topics": (known["topics"] if TOPIC in names else []) + missing}
        if api_key == FIND_COORDINATOR:
            here = {"node_id": NODE, "host": "127.0.0.1", "port": self.port}
            return {**here, "coordinators": [{"key": key, **here} for key in request.coordinator_keys]}
        raise AssertionError(f"the script has no answer to {messages.api_names()[api_key]}")

    def metadata(self, *, leader: int = NODE, topic_id: bytes = TOPIC_ID) -> dict[str, Any]:
        """Metadata of the one topic."""
        partition = {"partition_index": 0, "leader_id": leader, "replica_nodes": [NODE], "isr_nodes": [NODE]}
        brokers = [{"node_id": NODE, "host": "127.0.0.1", "port": self.port}]
        topics = [{"name": TOPIC, "topic_id": topic_id, "partitions": [partition]}]
        return {"brokers": brokers, "controller_id": NODE, "topics": topics}


def settings(broker: ScriptedBroker, **more: object) -> dict[str, object]:
    """Quick to try again, and patient: on a busy machine an answer may take seconds."""
    return {
        "bootstrap.servers": broker.bootstrap,
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 5,
        "request.timeout.ms": 1_500,
        "default.api.timeout.ms": 30_000,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
