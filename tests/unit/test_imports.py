"""Architecture and style as tests: which layer may import which, what stays out of some layers, how long things get."""

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fencepost"

#: What each part of the package may import of the package, beside itself.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "allocator": set(),
    "clock": set(),
    "wording": set(),
    "hosts": set(),
    "setting": {"errors"},
    "wire": {"errors"},
    "metrics": {"errors", "clock", "hosts", "wire"},
    "log": {"errors", "clock", "setting", "wire", "metrics"},
    "coordinator": {"errors", "clock", "setting", "wire", "log", "metrics"},
    "broker": {
        "errors",
        "clock",
        "hosts",
        "setting",
        "wire",
        "security",
        "log",
        "coordinator",
        "metrics",
        "__version__",
    },
    "security": {"errors", "wire"},
    "client": {"errors", "clock", "wire", "security"},
    "formats": {"errors", "client"},
    "dead_letters": {"errors", "wire", "client"},
    "observe": {"errors", "wording", "wire", "client"},
    "lines": {"errors", "wire", "client"},
    "dump": {"errors", "wire", "log", "coordinator"},
    "doctor": {"errors", "wording", "wire", "client", "spark"},
    "manage": {"errors", "wire", "client", "lines", "observe"},
    "spark": {"errors", "allocator", "clock", "wire", "security", "client", "formats", "dead_letters", "metrics"},
    # For people with the base install: of Spark's half only what needs no extra.
    "operate": {"errors", "wire", "client", "observe", "spark"},
    "shop": {"errors", "clock", "wire", "security", "client", "spark", "embedded"},
    "processes": {"errors"},
    "child": {"errors", "processes"},
    "lab": set(),
    "lab/kit": {"errors", "wire", "security", "client", "child", "embedded"},
    "lab/scenarios": {
        "errors",
        "clock",
        "wire",
        "security",
        "client",
        "spark",
        "shop",
        "lab/kit",
        "child",
        "processes",
    },
    # Judges by what clients that we did not write saw, so it knows little of ours.
    "lab/chaos": {"errors", "wire", "security", "client", "lab/kit", "child"},
}
#: The edge of the package: may import all of it, and nothing above may import these.
EDGE = {"__init__", "__main__", "cli", "console", "embedded", "pytest_plugin"}

#: `wire` turns bytes into values and back. It never waits, and never sees a socket, a file or a clock.
NOT_IN_WIRE = {"asyncio", "os", "pathlib", "selectors", "shutil", "socket", "tempfile", "time", "uvloop"}

#: Functions of `os`. The disk comes in through an interface, so that a simulator can lose its power.
NOT_IN_STATE = {
    "fdatasync", "fsync", "open", "pread", "preadv", "pwrite", "pwritev", "rename", "replace", "unlink", "write",
}  # fmt: skip

MAX_MODULE_LINES = 450
MAX_FUNCTION_LINES = 75

MODULES = sorted(PACKAGE.rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def part_of(path: Path) -> str:
    return part(relative(path).removesuffix(".py").removesuffix("/__init__").split("/"))


def part(names: Sequence[str]) -> str:
    """Of a module below the package. The lab's tools and their machinery are parts of their own."""
    return "/".join(names[: 2 if names[0] == "lab" else 1])


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)}:{node.lineno} imports relatively"
            assert node.module is not None
            if node.module == "fencepost":
                yield from (f"fencepost.{alias.name}" for alias in node.names)
            else:
                yield node.module


def every_module(*parts: str, without: str = ""):
    """Of these parts, or of all."""
    chosen = [path for path in MODULES if (not parts or part_of(path) in parts) and relative(path) != without]
    return pytest.mark.parametrize("path", chosen, ids=relative)


@every_module()
def test_imports_go_one_way(path: Path):
    importing = part_of(path)
    if importing in EDGE:
        return
    assert importing in MAY_IMPORT, f"{importing} has no place in the order of imports yet: give it one here"
    for name in imported_modules(path):
        if name.split(".")[0] == "fencepost":
            target = part(name.split(".")[1:] or ["__init__"])
            assert target == importing or target in MAY_IMPORT[importing], f"{relative(path)} must not import {name}"


@every_module("wire")
def test_wire_has_no_sockets_files_or_clocks(path: Path):
    found = {name.split(".")[0] for name in imported_modules(path)} & NOT_IN_WIRE
    assert not found, f"{relative(path)} imports {', '.join(sorted(found))}"


@every_module("log", "coordinator", without="log/disk.py")
def test_the_disk_comes_in_through_its_interface(path: Path):
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            assert node.attr not in NOT_IN_STATE, f"{relative(path)}:{node.lineno} uses os.{node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "open", f"{relative(path)}:{node.lineno} opens a file by itself"


@every_module("log", "coordinator", "broker", "metrics")
def test_time_and_chance_are_handed_in(path: Path):
    """`now` and `later` are the clock's, so that a whole broker runs in virtual time and from a seed."""
    assert "time" not in set(imported_modules(path)), f"{relative(path)} imports time"
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Attribute):
            continue
        owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        where = f"{relative(path)}:{node.lineno}"
        assert not (owner == "asyncio" and node.attr in {"sleep", "timeout", "timeout_at", "wait_for"}), (
            f"{where} uses asyncio.{node.attr}: use fencepost.clock"
        )
        assert owner != "random" or node.attr in {"Random", "SystemRandom"}, f"{where} has dice of its own"
        if node.attr in {"call_later", "call_at"}:
            assert owner.lstrip("_") == "clock", f"{where} calls {owner}.{node.attr}: use fencepost.clock"


@every_module()
def test_a_module_says_what_it_is_for(path: Path):
    assert ast.get_docstring(tree_of(path)), f"{relative(path)} has no docstring"


@every_module()
def test_modules_and_functions_stay_short(path: Path):
    lines = len(path.read_text().splitlines())
    assert lines <= MAX_MODULE_LINES, f"{relative(path)} has {lines} lines"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{relative(path)}:{node.lineno} {node.name} has {length} lines"


@every_module()
def test_nothing_relies_on_assert(path: Path):
    """Peers get error codes, our own bugs raise InvariantBroken; `assert` is gone under -O."""
    for node in ast.walk(tree_of(path)):
        assert not isinstance(node, ast.Assert), f"{relative(path)}:{node.lineno} asserts"


@pytest.mark.parametrize("lock", sorted(ROOT.glob("requirements*.lock")), ids=lambda path: path.name)
def test_a_lock_pins_every_package_by_hash_and_names_no_download_address(lock: Path):
    text = lock.read_text()
    assert "://" not in text
    requirements = re.split(r"(?m)^(?=[a-z])", text)[1:]
    assert requirements
    for requirement in requirements:
        assert re.match(r"[a-z0-9.-]+==\S+", requirement), requirement.splitlines()[0]
        assert "--hash=sha256:" in requirement, requirement.splitlines()[0]
