"""Loading machine code late or compiling it early, and saying what is missing where it cannot be loaded."""

import fcntl
import os
import shutil
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from fencepost.client import compiling, jit

LIGHT = ("admin", "cluster", "groups", "offsets", "transaction", "writing")


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_needs_no_columns_imports_neither_arrow_nor_numba():
    imports = ", ".join(f"fencepost.client.{name}" for name in LIGHT)
    heavy = "{'numba', 'numpy', 'pyarrow'}"
    assert run(f"import sys, {imports}; print({heavy} & set(sys.modules))") == "set()"


def test_a_missing_numba_says_what_to_install():
    program = """
import sys
sys.modules["numba"] = None
from fencepost.client import jit
from fencepost.errors import KernelsUnavailable
try:
    jit.load("client.decode_kernels")
except KernelsUnavailable as error:
    print(error)
"""
    assert "pip install 'fencepost[client]'" in run(program)


def test_code_is_compiled_for_this_process_alone_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch):
    asked = []

    def njit(signature: Any, *, cache: bool = False, **options: Any) -> Any:
        asked.append((cache, options))
        if cache:
            raise RuntimeError("cannot cache function 'f': no locator available for file 'x'")
        return lambda function: function

    monkeypatch.setitem(sys.modules, "numba", types.SimpleNamespace(njit=njit))
    assert jit.compiled("void()")(len) is len
    assert asked == [(True, jit.OPTIONS), (False, jit.OPTIONS)]


def test_other_failures_of_the_compiler_are_not_hidden(monkeypatch: pytest.MonkeyPatch):
    def njit(*_: Any, **__: Any) -> Any:
        raise RuntimeError("something else")

    monkeypatch.setitem(sys.modules, "numba", types.SimpleNamespace(njit=njit))
    with pytest.raises(RuntimeError, match="something else"):
        jit.compiled("void()")(len)


def test_kernels_are_loaded_once():
    assert jit.load("client.encode_kernels") is jit.load("client.encode_kernels")


def test_all_kernels_are_named():
    found = jit.PACKAGE.rglob("*_kernels.py")
    assert sorted(jit.KERNELS) == sorted(
        ".".join(path.relative_to(jit.PACKAGE).with_suffix("").parts) for path in found
    )


def test_what_was_compiled_before_a_change_of_its_file_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in jit.KERNELS:
        jit.load(name)
    assert compiling.is_done()
    shutil.copytree(jit.PACKAGE, tmp_path / "fencepost")
    monkeypatch.setattr(jit, "PACKAGE", tmp_path / "fencepost")
    assert compiling.is_done()
    changed = jit.PACKAGE / "client" / "encode_kernels.py"
    os.utime(changed, (time.time() + 60, time.time() + 60))
    assert not compiling.is_done()


def test_a_process_waits_while_another_loads_the_same_kernels():
    name = jit.KERNELS[-1]
    with (jit.cache_of(name) / f"{name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        program = f"from fencepost.client import jit; jit.load({name!r})"
        other = subprocess.Popen([sys.executable, "-c", program])
        deadline_s = time.monotonic() + 60
        while not _waits_for_a_lock(other.pid):
            assert other.poll() is None and time.monotonic() < deadline_s
    assert other.wait(60) == 0


def _waits_for_a_lock(process_id: int) -> bool:
    held = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and f" {process_id} " in line for line in held)
