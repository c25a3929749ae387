"""A federated job in a folder: `meta.json`, or FLARE's `meta.conf`, and a folder for each app. A
single app is a job too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slotq.errors import InvalidRequest
from slotq.federated import hocon, simulator
from slotq.federated.app_folder import SOURCE, TEMPLATE, FederatedApp, app_in, is_app
from slotq.federated.meta import Meta, made_for, read
from slotq.packaging.archive import IGNORE_FILES, check_link, top_of
from slotq_core.wire import strict_json

META, HOCON = "meta.json", "meta.conf"
DOCUMENTS = (META, HOCON)
"""The document's forms, the preferred first."""
_OTHER_FORMS = ("meta.yml", "meta.yaml")
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
    is_simulated: bool = False
    """Whether FLARE's simulator runs all of it in one job."""

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
    if is_app(folder) and not any((folder / form).is_file() for form in DOCUMENTS):
        meta = read(
            made_for(here.name, name or here.name), folders=[here.name], pools=pools, mapped=mapped
        )
        app = app_in(here)
        return JobFolder(meta=meta, apps={here.name: app}, warnings=app.warnings)
    file, text, document = _document(folder)
    is_simulated = simulator.is_flares(folder)
    if name is not None and isinstance(document, dict):
        document["name"] = name
    places = {place.name: place for place in folder.iterdir() if place.is_dir()}
    meta = read(
        document,
        folders=sorted(places),
        pools=pools,
        mapped=mapped,
        by_default=here.name,
        is_simulated=is_simulated,
    )
    used = dict.fromkeys(meta.apps.values())
    for place in used:  # What is in them is checked with each.
        check_link(folder, place)
        check_link(folder, f"{place}/{SOURCE}")
    deployed = document["deploy_map"]
    if is_simulated:
        meta, apps = simulator.simulation(here, meta, deployed=deployed)
    else:
        apps = {name: app_in(places[name], shared=folder, more={file: text}) for name in used}
    warnings = (
        *meta.warnings,
        *(line for app in apps.values() for line in app.warnings),
        *_without_effect(folder, apps, file=file, named=deployed),
    )
    return JobFolder(meta=meta, apps=apps, warnings=warnings, is_simulated=is_simulated)


def _without_effect(
    folder: Path, apps: Mapping[str, FederatedApp], *, file: str, named: Mapping[str, Any]
) -> Iterator[str]:
    """The parts of the folder without effect. `file`: the document's. `named`: the apps that the
    document names; an app without sites is no fault."""
    if is_app(folder) and all(app.where != TEMPLATE for app in apps.values()):
        yield f"{TEMPLATE} beside {file} has no effect: each app has its own"
    known = {*DOCUMENTS, TEMPLATE, *IGNORE_FILES, *(f"{app}/" for app in named)}
    if others := [name for name in top_of(folder) if name not in known]:
        more = len(others) - _NAMED
        shown = ", ".join(others[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield (
            f"{shown} of {folder.resolve().name} goes to no site: only the folders that deploy_map "
            "names are shipped"
        )


def _document(folder: Path) -> tuple[str, bytes, Any]:
    """The document's file and its text, and what it says. FLARE prefers meta.json, too."""
    file = next((form for form in DOCUMENTS if (folder / form).is_file()), None)
    if file is None:
        other = next((form for form in _OTHER_FORMS if (folder / form).is_file()), None)
        raise InvalidRequest(
            f"{folder} has {other}: SlotQ reads the document as {META} (JSON) or {HOCON} (HOCON)"
            if other
            else f"{folder} has neither a {META}, as a federated job has, nor a {TEMPLATE}, as a "
            "single app has",
            field=META,
        )
    text = (folder / file).read_bytes()
    try:
        if file == META:
            return file, text, strict_json.parse(text)
        return file, text, hocon.parse(text.decode("utf-8-sig"))
    except ValueError as error:
        kind = "JSON" if file == META else "HOCON"
        raise InvalidRequest(f"{file} is not {kind}: {error}", field=file) from None
