"""The beginning of a secured connection: TLS around the socket, then a SASL login.

Failures are told apart by what a person can do. `AuthenticationFailed` needs other settings and is not tried again;
`ConnectionLost` may pass.
"""

import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from fencepost.client.retry import known_code
from fencepost.errors import AuthenticationFailed, ClientError, ConnectionLost, ErrorCode, Malformed
from fencepost.security import tls
from fencepost.security.settings import ClientSecurity
from fencepost.wire.codec import Message
from fencepost.wire.terms import Address

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
HANDSHAKE_VERSION = 1  #: version 0 is followed by bytes that are no requests

#: One request and its answer, in the version that the caller names.
Ask = Callable[[int, int, Mapping[str, Any]], Message]


def wrap(plain: socket.socket, address: Address, security: ClientSecurity) -> ssl.SSLSocket:
    """The socket with TLS around it, its handshake done."""
    context, suites = security.tls()
    try:
        wrapped = context.wrap_socket(plain, server_hostname=address.host)
    except ssl.SSLError as error:
        raise tls_failure(address, error) from None
    except TimeoutError:
        raise ConnectionLost(f"{address} did not finish the TLS handshake in time; is this a TLS listener?") from None
    except OSError:
        raise ConnectionLost(f"{address} hung up during the TLS handshake; is this a TLS listener?") from None
    if wrong := tls.check_suite(wrapped, suites):
        wrapped.close()
        raise AuthenticationFailed(f"{address} {wrong}")
    return wrapped


def tls_failure(address: Address, error: ssl.SSLError) -> ClientError:
    reason = tls.reason(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(f"{address}: the broker's certificate is refused: {reason} ({_advice(reason)})")
    if "alert" in reason:
        return AuthenticationFailed(
            f"{address} ended the TLS connection: {reason}; if it wants a certificate of ours, set ssl.keystore.*"
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return ConnectionLost(f"{address} hung up during the TLS handshake; is this a TLS listener?")
    return AuthenticationFailed(
        f"{address} does not answer with TLS ({reason}): are security.protocol and the port right?"
    )


def _advice(reason: str) -> str:
    if "expired" in reason or "not yet valid" in reason:
        return "renew it, or set this machine's clock"
    if "ostname" in reason or "IP address" in reason:
        return "connect to a name that it is for; ssl.endpoint.identification.algorithm= accepts any"
    return "put the authority that issued it into ssl.truststore.*"


def log_in(ask: Ask, address: Address, security: ClientSecurity, version: int) -> int:
    """Agree on the mechanism and hold its conversation. Returns how long the login lasts in ms, 0 for ever.

    `version` is that of SaslAuthenticate.
    """
    mechanism = security.mechanism
    shaken = ask(SASL_HANDSHAKE, HANDSHAKE_VERSION, {"mechanism": mechanism})
    if shaken.error_code not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM):
        # A listener without SASL answers so, and Kafka to a second login within a second (KIP-368).
        code = known_code(shaken.error_code).name
        raise AuthenticationFailed(f"{address} does not offer {mechanism} now ({code}): is this a SASL listener?")
    if shaken.error_code:
        offered = ", ".join(shaken.mechanisms) or "none"
        raise AuthenticationFailed(
            f"{address} does not offer {mechanism}; set sasl.mechanism to what it does: {offered}"
        )
    conversation = security.converse(address.host)
    message = next(conversation)
    while True:
        answer = ask(SASL_AUTHENTICATE, version, {"auth_bytes": message})
        if answer.error_code:
            conversation.close()
            said = answer.error_message or known_code(answer.error_code).name
            raise AuthenticationFailed(f"{address} refused the {mechanism} login: {said}{security.advice}")
        try:
            message = conversation.send(bytes(answer.auth_bytes))
        except StopIteration:
            return int(answer.session_lifetime_ms)
        except Malformed as error:
            raise AuthenticationFailed(f"{address}: the {mechanism} login cannot go on: {error}") from None
        except AuthenticationFailed as error:
            raise AuthenticationFailed(f"{address}: {error}") from None
