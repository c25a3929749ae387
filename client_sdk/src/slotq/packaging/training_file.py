"""`slotq_training.py` beside the user's code, with `hfai.py`: for scripts that can be suspended.

Script mode (SDK v2) has the code in an archive that a hyperparameter names. SDK v3 has it as single
objects of the channel `code`. Only script mode gets `sitecustomize.py`, which sets MASTER_IP and
the others: it has the code's folder on PYTHONPATH, and a command line has a driver that sets them.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from slotq.errors import CannotReach

NAME = "slotq_training.py"
_HFAI, _SITE = "hfai.py", "sitecustomize.py"
_ARCHIVE = "sagemaker_submit_directory"
"""The hyperparameter of script mode: the archive's URI, as JSON."""
_CODE, _DRIVERS = "code", "sm_drivers"
"""The channels of SDK v3."""


def content() -> bytes:
    """The file: from the checkout, else from the installed package."""
    here = Path(__file__).resolve().parent
    places = (here.parents[2] / "training" / NAME, here / NAME)
    return next(place for place in places if place.is_file()).read_bytes()


def beside(names: Collection[str], *, script_mode: bool = False) -> dict[str, bytes]:
    """The files to ship beside code with these names. A file or package of the user's own takes the
    place of one of these."""
    top = {name.removeprefix("./").partition("/")[0] for name in names}
    ours = (NAME, _HFAI, _SITE) if script_mode else (NAME, _HFAI)
    added = [name for name in ours if not {name, name.removesuffix(".py")} & top]
    return {name: content() if name == NAME else _job_file(name) for name in added}


def _job_file(name: str) -> bytes:
    return (Path(__file__).with_name("job_files") / name).read_bytes()


def shipped(
    s3: Any, request: Mapping[str, Any], *, ask: Callable[[], object] = lambda: None
) -> dict[str, Any] | None:
    """The request with the files beside its code. None if the code cannot be found in it. `ask` is
    called before an upload, and prevents it by raising.

    A file of such a name among the code stays. Raises CannotReach if S3 refuses a call.
    """
    try:
        return _in_archive(s3, request, ask) or _in_channel(s3, request, ask)
    except (Boto3Error, BotoCoreError, ClientError) as error:
        raise CannotReach(
            f"{NAME} cannot be put beside the code in S3: {error}. Check that you may read and "
            "write there, or leave ship_training out"
        ) from None


def _in_archive(
    s3: Any, request: Mapping[str, Any], ask: Callable[[], object]
) -> dict[str, Any] | None:
    values = dict(request.get("HyperParameters") or {})
    uri = str(values.get(_ARCHIVE, "")).strip('"')
    if not uri.startswith("s3://") or not uri.endswith(".tar.gz"):
        return None
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    answer = s3.get_object(Bucket=bucket, Key=key)
    packed = with_files(answer["Body"].read())
    if packed is None:
        return dict(request)
    digest = hashlib.sha256(packed).hexdigest()[:8]
    key = f"{key.removesuffix('.tar.gz')}-{digest}.tar.gz"
    ask()
    s3.put_object(Bucket=bucket, Key=key, Body=packed, **_encryption(answer))
    values[_ARCHIVE] = json.dumps(f"s3://{bucket}/{key}")
    return {**request, "HyperParameters": values}


def _in_channel(
    s3: Any, request: Mapping[str, Any], ask: Callable[[], object]
) -> dict[str, Any] | None:
    channels = {channel["ChannelName"]: channel for channel in request.get("InputDataConfig") or ()}
    if not {_CODE, _DRIVERS} <= set(channels):
        return None
    uri = channels[_CODE].get("DataSource", {}).get("S3DataSource", {}).get("S3Uri", "")
    if not uri.startswith("s3://") or uri.endswith(".tar.gz"):
        return None
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    folder = f"{prefix.rstrip('/')}/".lstrip("/")
    there = [name for name in (NAME, _HFAI) if _is_there(s3, bucket, folder + name)]
    added = beside(there)
    if added:
        ask()
    for name, made in added.items():
        s3.put_object(Bucket=bucket, Key=folder + name, Body=made)
    return dict(request)


def _is_there(s3: Any, bucket: str, key: str) -> bool:
    """Whether there is a file with this key, or a package of its name."""
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=key.removesuffix(".py"), MaxKeys=100)
    package = key.removesuffix(".py") + "/"
    keys = [found["Key"] for found in listed.get("Contents") or ()]
    return any(name == key or name.startswith(package) for name in keys)


def with_files(archive: bytes) -> bytes | None:
    """The archive of script mode with the files at its top; None if it has all of them. Raises
    CannotReach: no archive."""
    try:
        raw = gzip.decompress(archive)
        with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
            added = beside(tar.getnames(), script_mode=True)
        if not added:
            return None
        made = io.BytesIO(raw)
        with tarfile.open(fileobj=made, mode="a") as tar:
            for name, text in added.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                tar.addfile(entry, io.BytesIO(text))
    except (OSError, EOFError, tarfile.TarError) as error:
        raise CannotReach(f"the archive with the code cannot be read: {error}") from None
    return gzip.compress(made.getvalue(), mtime=0)


def _encryption(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The encryption of the object that was read, for the one that is written."""
    names = ("ServerSideEncryption", "SSEKMSKeyId")
    return {name: answer[name] for name in names if answer.get(name)}
