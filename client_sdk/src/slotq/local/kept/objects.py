"""S3's buckets and objects, as files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

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
        for found in (each for page in pages for each in page.get("Contents", ())):
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
