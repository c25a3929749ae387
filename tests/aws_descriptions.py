"""AWS's descriptions of its services, read once in each process.

By itself each session of botocore reads them, SageMaker's six megabytes too. Sessions only read
what they have loaded, so all can share it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import boto3
import botocore.session
from botocore.loaders import Loader, create_loader

_OF_BOTO3 = str(Path(boto3.__file__).with_name("data"))


class _Folders(list[str]):
    """Where descriptions are searched. Every session of boto3 adds the same folder."""

    def append(self, folder: str) -> None:
        if folder not in self:
            super().append(folder)


@cache
def _shared(search_path: str | None = None) -> Loader:
    loader = create_loader(search_path)
    loader._search_paths = _Folders([*loader.search_paths, _OF_BOTO3])
    return loader


def share() -> None:
    """Let all sessions made from now on share one loader for each search path."""
    botocore.session.create_loader = _shared
