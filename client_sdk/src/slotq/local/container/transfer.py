"""Transfers between S3 and a training job's /opt/ml: code, channels, artifacts."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from slotq.local.container.archives import Unsafe, below, is_own_file, unpack
from slotq.local.container.workdir import OPT_ML, Host


class JobInputError(Exception):
    """The user's input prevents the job from running. The job ends Failed with `ClientError: …`."""


class Storage:
    """S3 as a training job uses it. Raises Fault with the URI if S3 refuses a call."""

    def __init__(self, s3: Any) -> None:
        self._s3 = s3

    def keys(self, uri: str) -> Iterator[str]:
        """Every key that begins with the URI's prefix."""
        bucket, prefix = split(uri)
        try:
            pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            for page in pages:
                for found in page.get("Contents", ()):
                    yield found["Key"]
        except (BotoCoreError, ClientError) as error:
            raise JobInputError(f"Data download failed: {uri}: {error}") from error

    def read(self, uri: str) -> bytes:
        bucket, key = split(uri)
        try:
            content: bytes = self._s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        except (BotoCoreError, ClientError) as error:
            raise JobInputError(f"Data download failed: {uri}: {error}") from error
        return content

    def fetch(self, bucket: str, key: str, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._s3.download_file(bucket, key, str(to))
        except (BotoCoreError, ClientError) as error:
            raise JobInputError(f"Data download failed: s3://{bucket}/{key}: {error}") from error

    def put(self, file: Path, uri: str) -> None:
        bucket, key = split(uri)
        try:
            self._s3.upload_file(str(file), bucket, key)
        except (Boto3Error, BotoCoreError, ClientError) as error:
            raise JobInputError(f"Artifact upload failed: {uri}: {error}") from error


def split(uri: str) -> tuple[str, str]:
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise JobInputError(f"'{uri}' is not an S3 URI (s3://bucket/key)")
    return bucket, key


def fetch_code(storage: Storage, source: str, host: Host) -> None:
    """Unpack sourcedir.tar.gz into /opt/ml/code, or link the folder of a channel to that path."""
    code = host.root / "code"
    if not source.startswith("s3://"):
        try:
            brought = host.path(source.removeprefix("file://"))
        except ValueError:
            raise JobInputError(f"{source}: code that is not in S3 is below {OPT_ML}") from None
        code.rmdir()
        code.symlink_to(brought)
        return
    try:
        unpack(storage.read(source), code)
    except Unsafe as error:
        raise JobInputError(f"{source}: {error}") from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise JobInputError(f"{source} is not a tar file: {error}") from error


def fetch_channels(storage: Storage, request: Mapping[str, Any], host: Host, place: int) -> None:
    """Download every channel's objects to /opt/ml/input/data/<channel>. `place` is the host's
    index, from 0."""
    count = _host_count(request)
    for channel in request.get("InputDataConfig") or ():
        folder = in_folder(host.root / "input/data", channel["ChannelName"])
        folder.mkdir(parents=True, exist_ok=True)
        source = (channel.get("DataSource") or {}).get("S3DataSource")
        if source is None:
            raise JobInputError(f"channel '{channel['ChannelName']}': the emulator reads S3 only")
        if source.get("S3DataType", "S3Prefix") != "S3Prefix":
            raise JobInputError(
                f"channel '{channel['ChannelName']}': the emulator reads S3Prefix only"
            )
        sharded = source.get("S3DataDistributionType") == "ShardedByS3Key"
        shard = (place, count) if sharded else None
        fetch_prefix(storage, source["S3Uri"], folder, shard=shard)


def fetch_prefix(
    storage: Storage, uri: str, folder: Path, *, shard: tuple[int, int] | None = None
) -> None:
    """Download the objects below a prefix to the folder. `shard`: only those of one host, by its
    index and the number of hosts. Raises JobInputError if there are none."""
    keys = [key for key in storage.keys(uri) if not key.endswith("/")]
    if not keys:
        raise JobInputError(f'Data download failed: no S3 objects found under S3 URL "{uri}"')
    if shard is not None:
        keys = keys[shard[0] :: shard[1]]
    folder.mkdir(parents=True, exist_ok=True)
    for key in keys:
        storage.fetch(split(uri)[0], key, in_folder(folder, _relative(key, split(uri)[1])))


def _host_count(request: Mapping[str, Any]) -> int:
    resources = request["ResourceConfig"]
    groups = resources.get("InstanceGroups") or [resources]
    return sum(int(group.get("InstanceCount", 1)) for group in groups)


def in_folder(folder: Path, name: str) -> Path:
    """The path of a name below the folder. Raises Fault for a path outside."""
    try:
        return below(folder, name)
    except ValueError:
        raise JobInputError(f"'{name}' points outside its folder") from None


def _relative(key: str, prefix: str) -> str:
    """A key's path below a prefix. The prefix may lack a final slash, or be a whole key."""
    folder = prefix if prefix.endswith("/") or not prefix else f"{prefix}/"
    if key.startswith(folder):
        return key[len(folder) :]
    return key[prefix.rfind("/") + 1 :]


def upload_artifacts(storage: Storage, request: Mapping[str, Any], hosts: Sequence[Host]) -> None:
    """Upload /opt/ml/model of all hosts as model.tar.gz (as single files if CompressionType is
    NONE), and /opt/ml/output/data as output.tar.gz."""
    config = request["OutputDataConfig"]
    base = f"{config['S3OutputPath'].rstrip('/')}/{request['TrainingJobName']}/output"
    if config.get("CompressionType") == "NONE":
        for name, file in _files(hosts, "model"):
            storage.put(file, f"{base}/model/{name}")
    else:
        _upload_tar(storage, hosts, "model", f"{base}/model.tar.gz")
    if any(True for _ in _files(hosts, "output/data")):
        _upload_tar(storage, hosts, "output/data", f"{base}/output.tar.gz")


def _upload_tar(storage: Storage, hosts: Sequence[Host], folder: str, uri: str) -> None:
    archive = hosts[0].root.parent / uri.rpartition("/")[2]
    with tarfile.open(archive, "w:gz", compresslevel=1, dereference=True) as tar:
        for name, file in _files(hosts, folder):
            tar.add(file, name)
    storage.put(archive, uri)


def _files(hosts: Iterable[Host], folder: str) -> Iterator[tuple[str, Path]]:
    """The files of all hosts. If two hosts have a file of the same name, the first host's
    counts."""
    taken: set[str] = set()
    for host in hosts:
        base = host.root / folder
        for file in sorted(base.rglob("*")):
            name = file.relative_to(base).as_posix()
            if is_own_file(file, host.root) and name not in taken:
                taken.add(name)
                yield name, file
