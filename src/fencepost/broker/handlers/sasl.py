"""A client logs in, or renews its login."""

from typing import Any

from fencepost.broker.dispatch import Call, Response, Waiting, handler
from fencepost.broker.session import SASL_AUTHENTICATE, SASL_HANDSHAKE
from fencepost.errors import ErrorCode, KafkaError


@handler(SASL_HANDSHAKE, versions=(1, 1))  # version 0 is followed by bytes that are no requests
def sasl_handshake(call: Call) -> Response:
    """SaslHandshake (17): client and broker agree on a mechanism."""
    login = call.session.login
    if login is None:
        return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
    return {"error_code": login.handshake(call.request.mechanism), "mechanisms": login.offered}


@handler(SASL_AUTHENTICATE, versions=(0, 2))
def sasl_authenticate(call: Call) -> Response | Waiting:
    """SaslAuthenticate (36): one message of the mechanism and its answer; a refusal waits and ends the connection."""
    session = call.session
    if session.login is None:
        return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": "this listener asks for no login"}
    try:
        answer, life_ms = session.login.authenticate(bytes(call.request.auth_bytes))
    except KafkaError as error:
        return _refuse_later(call, {"error_code": error.code, "error_message": error.message, "auth_bytes": b""})
    if session.login.principal is not None:
        session.known(session.login.principal)
    return {"error_code": ErrorCode.NONE, "auth_bytes": answer, "session_lifetime_ms": life_ms}


def _refuse_later(call: Call, refusal: dict[str, Any]) -> Waiting:
    """Guessing is slow, and the connection is over."""
    waiting = Waiting(ends=True)
    delay_ms = call.broker.settings.connection_failed_authentication_delay_ms
    call.broker.clock.call_later(delay_ms, lambda: waiting.release(refusal))
    return waiting
