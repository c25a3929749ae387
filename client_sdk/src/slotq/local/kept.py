"""What an emulator keeps over a restart, in `kept/` of its state folder.

What moto stores is read and written through the services' own API, so nothing depends on moto's
inside, and a newer version reads what an older one left. Not kept: moto's users and roles, models,
object versions and unfinished multipart uploads.

A save replaces `state.json`, which names the objects' files, in one step, after writing every file
that it names. If a save is interrupted, the previous save stays valid. Parts from different moments
do no harm: the queue looks up its training jobs, as after a lost event.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from slotq.local.container.job_output import batches
from slotq.local.endpoint import Endpoint
from slotq.local.keys import write_private
from slotq.local.processing.processing_job import kind_of_record
from slotq.local.services.aws import TABLE
from slotq.local.services.dynamodb import InMemoryDynamo
from slotq.local.training.plane import Plane
from slotq.local.training.runner import WorkEnd
from slotq.local.training.training_job import TrainingJob, Transition
from slotq_core.model.capacity.work import WorkKind
from slotq_core.names import LOG_GROUP, LOG_GROUPS

_VERSION = 1
_FOLDER, _FILE = "kept", "state.json"


class Unreadable(Exception):
    """The saved state is not readable by this emulator. The message says why, and what to do."""


class EmulatorSnapshot:
    def __init__(
        self, work: Path, endpoint: Endpoint, plane: Plane, dynamo: InMemoryDynamo
    ) -> None:
        self._folder, self._endpoint, self._plane = work / _FOLDER, endpoint, plane
        self._objects = Objects(endpoint.client("s3"), self._folder / "objects", endpoint.region)
        self._dynamo, self._logs = dynamo, endpoint.client("logs")
        self._saving = threading.Lock()
        self._last = ""

    def save(self) -> None:
        """Save the changes."""
        with self._saving:
            index = self._objects.save()
            text = json.dumps(
                {
                    "version": _VERSION,
                    "region": self._endpoint.region,
                    "objects": index,
                    "items": saved_items(self._dynamo),
                    "lines": saved_lines(self._logs),
                    "processing_lines": saved_lines(self._logs, LOG_GROUPS[WorkKind.PROCESSING]),
                    "jobs": saved_jobs(self._plane.jobs()),
                }
            )
            if text != self._last:
                write_private(self._folder / _FILE, text)
                self._last = text
            self._objects.forget_others(index)

    def restore(self) -> None:
        """Restore into an account that `furnish` has prepared. Raises Unreadable."""
        values = self._read()
        if values is None:
            return
        self._objects.restore(values["objects"])
        restore_items(self._dynamo, values["items"])
        restore_lines(self._logs, values["lines"])
        processing = values.get("processing_lines", {})  # Earlier versions kept none.
        restore_lines(self._logs, processing, LOG_GROUPS[WorkKind.PROCESSING])
        self._plane.take_over(read_jobs(values["jobs"]))

    def _read(self) -> dict[str, Any] | None:
        file = self._folder / _FILE
        try:
            values: dict[str, Any] = json.loads(file.read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            raise Unreadable(f"{file} is not JSON: start afresh with --fresh") from None
        if values.get("version") != _VERSION:
            raise Unreadable(f"{file} is from another version: start afresh with --fresh")
        if values["region"] != self._endpoint.region:
            raise Unreadable(
                f"the state in {self._folder} is of {values['region']}: start with --region "
                f"{values['region']}, or afresh with --fresh"
            )
        return values


def forget(work: Path) -> None:
    shutil.rmtree(work / _FOLDER, ignore_errors=True)


def saved_items(dynamo: InMemoryDynamo) -> list[Any]:
    return [_as_text(item) for item in list(dynamo.tables[TABLE].items.values())]


def restore_items(dynamo: InMemoryDynamo, items: Iterable[Any]) -> None:
    for item in items:
        dynamo.put_item(TableName=TABLE, Item=_as_bytes(item))


def _as_text(value: Any) -> Any:
    """Bytes as {"base64": …}. No attribute value has this form."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _as_text(member) for key, member in value.items()}
    return [_as_text(member) for member in value] if isinstance(value, list) else value


def _as_bytes(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"base64"} and isinstance(value["base64"], str):
            return base64.b64decode(value["base64"])
        return {key: _as_bytes(member) for key, member in value.items()}
    return [_as_bytes(member) for member in value] if isinstance(value, list) else value


Line = tuple[int, str]
"""The time (milliseconds since 1970) and the text."""


def saved_lines(logs: Any, group: str = LOG_GROUP) -> dict[str, list[Line]]:
    """The log lines by stream. Empty before any job has written one."""
    try:
        pages = logs.get_paginator("describe_log_streams").paginate(logGroupName=group)
        names = [stream["logStreamName"] for page in pages for stream in page["logStreams"]]
    except logs.exceptions.ResourceNotFoundException:
        return {}
    return {name: list(_lines(logs, name, group)) for name in names}


def _lines(logs: Any, stream: str, group: str) -> Iterator[Line]:
    asked = {"logGroupName": group, "logStreamName": stream, "startFromHead": True}
    token: str | None = None
    while True:
        page = logs.get_log_events(**asked, **({"nextToken": token} if token else {}))
        yield from ((event["timestamp"], event["message"]) for event in page["events"])
        if token == page["nextForwardToken"]:
            return
        token = page["nextForwardToken"]


def restore_lines(logs: Any, streams: Mapping[str, list[Line]], group: str = LOG_GROUP) -> None:
    if streams:
        logs.create_log_group(logGroupName=group)
    for name, lines in streams.items():
        logs.create_log_stream(logGroupName=group, logStreamName=name)
        for batch in batches([{"timestamp": at, "message": text} for at, text in lines]):
            logs.put_log_events(logGroupName=group, logStreamName=name, logEvents=batch)


def saved_jobs(jobs: Iterable[TrainingJob]) -> list[dict[str, Any]]:
    return [asdict(job) for job in jobs]


def read_jobs(values: Iterable[dict[str, Any]]) -> list[TrainingJob]:
    return [_training_job(value) for value in values]


def _training_job(value: dict[str, Any]) -> TrainingJob:
    parts = {
        "transitions": [Transition(**transition) for transition in value["transitions"]],
        "exit": None if value["exit"] is None else WorkEnd(**value["exit"]),
    }
    return kind_of_record(value["request"])(**{**value, **parts})


Entry = dict[str, Any]
_SAID = ("ContentType", "ContentEncoding", "Metadata")


class Objects:
    """Copies objects between S3 and a folder. Skips an object that has not changed."""

    def __init__(self, s3: Any, folder: Path, region: str) -> None:
        self._s3, self._folder, self._region = s3, folder, region
        self._known: dict[tuple[str, str], tuple[Any, Entry]] = {}

    def save(self) -> dict[str, list[Entry]]:
        """Save all buckets. Returns their index; the folder has the objects that the index
        names."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        buckets = [bucket["Name"] for bucket in self._s3.list_buckets()["Buckets"]]
        return {bucket: list(self._entries(bucket)) for bucket in buckets}

    def _entries(self, bucket: str) -> Iterator[Entry]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        for found in (content for page in pages for content in page.get("Contents", ())):
            stamp = found["ETag"], found["LastModified"], found["Size"]
            known = self._known.get((bucket, found["Key"]))
            if known is None or known[0] != stamp:
                entry = self._copied(bucket, found["Key"])
                if entry is None:
                    continue  # The object was deleted meanwhile.
                self._known[bucket, found["Key"]] = known = (stamp, entry)
            yield known[1]

    def _copied(self, bucket: str, key: str) -> Entry | None:
        try:
            said = self._s3.get_object(Bucket=bucket, Key=key)
        except ClientError:
            return None
        content = said["Body"].read()
        digest = hashlib.sha256(content).hexdigest()
        file = self._folder / digest
        if not file.exists():
            new = file.with_suffix(".new")
            new.write_bytes(content)
            new.replace(file)
        return {
            "Key": key,
            "File": digest,
            **{name: said[name] for name in _SAID if said.get(name)},
        }

    def forget_others(self, index: dict[str, list[Entry]]) -> None:
        """Remove the files that the index does not name."""
        named = {entry["File"] for entries in index.values() for entry in entries}
        for file in self._folder.iterdir():
            if file.name not in named:
                file.unlink()

    def restore(self, index: dict[str, list[Entry]]) -> None:
        """Restore into an account. Some of the buckets may exist already."""
        there = {bucket["Name"] for bucket in self._s3.list_buckets()["Buckets"]}
        where = {"LocationConstraint": self._region}
        more = {} if self._region == "us-east-1" else {"CreateBucketConfiguration": where}
        for bucket, entries in index.items():
            if bucket not in there:
                self._s3.create_bucket(Bucket=bucket, **more)
            for entry in entries:
                content = (self._folder / entry["File"]).read_bytes()
                said = {name: entry[name] for name in _SAID if name in entry}
                self._s3.put_object(Bucket=bucket, Key=entry["Key"], Body=content, **said)
