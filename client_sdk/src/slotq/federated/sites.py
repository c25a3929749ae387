"""Which app goes to which sites, and what it needs there: `deploy_map` and `resource_spec`.

There is one server. A site gets at most one app. `@ALL` is the server and every site, and must be
the only entry. An app with an empty list has no site; only its folder must exist.

A number in `resource_spec` is an amount of a resource, which the job takes from the site's pool
while it runs, or of a property, which the pool must have at least. The queue says which of the two
a name is; it knows FLARE's `num_gpus` and `mem_per_gpu_in_GiB`
(`slotq_core.wire.pool_definition`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from slotq.errors import InvalidRequest
from slotq_core.gpu_amounts import gpus_number, read_gpus
from slotq_core.wire.pool_definition import MOST_OF_A_RESOURCE, PROPERTY, SPELLINGS, read_amount

SERVER = "server"
ALL = "@ALL"
MAP = "deploy_map"


def deployments(
    value: object, *, folders: Collection[str], all_sites: Sequence[str]
) -> Mapping[str, str]:
    """The app of the server and of each site, the server first and then in the order of the map.

    `folders`: the app folders that exist. `all_sites`: the sites that `@ALL` means, besides the
    server. Raises InvalidRequest with the field.
    """
    lists = _lists(value, folders)
    named = [(site, app) for app, sites in lists.items() for site in sites]
    if any(site == ALL for site, _ in named):
        named = _to_all(named, all_sites)
    if not named:
        raise InvalidRequest(
            f"{MAP} deploys no app to any site: name {SERVER} and at least one site, or {ALL}",
            field=MAP,
        )
    found: dict[str, str] = {}
    for site, app in named:
        if site in found:
            raise _twice(site, found[site], app)
        found[site] = app
    if SERVER not in found:
        raise InvalidRequest(
            f"{MAP} deploys no app to '{SERVER}': a federated job has one server", field=MAP
        )
    if len(found) == 1:
        raise InvalidRequest(
            f"{MAP} names no site besides '{SERVER}': a federated job has at least one client",
            field=MAP,
        )
    return {SERVER: found[SERVER], **found}


def _lists(value: object, folders: Collection[str]) -> Mapping[str, Sequence[str]]:
    """The sites by app. Raises InvalidRequest."""
    if value is None:
        raise InvalidRequest(
            f'{MAP} is missing: it says which app goes to which sites, such as {{"app": '
            f'["{ALL}"]}}',
            field=MAP,
        )
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{MAP} must be an object: a list of sites by app", field=MAP)
    if not value:
        raise InvalidRequest(f"{MAP} is empty: deploy at least one app to a site", field=MAP)
    for app, sites in value.items():
        field = f"{MAP}.{app}"
        if app not in folders:
            raise InvalidRequest(
                f"{field}: the job has no app folder '{app}' beside meta.json{_there_are(folders)}",
                field=field,
            )
        if not isinstance(sites, list) or not all(isinstance(s, str) and s for s in sites):
            raise InvalidRequest(
                f'{field} must be a list of sites, such as ["site-1", "site-2"]', field=field
            )
    return value


def _to_all(named: Sequence[tuple[str, str]], all_sites: Sequence[str]) -> list[tuple[str, str]]:
    """The deployments where one app goes to `@ALL`."""
    app = next(app for site, app in named if site == ALL)
    if others := [(site, other) for site, other in named if (site, other) != (ALL, app)]:
        site, other = others[0]
        raise InvalidRequest(
            f"{MAP}.{other} names {site}, but {app} is deployed to {ALL}: with {ALL} no app may "
            "name a site",
            field=f"{MAP}.{other}",
        )
    if len(named) > 1:
        raise InvalidRequest(f"{MAP}.{app} names {ALL} twice", field=f"{MAP}.{app}")
    if not all_sites:
        raise InvalidRequest(
            f"{MAP}.{app}: {ALL} stands for no site, because the queue has no pool that you see",
            field=f"{MAP}.{app}",
        )
    return [(site, app) for site in (SERVER, *all_sites)]


def _twice(site: str, first: str, second: str) -> InvalidRequest:
    field = f"{MAP}.{second}"
    if first == second:
        return InvalidRequest(f"{field} names {site} twice", field=field)
    if site == SERVER:
        return InvalidRequest(
            f"{MAP} deploys {first} and {second} to '{SERVER}': there is only one server, and "
            "it gets one app",
            field=field,
        )
    return InvalidRequest(
        f"{MAP} deploys {first} and {second} to {site}: a site gets one app", field=field
    )


def _there_are(folders: Collection[str]) -> str:
    return f" (there are: {', '.join(sorted(folders))})" if folders else ""


SPEC = "resource_spec"
GPUS = ("gpus", *SPELLINGS)
_SIZE_OF = "{}_in_GiB"
"""The name of a property that is written as a size: `"mem_per_gpu": "16G"`."""
_HAS_UNIT = re.compile(r".*_in_[A-Za-z]+")


def needs(value: object, *, sites: Collection[str]) -> Mapping[str, Mapping[str, float]]:
    """What the job needs at each site that says so, by name. `sites`: the server, if it has an app,
    and the sites with an app. Raises InvalidRequest with the field."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRequest(
            f'{SPEC} must be an object: what the job needs by site, such as {{"site-1": '
            '{"num_gpus": 1}}',
            field=SPEC,
        )
    found = {}
    for site, spec in value.items():
        field = f"{SPEC}.{site}"
        if site not in sites:
            raise InvalidRequest(
                f"{field}: deploy_map deploys no app to '{site}' (it does to: {', '.join(sites)})",
                field=field,
            )
        if not isinstance(spec, Mapping):
            raise InvalidRequest(
                f'{field} must be an object: amounts by name, such as {{"num_gpus": 1}}',
                field=field,
            )
        read = [_need(field, name, amount) for name, amount in spec.items()]
        found[site] = {name: amount for name, amount in read if amount}
    return found


def _need(site: str, name: str, amount: object) -> tuple[str, float]:
    """The name that the pools know, and the amount."""
    field = f"{site}.{name}"
    if name == "slots" or not PROPERTY.fullmatch(name):
        raise InvalidRequest(
            f"{field}: '{name}' is no name of a resource or property"
            + ("; job.json's ResourceConfig says how many slots" if name == "slots" else ""),
            field=field,
        )
    if name in GPUS and isinstance(amount, float):
        try:
            return name, gpus_number(read_gpus(amount))
        except ValueError as error:
            raise InvalidRequest(f"{field}: {error}", field=field) from None
    if isinstance(amount, str):
        return _size(field, name, amount)
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise _no_number(field, amount)
    return name, _within(field, amount)


def _size(field: str, name: str, text: str) -> tuple[str, int]:
    """A number or a size, written as a text."""
    for known in (name, *(() if _HAS_UNIT.fullmatch(name) else (_SIZE_OF.format(name),))):
        if (amount := read_amount(known, text)) is not None:
            return known, _within(field, amount)
    raise _no_number(field, text)


def _within(field: str, amount: int) -> int:
    if not 0 <= amount <= MOST_OF_A_RESOURCE:
        raise InvalidRequest(
            f"{field} must be from 0 to {MOST_OF_A_RESOURCE:,}, not {amount}", field=field
        )
    return amount


def _no_number(field: str, value: object) -> InvalidRequest:
    return InvalidRequest(
        f'{field} must be a whole number, or a size such as "16G", not {value!r:.60}',
        field=field,
    )
