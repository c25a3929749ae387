"""Checkpoints go to S3 while the job runs, also those that are never left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotq.local.container.checkpoints import UPLOADED, UPLOADING, Checkpoints
from slotq.local.container.transfer import Storage
from slotq.local.container.workdir import Host

SEEDS = [str(number) for number in range(40)]
MARKERS = (UPLOADING, UPLOADED)


class Bucket:
    """S3 that keeps what each upload brought."""

    def __init__(self) -> None:
        self.puts: list[tuple[str, bytes]] = []

    def upload_file(self, file: str, _: str, key: str) -> None:
        self.puts.append((key, Path(file).read_bytes()))


class World:
    def __init__(self, tmp: Path, seed: str) -> None:
        self.bucket = Bucket()
        self.folder = tmp / "algo-1/ml/checkpoints"
        self.folder.mkdir(parents=True)
        self.host = Host(name="algo-1", root=tmp / "algo-1/ml", isolated=True)
        self.kept = Checkpoints(self._storage, {"S3Uri": "s3://b/c"}, self.host, seed=seed)

    @property
    def _storage(self) -> Storage:
        s3: Any = self.bucket
        return Storage(s3)

    def write(self, text: str, name: str = "state") -> None:
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(text)

    @property
    def puts(self) -> list[tuple[str, bytes]]:
        """The uploads of the job's own files."""
        return [put for put in self.bucket.puts if not put[0].endswith(MARKERS)]

    @property
    def markers(self) -> set[str]:
        """The markers that are there."""
        files = (path.relative_to(self.folder) for path in self.folder.rglob("*.sagemaker-*"))
        return {file.as_posix() for file in files}


@pytest.fixture(params=SEEDS[:8])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    return World(tmp_path, request.param)


def test_a_file_goes_up_once_it_is_left_alone(world: World) -> None:
    world.write("a")
    world.kept.sync()
    assert world.puts == []
    world.kept.sync()
    world.kept.sync()
    assert world.puts == [("c/state", b"a")]


def test_a_file_that_changes_all_the_time_goes_up_now_and_then(world: World) -> None:
    for n in range(50):
        world.write("x" * n)
        world.kept.sync()
    assert 4 <= len(world.puts) <= 6


def test_what_is_uploaded_is_a_copy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload that reads the file while a script writes it waits for bytes that never come."""
    upload = world.bucket.upload_file

    def shrinks(file: str, bucket: str, key: str) -> None:
        if key == "c/state":
            world.write("")
        upload(file, bucket, key)

    monkeypatch.setattr(world.bucket, "upload_file", shrinks)
    world.write("whole")
    world.kept.sync(last=True)
    assert world.puts == [("c/state", b"whole")]
    world.kept.sync(last=True)
    assert world.puts[1:] == [("c/state", b"")]


def test_nothing_is_removed_from_s3(world: World) -> None:
    world.write("a")
    world.kept.sync(last=True)
    (world.folder / "state").unlink()
    world.kept.sync(last=True)
    assert world.puts == [("c/state", b"a")]


def rounds(world: World) -> Iterator[set[str]]:
    """The markers after each round of two saves, one of them in a folder of its own."""
    for round_ in range(12):
        if round_ in {0, 5}:
            world.write(str(round_))
            world.write(str(round_), "inner/state")
        world.kept.sync()
        yield world.markers


def test_markers_come_and_go_in_many_ways(tmp_path: Path) -> None:
    """Nobody knows which way is SageMaker's."""
    stories, copied = set(), set()
    for seed in SEEDS:
        world = World(tmp_path / seed, seed)
        story = tuple(frozenset(markers) for markers in rounds(world))
        stories.add(story)
        copied.add(any(key.endswith(MARKERS) for key, _ in world.bucket.puts))
        assert len(world.puts) == 4, "whatever the markers do, each file goes up once a save"
        again = World(tmp_path / seed / "again", seed)
        assert tuple(frozenset(markers) for markers in rounds(again)) == story
        world.kept.sync(last=True)
        assert world.markers == set()
    assert len(stories) > len(SEEDS) / 2
    assert copied == {False, True}
    kinds = {file.rpartition(".")[2] for story in stories for here in story for file in here}
    assert kinds == {"sagemaker-uploading", "sagemaker-uploaded"}
    assert any("inner/" in file for story in stories for here in story for file in here)
    before = {story for story in stories if story[0]}
    assert before, "some mark a file before it has settled"
    assert stories - before


@pytest.mark.parametrize("ending", MARKERS)
def test_a_file_of_the_jobs_own_is_never_taken_for_a_marker(world: World, ending: str) -> None:
    world.write("a")
    world.write("mine", f"state{ending}")
    for _ in range(9):
        world.kept.sync()
    world.kept.sync(last=True)
    assert (world.folder / f"state{ending}").read_text() == "mine"
    assert (f"c/state{ending}", b"mine") in world.bucket.puts


def test_a_file_renamed_while_it_is_marked_goes_up_under_its_new_name(world: World) -> None:
    for round_ in range(9):
        unfinished = world.folder / "unfinished"
        unfinished.mkdir()
        world.write(str(round_), "unfinished/state")
        world.kept.sync()
        unfinished.rename(world.folder / f"save-{round_}")
        world.kept.sync()
        world.kept.sync()
    found = dict(world.bucket.puts)
    assert [found[f"c/save-{round_}/state"] for round_ in range(9)] == [b"%d" % n for n in range(9)]
    twice = [key for key, _ in world.bucket.puts if key.count(".sagemaker-") > 1]
    assert twice == [], "no marker is marked"
