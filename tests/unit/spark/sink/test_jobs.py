"""What tasks say: their errors, and what they wrote."""

from fencepost.errors import BatchFailed, Fenced, GaveUp, TopicNotFound, WriteFailed
from fencepost.spark.sink.jobs import _as_error, known_error


def test_a_writers_error_keeps_its_class() -> None:
    assert isinstance(_as_error("Fenced", "told so"), Fenced)
    assert isinstance(_as_error("WriteFailed", "told so"), WriteFailed)
    assert isinstance(_as_error("BootstrapFailed", "told so"), WriteFailed)
    assert "told so" in str(_as_error("NoSuchClass", "told so"))


def test_an_error_of_a_task_is_found_in_sparks_account_of_it() -> None:
    account = "Job aborted ...\n  File ...\nfencepost.errors.TopicNotFound: there is no topic 'x'\n\n\tat org.apache..."
    found = known_error(Exception(account))
    assert isinstance(found, TopicNotFound)
    assert str(found) == "there is no topic 'x'"
    assert isinstance(known_error(Exception("fencepost.errors.WriteFailed: no")), BatchFailed)
    assert isinstance(
        known_error(Exception("x\nfencepost.errors.Refused: INVALID_TOPIC_EXCEPTION: 'a/b'\n")), BatchFailed
    )
    assert isinstance(known_error(Exception("fencepost.errors.GaveUp: 60 s")), GaveUp)
    assert known_error(Exception("java.lang.OutOfMemoryError")) is None
