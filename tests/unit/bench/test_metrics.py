"""The broker that does not count is the same broker without the statements that count."""

import subprocess
import sys
from pathlib import Path

from bench import metrics


def test_what_counts_is_taken_out_and_the_rest_still_runs(tmp_path: Path) -> None:
    copy = metrics.without_counting(tmp_path)
    for module, statements in metrics.COUNTING.items():
        text = (copy / "fencepost" / module).read_text()
        assert not any(statement in text for statement in statements)
    imported = "import fencepost.broker.connection as c; print(c.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", imported], env={"PYTHONPATH": str(copy)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(copy))
