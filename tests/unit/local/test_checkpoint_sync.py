"""Checkpoints go to S3 while the job runs, also those that are never left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slotq.local.container.transfer import Checkpoints, Storage
from slotq.local.container.workdir import Host


class Bucket:
    """S3 that keeps what each upload brought."""

    def __init__(self) -> None:
        self.puts: list[tuple[str, bytes]] = []

    def upload_file(self, file: str, _: str, key: str) -> None:
        self.puts.append((key, Path(file).read_bytes()))


class World:
    def __init__(self, tmp: Path) -> None:
        self.bucket = Bucket()
        self.folder = tmp / "algo-1/ml/checkpoints"
        self.folder.mkdir(parents=True)
        self.host = Host(name="algo-1", root=tmp / "algo-1/ml", isolated=True)
        self.kept = Checkpoints(self._storage, {"S3Uri": "s3://b/c"}, self.host)

    @property
    def _storage(self) -> Storage:
        s3: Any = self.bucket
        return Storage(s3)

    def write(self, text: str) -> None:
        (self.folder / "state").write_text(text)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_file_goes_up_once_it_is_left_alone(world: World) -> None:
    world.write("a")
    world.kept.sync()
    assert world.bucket.puts == []
    world.kept.sync()
    world.kept.sync()
    assert world.bucket.puts == [("c/state", b"a")]


def test_a_file_that_changes_all_the_time_goes_up_now_and_then(world: World) -> None:
    for n in range(50):
        world.write("x" * n)
        world.kept.sync()
    assert 4 <= len(world.bucket.puts) <= 6


def test_what_is_uploaded_is_a_copy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload that reads the file while a script writes it waits for bytes that never come."""
    upload = world.bucket.upload_file

    def shrinks(file: str, bucket: str, key: str) -> None:
        world.write("")
        upload(file, bucket, key)

    monkeypatch.setattr(world.bucket, "upload_file", shrinks)
    world.write("whole")
    world.kept.sync(last=True)
    assert world.bucket.puts == [("c/state", b"whole")]
    world.kept.sync(last=True)
    assert world.bucket.puts[1:] == [("c/state", b"")]


def test_nothing_is_removed_from_s3(world: World) -> None:
    world.write("a")
    world.kept.sync(last=True)
    (world.folder / "state").unlink()
    world.kept.sync(last=True)
    assert world.bucket.puts == [("c/state", b"a")]
