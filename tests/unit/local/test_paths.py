"""Names chosen by others stay below their folder: keys, channels, archives, links."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slotq.local.container import transfer
from slotq.local.container.archives import Unsafe, below, is_own_file, unpack
from slotq.local.container.checkpoints import Checkpoints
from slotq.local.container.transfer import JobInputError, Storage, fetch_channels, fetch_code
from slotq.local.container.workdir import Host, lay_out

INSIDE = {
    "a/b": "a/b",
    "/etc/passwd": "etc/passwd",
    "a//b": "a/b",
    "a/../b": "b",
    ".": "",
    "...": "...",
}


@pytest.mark.parametrize(("name", "path"), INSIDE.items())
def test_a_name_below_the_folder_is_allowed(name: str, path: str, tmp_path: Path) -> None:
    assert below(tmp_path, name) == tmp_path / path


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "/../x", "a/..//../x", "nul\0"])
def test_a_name_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="points outside"):
        below(tmp_path, name)


class Bucket:
    """S3 with the calls that `Storage` makes. Each object's content is its key."""

    def __init__(self, *keys: str, content: Mapping[str, bytes] = {}) -> None:
        self.objects = {key: key.encode() for key in keys} | dict(content)
        self.put: dict[str, bytes] = {}

    def get_paginator(self, _: str) -> Bucket:
        return self

    def paginate(self, *, Prefix: str, **_: Any) -> list[dict[str, Any]]:  # noqa: N803
        found = [{"Key": key} for key in self.objects if key.startswith(Prefix)]
        return [{"Contents": found}]

    def get_object(self, *, Key: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        return {"Body": io.BytesIO(self.objects[Key])}

    def download_file(self, _: str, key: str, to: str) -> None:
        Path(to).write_bytes(self.objects[key])

    def upload_file(self, file: str, _: str, key: str) -> None:
        self.put[key] = Path(file).read_bytes()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A folder for one job. Any file beside it has escaped."""
    made = Host(name="algo-1", root=tmp_path / "job/algo-1/ml", isolated=True)
    lay_out(made, REQUEST)
    return made


REQUEST = {
    "TrainingJobName": "job",
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
    "OutputDataConfig": {"S3OutputPath": "s3://b/out"},
}


def channel(name: str, uri: str) -> dict[str, Any]:
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}}
    return {**REQUEST, "InputDataConfig": [{"ChannelName": name, "DataSource": source}]}


@pytest.mark.parametrize(
    ("key", "name"),
    [("data/../../../../../../out", "train"), ("data/x", ".."), ("data/x", "..//..")],
)
def test_a_channel_stays_in_its_folder(key: str, name: str, host: Host, tmp_path: Path) -> None:
    with pytest.raises(JobInputError, match="points outside"):
        fetch_channels(Storage(Bucket(key)), channel(name, "s3://b/data/"), host, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


def test_a_key_with_a_double_slash_is_not_an_absolute_path(host: Host, tmp_path: Path) -> None:
    key = f"data/{tmp_path}/out"
    fetch_channels(Storage(Bucket(key)), channel("train", "s3://b/data/"), host, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["job"]
    assert (host.root / f"input/data/train{tmp_path}/out").is_file()


@pytest.mark.parametrize("local", ["/opt/ml/../../out", "/opt/ml/a/../../x", "/opt/ml/..", "/out"])
def test_checkpoints_stay_below_opt_ml(local: str, host: Host) -> None:
    with pytest.raises(JobInputError, match="below /opt/ml only"):
        Checkpoints(Storage(Bucket()), {"S3Uri": "s3://b/c", "LocalPath": local}, host)


def test_checkpoints_are_restored_into_their_folder(host: Host) -> None:
    kept = Checkpoints(Storage(Bucket("c/../../../x")), {"S3Uri": "s3://b/c"}, host)
    with pytest.raises(JobInputError, match="points outside"):
        kept.restore()


@pytest.mark.parametrize("source", ["/opt/ml/../../etc", "/etc", "file:///opt/ml/input/../../x"])
def test_code_stays_below_opt_ml(source: str, host: Host) -> None:
    with pytest.raises(JobInputError, match="below /opt/ml"):
        fetch_code(Storage(Bucket()), source, host)
    assert (host.root / "code").is_dir()


def packed(*members: tuple[str, str, bytes]) -> bytes:
    """A tar.gz of (name, link target or '', content)."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, leads, content in members:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o4777
            if leads:
                hard = leads.startswith("hard:")
                entry.type = tarfile.LNKTYPE if hard else tarfile.SYMTYPE
                entry.linkname = leads.removeprefix("hard:")
            tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()


UNSAFE = [
    ("a member above", [("../out", "", b"x")]),
    ("a member beside", [("a/../../out", "", b"x")]),
    ("a link to a file of this machine", [("l", "/etc/passwd", b"")]),
    ("a link above", [("a/l", "../../out", b"")]),
    ("a hard link above", [("l", "hard:../out", b"")]),
    ("a link to all of it", [("a/x", "", b"x"), ("a/l", "..", b"")]),
]


@pytest.mark.parametrize(("what", "members"), UNSAFE, ids=[row[0] for row in UNSAFE])
def test_an_archive_that_leads_out_is_refused(
    what: str, members: list[tuple[str, str, bytes]], host: Host, tmp_path: Path
) -> None:
    with pytest.raises(JobInputError, match=r"code\.tar\.gz: "):
        fetch_code(
            Storage(Bucket(content={"code.tar.gz": packed(*members)})), "s3://b/code.tar.gz", host
        )
    assert [path.name for path in tmp_path.iterdir()] == ["job"]
    with pytest.raises(Unsafe):
        unpack(packed(*members), host.root / "code")


def test_links_within_an_archive_are_followed(tmp_path: Path) -> None:
    unpack(
        packed(
            ("second", "first", b""),
            ("first", "pkg/train.py", b""),
            ("pkg/train.py", "", b"print()"),
            ("alias", "pkg", b""),
            ("hard", "hard:pkg/train.py", b""),
            ("nowhere", "missing", b""),
            ("/abs.py", "", b"1"),
        ),
        tmp_path,
    )
    found = {p.relative_to(tmp_path).as_posix(): p for p in tmp_path.rglob("*") if p.is_file()}
    wanted = {"first", "second", "hard", "pkg/train.py", "alias/train.py", "abs.py"}
    assert found.keys() == wanted
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]
    assert (tmp_path / "pkg/train.py").stat().st_mode & 0o7777 == 0o755


def test_files_outside_the_folder_are_not_uploaded(host: Host, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for folder in ("model", "checkpoints", "output/data"):
        (host.root / folder / "own").write_text("own")
        (host.root / folder / "alias").symlink_to("own")
        (host.root / folder / "taken").symlink_to(secret)
        (host.root / folder / "all").symlink_to(tmp_path)
        os.mkfifo(host.root / folder / "pipe")
    (host.root / "output/failure").symlink_to(secret)
    bucket = Bucket()
    loose = {**REQUEST, "OutputDataConfig": {"S3OutputPath": "s3://b/o", "CompressionType": "NONE"}}
    transfer.upload_artifacts(Storage(bucket), loose, [host])
    Checkpoints(Storage(bucket), {"S3Uri": "s3://b/c"}, host).sync(last=True)
    tar = bucket.put.pop("o/job/output/output.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        assert sorted(opened.getnames()) == ["alias", "own"]
    assert bucket.put == {
        f"{place}/{name}": b"own"
        for place in ("o/job/output/model", "c")
        for name in ("own", "alias")
    }
    assert host.failure == ""


def test_only_a_regular_file_within_the_folder_is_a_jobs_own(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert not is_own_file(tmp_path / "loop", tmp_path)
    assert not is_own_file(tmp_path / "missing", tmp_path)
