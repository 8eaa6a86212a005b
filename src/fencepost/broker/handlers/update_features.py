"""UpdateFeatures (57): the level of `transaction.version`, the only feature that can be at more than one level here.

All updates of a request take effect or none does. Versions 0 and 1 answer for each feature, version 2 only as a whole.
"""

from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.outcome import DONE, refused
from fencepost.broker.settings import BROKER_SETTINGS
from fencepost.errors import ErrorCode, KafkaError

TRANSACTION_VERSION = "transaction.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@handler(57, versions=(0, 2))
def update_features(call: Call) -> Response:
    request, topics = call.request, call.broker.topics
    try:
        call.require(Operation.ALTER, Resource.CLUSTER)
        for update in request.feature_updates:
            _check(call, update)
        if not request.validate_only:
            for update in request.feature_updates:
                topics.set_feature(update.feature, update.max_version_level)
    except KafkaError as error:
        return refused(error)
    return {**DONE, "results": [{"feature": update.feature, **DONE} for update in request.feature_updates]}


def _check(call: Call, update: Any) -> None:
    level, node_id = update.max_version_level, call.broker.node_id
    limits = BROKER_SETTINGS[TRANSACTION_VERSION]
    downgrades_allowed = update.allow_downgrade or update.upgrade_type in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
    if level < 0:
        problem = "A feature version cannot be less than 0."
    elif update.feature != TRANSACTION_VERSION:
        problem = f"Local controller {node_id} does not support this feature."
    elif update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        problem = "The controller does not support the given upgrade type."
    elif not (limits.low or 0) <= level <= (limits.high or 0):
        problem = f"Local controller {node_id} only supports versions {limits.low}-{limits.high}"
    elif level < call.broker.settings.transaction_version and not downgrades_allowed:
        problem = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    else:
        return
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {level} for feature {update.feature}. {problem}",
    )
