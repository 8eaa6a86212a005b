"""The users of SCRAM, as `kafka-configs` keeps them. Passwords come salted; what is stored cannot be logged in with."""

from collections import Counter
from typing import Any

from fencepost.broker.acl import Operation, Resource, refusal
from fencepost.broker.catalogue import Line, credential_line
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import refused
from fencepost.errors import ErrorCode, KafkaError
from fencepost.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, Credential, Mechanism

#: Kafka's numbers.
MECHANISMS = {1: Mechanism.SCRAM_SHA_256, 2: Mechanism.SCRAM_SHA_512}
NUMBERS = {mechanism: number for number, mechanism in MECHANISMS.items()}


@handler(50, versions=(0, 0))
def describe_user_scram_credentials(call: Call) -> Response:
    """DescribeUserScramCredentials (50): which users there are, with which mechanisms."""
    if not call.may(Operation.DESCRIBE, Resource.CLUSTER):
        refusals = refused(refusal(Resource.CLUSTER))
        return {**refusals, "results": [{"user": user.name, **refusals} for user in call.request.users or ()]}
    known: dict[str, list[dict[str, Any]]] = {}
    for (name, mechanism), credential in call.broker.topics.catalogue.credentials.items():
        info = {"mechanism": NUMBERS[mechanism], "iterations": credential.iterations}
        known.setdefault(name, []).append(info)
    asked = Counter(user.name for user in call.request.users or ()) or Counter(sorted(known))
    return {
        "error_code": ErrorCode.NONE,
        "results": [_described(name, known, times) for name, times in asked.items()],
    }


def _described(name: str, known: dict[str, list[dict[str, Any]]], times: int) -> dict[str, Any]:
    result: dict[str, Any] = {"user": name, "error_code": ErrorCode.NONE, "error_message": None, "credential_infos": []}
    if times > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return result | {"error_code": ErrorCode.DUPLICATE_RESOURCE, "error_message": message}
    if name not in known:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return result | {"error_code": ErrorCode.RESOURCE_NOT_FOUND, "error_message": message}
    return result | {"credential_infos": sorted(known[name], key=lambda info: int(info["mechanism"]))}


@handler(51, versions=(0, 0))
def alter_user_scram_credentials(call: Call) -> Response:
    """AlterUserScramCredentials (51): add and remove users. All changes of a user are made, or none."""
    request = call.request
    changes: dict[str, list[Any]] = {}
    for change in (*request.deletions, *request.upsertions):
        changes.setdefault(change.name, []).append(change)
    if not call.may(Operation.ALTER, Resource.CLUSTER):
        return {"results": [{"user": name, **refused(refusal(Resource.CLUSTER))} for name in changes]}
    results, lines = [], []
    for name, wanted in changes.items():
        code, message = ErrorCode.NONE, None
        try:
            lines += _lines(call, name, wanted)
        except KafkaError as error:
            code, message = error.code, error.message
        results.append({"user": name, "error_code": code, "error_message": message})
    if lines:
        call.broker.topics.catalogue.write(lines)
    return {"results": results}


def _lines(call: Call, name: str, wanted: list[Any]) -> list[Line]:
    if not name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanisms = [_mechanism(change.mechanism) for change in wanted]
    if len(set(mechanisms)) < len(mechanisms):
        raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    return [_line(call, name, mechanism, change) for mechanism, change in zip(mechanisms, wanted, strict=True)]


def _mechanism(number: int) -> Mechanism:
    if number not in MECHANISMS:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return MECHANISMS[number]


def _line(call: Call, name: str, mechanism: Mechanism, change: Any) -> Line:
    if not hasattr(change, "iterations"):
        if (name, mechanism) not in call.broker.topics.catalogue.credentials:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return credential_line(name, mechanism, None)
    if change.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salt or len(change.salted_password) != len(mechanism.hash(b"")):
        raise KafkaError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt is empty, or the salted password has another size"
        )
    salted = bytes(change.salted_password)
    return credential_line(
        name, mechanism, Credential.from_salted(mechanism, bytes(change.salt), salted, change.iterations)
    )
