from pathlib import Path

import pytest

from fencepost.errors import Malformed, Unsupported
from fencepost.spark.checkpoint import local, local_path, parse_ends

SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}'


@pytest.mark.parametrize(
    ("lines", "ends"),
    [
        (["v1", SETTINGS], {}),
        (["v1", SETTINGS, '{"in":{"0":5}}'], {"0": '{"in":{"0":5}}'}),
        (["v1", SETTINGS, "-", "7"], {"1": "7"}),
        (["v1", "", '{"in":{"0":5}}'], {"0": '{"in":{"0":5}}'}),
        (["v2", SETTINGS, 'b:{"in":{"0":5}}', "a:-"], {"b": '{"in":{"0":5}}'}),
    ],
)
def test_the_ends_of_a_batch_are_read_in_both_versions(lines: list[str], ends: dict[str, str]) -> None:
    assert parse_ends("\n".join(lines), "offsets/0") == ends


@pytest.mark.parametrize(
    ("text", "error"),
    [("", Malformed), ("{}", Malformed), ("v1", Malformed), ("v2\n\nno source", Malformed), ("v3\n{}", Unsupported)],
)
def test_a_log_that_cannot_be_read_is_an_error_that_names_the_file(text: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="offsets/4"):
        parse_ends(text, "offsets/4")


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/data/checkpoint", "/data/checkpoint"),
        ("checkpoint", "checkpoint"),
        ("file:/data/a b%20c", "/data/a b%20c"),
        ("file:///data/x", "/data/x"),
        ("s3a://bucket/x", None),
        ("hdfs://name/x", None),
        ("dbfs:/x", None),
    ],
)
def test_a_local_checkpoint_is_told_by_its_scheme(root: str, path: str | None) -> None:
    assert local_path(root) == (None if path is None else Path(path))


def test_a_checkpoint_tells_its_query_its_batches_and_its_state(tmp_path: Path) -> None:
    checkpoint = local(f"file:{tmp_path}")
    assert checkpoint.query_id is None
    assert checkpoint.ends(0) is None
    assert checkpoint.ends(-1) is None
    for name in ("offsets", "commits", "sources/0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "metadata").write_text('{"id":"6c7c0cc5-b4a0-4d39-b3f8-4d3a1f6f4cf1"}')
    (tmp_path / "offsets/3").write_text(f"v1\n{SETTINGS}\n5")
    (tmp_path / "commits/2").write_text("v1\n{}")
    (tmp_path / "sources/0/0").write_bytes(b'\0v1\n{"in":{"0":2}}')
    assert checkpoint.query_id == "6c7c0cc5-b4a0-4d39-b3f8-4d3a1f6f4cf1"
    assert checkpoint.ends(3) == {"0": "5"}
    assert (checkpoint.is_done(2), checkpoint.is_done(3)) == (True, False)
    assert checkpoint.beginning("0") == '{"in":{"0":2}}'
    assert checkpoint.beginning("1") is None
    assert not checkpoint.has_state
    (tmp_path / "state").mkdir()
    assert checkpoint.has_state
    (tmp_path / "metadata").write_text("{}")
    with pytest.raises(Malformed, match="query id"):
        assert checkpoint.query_id
