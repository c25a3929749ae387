"""A federated job in a folder: `meta.json` and a folder for each app. A single app is a job too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slotq.errors import InvalidRequest
from slotq.federated.app_folder import SOURCE, TEMPLATE, FederatedApp, app_in, is_app
from slotq.federated.meta import Meta, made_for, read
from slotq.packaging.archive import IGNORE_FILES, check_link, top_of
from slotq_core.wire import strict_json

META = "meta.json"
_OTHER_FORMS = ("meta.conf", "meta.yml", "meta.yaml")
"""Forms of the document that FLARE reads, too."""
_NAMED = 5
"""How many files a message names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFolder:
    meta: Meta
    apps: Mapping[str, FederatedApp]
    """The apps that go to a site, by name."""
    warnings: tuple[str, ...]
    """What of the folder has no effect, as sentences."""

    def named(self, name: str) -> JobFolder:
        """The job under another name."""
        return replace(self, meta=replace(self.meta, name=name))


def job_in(
    folder: Path,
    *,
    pools: Sequence[str],
    mapped: Mapping[str, str] | None = None,
    name: str | None = None,
) -> JobFolder:
    """Read the folder and check every rule. Raises InvalidRequest with the field, and NotConfigured
    for a link out of the folder: the user of a cloned folder may not know what it would ship.

    `pools`: the queue's pools. `mapped`: the pools of sites, before those of meta.json. `name`:
    the job's name in place of the document's.
    """
    here = folder.resolve()
    if is_app(folder) and not (folder / META).is_file():
        meta = read(
            made_for(here.name, name or here.name), folders=[here.name], pools=pools, mapped=mapped
        )
        app = app_in(here)
        return JobFolder(meta=meta, apps={here.name: app}, warnings=app.warnings)
    text, document = _document(folder)
    if name is not None and isinstance(document, dict):
        document["name"] = name
    places = {place.name: place for place in folder.iterdir() if place.is_dir()}
    meta = read(document, folders=sorted(places), pools=pools, mapped=mapped)
    used = dict.fromkeys(meta.apps.values())
    for place in used:  # What is in them is checked with each.
        check_link(folder, place)
        check_link(folder, f"{place}/{SOURCE}")
    apps = {name: app_in(places[name], shared=folder, more={META: text}) for name in used}
    warnings = (
        *meta.warnings,
        *(line for app in apps.values() for line in app.warnings),
        *_without_effect(folder, apps, named=document["deploy_map"]),
    )
    return JobFolder(meta=meta, apps=apps, warnings=warnings)


def _without_effect(
    folder: Path, apps: Mapping[str, FederatedApp], *, named: Mapping[str, Any]
) -> Iterator[str]:
    """The parts of the folder without effect. `named`: the apps that the document names; an app
    without sites is no fault."""
    if is_app(folder) and all(app.where != TEMPLATE for app in apps.values()):
        yield f"{TEMPLATE} beside {META} has no effect: each app has its own"
    known = {META, TEMPLATE, *IGNORE_FILES, *(f"{app}/" for app in named)}
    if others := [name for name in top_of(folder) if name not in known]:
        more = len(others) - _NAMED
        shown = ", ".join(others[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield (
            f"{shown} of {folder.resolve().name} goes to no site: only the folders that deploy_map "
            "names are shipped"
        )


def _document(folder: Path) -> tuple[bytes, Any]:
    """The document as it lies there, and what it says."""
    try:
        text = (folder / META).read_bytes()
    except FileNotFoundError:
        other = next((form for form in _OTHER_FORMS if (folder / form).is_file()), None)
        raise InvalidRequest(
            f"{folder} has {other}: SlotQ reads the document as {META} (JSON)"
            if other
            else f"{folder} has neither a {META}, as a federated job has, nor a {TEMPLATE}, as a "
            "single app has",
            field=META,
        ) from None
    try:
        return text, strict_json.parse(text)
    except ValueError as error:
        raise InvalidRequest(f"{META} is not JSON: {error}", field=META) from None
