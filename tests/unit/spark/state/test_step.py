"""What a stateful step may be."""

import pytest

from fencepost.errors import ConfigError
from fencepost.spark.state import Keyed, StatefulStep, Updated


def update(given: Keyed) -> Updated:
    return Updated(given.old)


@pytest.mark.parametrize("retention", ["0", "7199999", "-1", "a day"])
def test_a_changelog_that_forgets_removed_keys_too_soon_is_refused(retention: str) -> None:
    with pytest.raises(ConfigError, match=r"delete\.retention\.ms must be at least 7200000 \(two hours\), not"):
        StatefulStep("totals", ("k",), "n long", update, configs={"delete.retention.ms": retention})


def test_other_settings_of_the_changelog_are_the_users() -> None:
    configs = {"delete.retention.ms": "7200000", "segment.ms": "600000"}
    assert StatefulStep("totals", ("k",), "n long", update, configs=configs).configs == configs
