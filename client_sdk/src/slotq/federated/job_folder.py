"""A federated job in a folder: `meta.json` and a folder for each app. A single app is a job too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotq.errors import InvalidRequest
from slotq.federated.app_folder import TEMPLATE, App, app_in, is_app
from slotq.federated.meta import Meta, made_for, read
from slotq_core.wire import strict_json

META = "meta.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFolder:
    meta: Meta
    apps: Mapping[str, App]
    """The apps that go to a site, by name."""


def job_in(
    folder: Path,
    *,
    pools: Sequence[str],
    mapped: Mapping[str, str] | None = None,
    name: str | None = None,
) -> JobFolder:
    """Read the folder and check every rule. Raises InvalidRequest with the field.

    `pools`: the queue's pools. `mapped`: the pools of sites, before those of meta.json. `name`:
    the job's name in place of the document's.
    """
    single = is_app(folder) and not (folder / META).is_file()
    here = folder.resolve()
    document = made_for(here.name, here.name) if single else _document(folder)
    if name is not None and isinstance(document, dict):
        document["name"] = name
    places = {here.name: here} if single else {p.name: p for p in folder.iterdir() if p.is_dir()}
    meta = read(document, folders=sorted(places), pools=pools, mapped=mapped)
    used = dict.fromkeys(meta.apps.values())
    return JobFolder(meta=meta, apps={name: app_in(places[name]) for name in used})


def _document(folder: Path) -> Any:
    try:
        text = (folder / META).read_bytes()
    except FileNotFoundError:
        raise InvalidRequest(
            f"{folder} has neither a {META}, as a federated job has, nor a {TEMPLATE}, as a "
            "single app has",
            field=META,
        ) from None
    try:
        return strict_json.parse(text)
    except ValueError as error:
        raise InvalidRequest(f"{META} is not JSON: {error}", field=META) from None
