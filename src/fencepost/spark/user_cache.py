"""The cache directory of this user: `$XDG_CACHE_HOME/fencepost`, or `~/.cache/fencepost`."""

import os
from collections.abc import Mapping
from pathlib import Path


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    given = environment.get("XDG_CACHE_HOME")
    return (Path(given) if given and Path(given).is_absolute() else Path.home() / ".cache") / "fencepost"
