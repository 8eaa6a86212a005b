"""Loading machine code late, and saying what is missing where it cannot be loaded."""

import subprocess
import sys
import types
from typing import Any

import pytest

from fencepost.client import jit

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
