"""`slotq_training.py` beside the user's code: for scripts that can be suspended.

Script mode (SDK v2) has the code in an archive that a hyperparameter names. SDK v3 has it as single
objects of the channel `code`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from slotq.errors import CannotReach

NAME = "slotq_training.py"
_ARCHIVE = "sagemaker_submit_directory"
"""The hyperparameter of script mode: the archive's URI, as JSON."""
_CODE, _DRIVERS = "code", "sm_drivers"
"""The channels of SDK v3."""


def content() -> bytes:
    """The file: from the checkout, else from the installed package."""
    here = Path(__file__).resolve().parent
    places = (here.parents[2] / "training" / NAME, here / NAME)
    return next(place for place in places if place.is_file()).read_bytes()


def shipped(
    s3: Any, request: Mapping[str, Any], *, ask: Callable[[], object] = lambda: None
) -> dict[str, Any] | None:
    """The request with the file beside its code. None if the code cannot be found in it. `ask` is
    called before an upload, and prevents it by raising.

    A file of that name among the code stays. Raises CannotReach if S3 refuses a call.
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
    packed = with_file(answer["Body"].read())
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
    channels = {one["ChannelName"]: one for one in request.get("InputDataConfig") or ()}
    if not {_CODE, _DRIVERS} <= set(channels):
        return None
    uri = channels[_CODE].get("DataSource", {}).get("S3DataSource", {}).get("S3Uri", "")
    if not uri.startswith("s3://") or uri.endswith(".tar.gz"):
        return None
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    key = f"{prefix.rstrip('/')}/{NAME}".lstrip("/")
    if not s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("KeyCount"):
        ask()
        s3.put_object(Bucket=bucket, Key=key, Body=content())
    return dict(request)


def with_file(archive: bytes) -> bytes | None:
    """The archive with the file at its top; None if it has one. Raises CannotReach: no archive."""
    try:
        raw = gzip.decompress(archive)
        with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
            if any(name.removeprefix("./") == NAME for name in tar.getnames()):
                return None
        made = io.BytesIO(raw)
        with tarfile.open(fileobj=made, mode="a") as tar:
            entry = tarfile.TarInfo(NAME)
            entry.size = len(content())
            tar.addfile(entry, io.BytesIO(content()))
    except (OSError, EOFError, tarfile.TarError) as error:
        raise CannotReach(f"the archive with the code cannot be read: {error}") from None
    return gzip.compress(made.getvalue(), mtime=0)


def _encryption(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The encryption of the object that was read, for the one that is written."""
    names = ("ServerSideEncryption", "SSEKMSKeyId")
    return {name: answer[name] for name in names if answer.get(name)}
