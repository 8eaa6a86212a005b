"""A history survives being killed in the middle of a line."""

from pathlib import Path

from fencepost.lab.chaos.history import Function, Recorder, Status, load


def test_what_was_logged_is_read_again_in_order_of_time(tmp_path: Path):
    first, second = Recorder(tmp_path, "p1", 1), Recorder(tmp_path, "r1", 2)
    written = [
        first.log(Function.TXN, Status.INVOKE, number=1, writes=[["a", 0, "x1"]]),
        second.log(Function.POLL, Status.OK, session=1, records=[]),
        first.log(Function.TXN, Status.OK, number=1, acked={"x1": 3}),
    ]
    assert load(tmp_path) == written
    assert [op.client for op in load(tmp_path)] == ["p1.1", "r1.2", "p1.1"]


def test_a_line_that_a_kill_cut_short_is_not_read(tmp_path: Path):
    written = Recorder(tmp_path, "p1").log(Function.END, Status.INVOKE, number=1, how="commit")
    with (tmp_path / "p1.1.jsonl").open("ab") as file:
        file.write(b'{"t":5,"f":"tx')
    assert load(tmp_path) == [written]
