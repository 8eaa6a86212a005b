"""Files between encoders and writers: what goes in comes out, and nothing stays behind."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.encode import Blob
from fencepost.errors import WriteFailed
from fencepost.spark.sink.spool import LOCK, PREFIX, SpoolDirectory, SpoolReader, SpoolWriter


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[SpoolDirectory]:
    made = SpoolDirectory(str(tmp_path))
    yield made
    made.close()


def blobs(count: int, size: int = 1000) -> list[Blob]:
    return [Blob("invoices", number % 3, bytes([number]) * (size + number), number) for number in range(1, count + 1)]


def test_blobs_of_several_tasks_come_back_as_they_were(directory: SpoolDirectory) -> None:
    with directory.job() as spool:
        given, places = [blobs(5), blobs(40), blobs(1, 3_000_000)], []
        for number, some in enumerate(given):
            writer = SpoolWriter(spool, number)
            places += [writer.add(blob) for blob in some]
            writer.close()
        assert all(len(blob.data) < 30 for blob in places)
        reader = SpoolReader(spool)
        found = [reader.find(blob) for blob in reversed(places)]
    # They are valid although the files are gone.
    expected = [blob for some in given for blob in some]
    assert [(blob.topic, blob.partition, bytes(blob.data), blob.records) for blob in reversed(found)] == [
        (blob.topic, blob.partition, blob.data, blob.records) for blob in expected
    ]


def test_the_files_of_a_job_end_with_it_and_the_directory_with_its_driver(
    directory: SpoolDirectory, tmp_path: Path
) -> None:
    with directory.job() as spool:
        writer = SpoolWriter(spool, 1)
        writer.add(blobs(1)[0])
        writer.close()
        assert spool.path(1).exists()
    assert not spool.path(1).parent.exists()
    assert [*tmp_path.iterdir()]
    directory.close()
    assert not [*tmp_path.iterdir()]


def test_what_a_killed_driver_left_is_deleted_by_the_next_and_what_a_living_one_has_is_not(
    directory: SpoolDirectory, tmp_path: Path
) -> None:
    left = tmp_path / f"{PREFIX}of-a-killed-driver"
    (left / "7").mkdir(parents=True)
    (left / "7" / "1").write_bytes(b"record batches")
    (left / LOCK).touch()
    other = tmp_path / "of somebody else"
    other.mkdir()
    with directory.job() as spool:
        SpoolDirectory(str(tmp_path)).close()
        assert not left.exists()
        assert other.exists()
        assert Path(spool.directory).exists()


def test_a_task_that_writes_nothing_makes_no_file(directory: SpoolDirectory) -> None:
    with directory.job() as spool:
        SpoolWriter(spool, 1).close()
        assert not [*Path(spool.directory).iterdir()]


def test_a_file_that_is_gone_is_named(directory: SpoolDirectory) -> None:
    with directory.job() as spool:
        writer = SpoolWriter(spool, 1)
        place = writer.add(blobs(1)[0])
        writer.close()
        spool.path(1).unlink()
        with pytest.raises(WriteFailed, match=f"{spool.path(1)} are gone"):
            SpoolReader(spool).find(place)


def test_a_full_disk_is_named(directory: SpoolDirectory) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with directory.job() as spool:
        writer = SpoolWriter(spool, 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, limits[1]))
        try:
            writer.add(blobs(1)[0])
            with pytest.raises(WriteFailed, match=r"spark\.local\.dir"):
                writer.add(blobs(1)[0])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            writer.close()
