"""The commands start fast and with the base install: nothing that they use needs an extra."""

import subprocess
import sys

#: Packages of the extras.
EXTRAS = ("confluent_kafka", "lmdb", "numba", "numpy", "pandas", "pyarrow", "pyspark", "rich")
PROBE = f"""
import sys
from click.testing import CliRunner
import fencepost.operate.delete, fencepost.operate.overview, fencepost.cli.pipeline_text
import fencepost.observe.aborting, fencepost.observe.watching, fencepost.cli.tx_text, fencepost.cli.tx_json
from fencepost.cli.main import main
done = CliRunner().invoke(main, ["pipeline", "ls", "-b", "127.0.0.1:1"])
assert "no broker answers" in done.stderr, done.output
assert CliRunner().invoke(main, ["pipeline", "reset", "-h"]).exit_code == 0
assert CliRunner().invoke(main, ["tx", "why", "-h"]).exit_code == 0
print([name for name in {EXTRAS!r} if name in sys.modules])
"""


def test_no_package_of_an_extra_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
