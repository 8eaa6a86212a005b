"""ApiVersions (18): what this broker speaks, and the finalized features (KIP-584).

A version newer than ours is answered in version 0 with UNSUPPORTED_VERSION and our ranges, so that the client can try
again. `transaction.version` 2 tells clients to use KIP-890's protocol.
"""

import re

from fencepost.broker.dispatch import Call, Response, announced, handler
from fencepost.errors import ErrorCode

TRANSACTION_VERSION_MAX = 2

#: KIP-511: what a client may call itself.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
FIRST_WITH_SOFTWARE = 3
FIRST_WITH_FEATURES_FROM_ZERO = 4


@handler(18, versions=(0, 4))
def api_versions(call: Call) -> Response:
    keys = list(announced(call.broker.handlers))
    if call.request is None:
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": keys}
    request = call.request
    names = (request.client_software_name, request.client_software_version)
    if call.version >= FIRST_WITH_SOFTWARE and not all(_SOFTWARE.fullmatch(name) for name in names):
        return {"error_code": ErrorCode.INVALID_REQUEST, "api_keys": []}
    call.session.software = request.client_software_name
    # Clients of version 3 reject a supported range that begins at 0 (KAFKA-17011).
    supported = [{"name": "transaction.version", "min_version": 0, "max_version": TRANSACTION_VERSION_MAX}]
    level = call.broker.settings.transaction_version
    finalized = [{"name": "transaction.version", "max_version_level": level, "min_version_level": level}]
    return {
        "error_code": ErrorCode.NONE,
        "api_keys": keys,
        "supported_features": supported if call.version >= FIRST_WITH_FEATURES_FROM_ZERO else [],
        "finalized_features_epoch": call.broker.topics.catalogue.features_epoch,
        "finalized_features": finalized if level > 0 else [],  # level 0 means that the feature is not there
    }
