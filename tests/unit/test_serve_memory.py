"""A broker's process reuses the memory of its buffers."""

import platform
import subprocess
import sys

import pytest

#: Two buffers at a time, as requests and answers need; prints how many pages the system had to give meanwhile.
BUFFERS = """
import resource
from fencepost.allocator import keep_freed_memory
from fencepost.cli.serve import KEPT_BYTES, REUSED_BYTES
keep_freed_memory(KEPT_BYTES, REUSED_BYTES)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for count in (10, 1000):
    before = faults()
    for _ in range(count):
        pair = bytes(bytearray(4096 * 1024)), bytes(bytearray(256 * 1024))
        del pair
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's setting")
def test_buffers_that_come_and_go_need_no_new_pages() -> None:
    done = subprocess.run([sys.executable, "-c", BUFFERS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1000
