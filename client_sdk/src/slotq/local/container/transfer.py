"""Transfers between S3 and a training job's /opt/ml: code, channels, checkpoints, artifacts."""

from __future__ import annotations

import shutil
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from slotq.local.container.archives import Unsafe, unpack
from slotq.local.container.paths import below, is_own_file
from slotq.local.container.workdir import OPT_ML, Host

Signature = tuple[int, int]
"""A file's modification time and size."""


class Fault(Exception):
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
            raise Fault(f"Data download failed: {uri}: {error}") from error

    def read(self, uri: str) -> bytes:
        bucket, key = split(uri)
        try:
            content: bytes = self._s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        except (BotoCoreError, ClientError) as error:
            raise Fault(f"Data download failed: {uri}: {error}") from error
        return content

    def fetch(self, bucket: str, key: str, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._s3.download_file(bucket, key, str(to))
        except (BotoCoreError, ClientError) as error:
            raise Fault(f"Data download failed: s3://{bucket}/{key}: {error}") from error

    def put(self, file: Path, uri: str) -> None:
        bucket, key = split(uri)
        try:
            self._s3.upload_file(str(file), bucket, key)
        except (Boto3Error, BotoCoreError, ClientError) as error:
            raise Fault(f"Artifact upload failed: {uri}: {error}") from error


def split(uri: str) -> tuple[str, str]:
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise Fault(f"'{uri}' is not an S3 URI (s3://bucket/key)")
    return bucket, key


def fetch_code(storage: Storage, source: str, host: Host) -> None:
    """Unpack sourcedir.tar.gz into /opt/ml/code, or link the folder of a channel to that path."""
    code = host.root / "code"
    if not source.startswith("s3://"):
        try:
            brought = host.path(source.removeprefix("file://"))
        except ValueError:
            raise Fault(f"{source}: code that is not in S3 is below {OPT_ML}") from None
        code.rmdir()
        code.symlink_to(brought)
        return
    try:
        unpack(storage.read(source), code)
    except Unsafe as error:
        raise Fault(f"{source}: {error}") from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Fault(f"{source} is not a tar file: {error}") from error


def fetch_channels(storage: Storage, request: Mapping[str, Any], host: Host, place: int) -> None:
    """Download every channel's objects to /opt/ml/input/data/<channel>. `place` is the host's
    index, from 0."""
    count = _host_count(request)
    for channel in request.get("InputDataConfig") or ():
        folder = _below(host.root / "input/data", channel["ChannelName"])
        folder.mkdir(parents=True, exist_ok=True)
        source = (channel.get("DataSource") or {}).get("S3DataSource")
        if source is None:
            raise Fault(f"channel '{channel['ChannelName']}': the emulator reads S3 only")
        if source.get("S3DataType", "S3Prefix") != "S3Prefix":
            raise Fault(f"channel '{channel['ChannelName']}': the emulator reads S3Prefix only")
        uri = source["S3Uri"]
        keys = [key for key in storage.keys(uri) if not key.endswith("/")]
        if not keys:
            raise Fault(f'Data download failed: no S3 objects found under S3 URL "{uri}"')
        if source.get("S3DataDistributionType") == "ShardedByS3Key":
            keys = keys[place::count]
        for key in keys:
            storage.fetch(split(uri)[0], key, _below(folder, _relative(key, split(uri)[1])))


def _host_count(request: Mapping[str, Any]) -> int:
    resources = request["ResourceConfig"]
    groups = resources.get("InstanceGroups") or [resources]
    return sum(int(group.get("InstanceCount", 1)) for group in groups)


def _below(folder: Path, name: str) -> Path:
    try:
        return below(folder, name)
    except ValueError:
        raise Fault(f"'{name}' points outside its folder") from None


def _relative(key: str, prefix: str) -> str:
    """A key's path below a prefix. The prefix may lack a final slash, or be a whole key."""
    folder = prefix if prefix.endswith("/") or not prefix else f"{prefix}/"
    if key.startswith(folder):
        return key[len(folder) :]
    return key[prefix.rfind("/") + 1 :]


_MOST_SKIPPED = 10
"""How many calls of `sync` a file that changes all the time is left out for."""


class Checkpoints:
    """A host's checkpoint folder, kept in S3 while the job runs.

    As in SageMaker, nothing is ever removed from S3, and a file may be copied while it is being
    written. All hosts of a job share the prefix in S3: of files with one name the last copy stays.
    """

    def __init__(self, storage: Storage, config: Mapping[str, Any], host: Host) -> None:
        self._storage = storage
        self._uri = config["S3Uri"].rstrip("/")
        local = (config.get("LocalPath") or f"{OPT_ML}/checkpoints").rstrip("/")
        try:
            self._folder = host.path(local)
        except ValueError:
            raise Fault(
                f"CheckpointConfig.LocalPath '{local}': the emulator keeps checkpoints below "
                f"{OPT_ML} only"
            ) from None
        self._root = host.root
        self._kept: dict[Path, Signature] = {}
        self._seen: dict[Path, Signature] = {}
        self._skipped: Counter[Path] = Counter()

    def restore(self) -> None:
        """Download the checkpoints of earlier attempts, before the job begins."""
        self._folder.mkdir(parents=True, exist_ok=True)
        bucket, prefix = split(f"{self._uri}/")
        for key in self._storage.keys(f"{self._uri}/"):
            if not key.endswith("/"):
                self._storage.fetch(bucket, key, _below(self._folder, key[len(prefix) :]))
        self._kept = dict(self._scan())

    def sync(self, *, last: bool = False) -> None:
        """Upload the files that have changed, and have not changed again since the previous call: a
        file is rarely uploaded while being written. A file that changes all the time goes up every
        `_MOST_SKIPPED` calls, as it is. With `last`, upload every changed file."""
        found = dict(self._scan())
        for file, signature in found.items():
            if self._kept.get(file) == signature:
                continue
            self._skipped[file] += 1
            settled = self._seen.get(file) == signature
            if last or settled or self._skipped[file] > _MOST_SKIPPED:
                self._upload(file, signature)
        self._seen = found

    def _upload(self, file: Path, signature: Signature) -> None:
        """Upload a copy: S3 needs to know the size, and the file may shrink meanwhile."""
        copy = self._root.parent / "uploading"
        try:
            shutil.copyfile(file, copy)
        except FileNotFoundError:
            return  # The file was renamed meanwhile: the next call uploads the new name.
        self._storage.put(copy, f"{self._uri}/{file.relative_to(self._folder).as_posix()}")
        self._kept[file] = signature
        del self._skipped[file]

    def _scan(self) -> Iterator[tuple[Path, Signature]]:
        for file in sorted(self._folder.rglob("*")):
            try:
                if is_own_file(file, self._root):
                    stat = file.stat()
                    yield file, (stat.st_mtime_ns, stat.st_size)
            except FileNotFoundError:
                continue


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
