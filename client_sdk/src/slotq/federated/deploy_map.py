"""The rules of `deploy_map`: which app goes to which sites.

There is one server. A site gets at most one app. `@ALL` is the server and every site, and stands
alone. An app with an empty list goes nowhere; only its folder must exist.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from slotq.errors import InvalidRequest

SERVER = "server"
ALL = "@ALL"
FIELD = "deploy_map"


def deployments(
    value: object, *, folders: Collection[str], all_sites: Sequence[str]
) -> Mapping[str, str]:
    """The app of the server and of each site, the server first and then in the order of the map.

    `folders`: the app folders that exist. `all_sites`: what `@ALL` stands for, besides the server.
    Raises InvalidRequest with the field.
    """
    lists = _lists(value, folders)
    named = [(site, app) for app, sites in lists.items() for site in sites]
    if any(site == ALL for site, _ in named):
        named = _to_all(named, all_sites)
    if not named:
        raise InvalidRequest(
            f"{FIELD} deploys no app to any site: name {SERVER} and at least one site, or {ALL}",
            field=FIELD,
        )
    found: dict[str, str] = {}
    for site, app in named:
        if site in found:
            raise _twice(site, found[site], app)
        found[site] = app
    if SERVER not in found:
        raise InvalidRequest(
            f"{FIELD} deploys no app to '{SERVER}': a federated job has one server", field=FIELD
        )
    if len(found) == 1:
        raise InvalidRequest(
            f"{FIELD} names no site besides '{SERVER}': a federated job has at least one client",
            field=FIELD,
        )
    return {SERVER: found[SERVER], **found}


def _lists(value: object, folders: Collection[str]) -> Mapping[str, Sequence[str]]:
    """The sites by app. Raises InvalidRequest."""
    if value is None:
        raise InvalidRequest(
            f'{FIELD} is missing: it says which app goes to which sites, such as {{"app": '
            f'["{ALL}"]}}',
            field=FIELD,
        )
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{FIELD} must be an object: a list of sites by app", field=FIELD)
    if not value:
        raise InvalidRequest(f"{FIELD} is empty: deploy at least one app to a site", field=FIELD)
    for app, sites in value.items():
        field = f"{FIELD}.{app}"
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
            f"{FIELD}.{other} names {site}, but {app} is deployed to {ALL}: with {ALL} no app may "
            "name a site",
            field=f"{FIELD}.{other}",
        )
    if len(named) > 1:
        raise InvalidRequest(f"{FIELD}.{app} names {ALL} twice", field=f"{FIELD}.{app}")
    if not all_sites:
        raise InvalidRequest(
            f"{FIELD}.{app}: {ALL} stands for no site, because the queue has no pool that you see",
            field=f"{FIELD}.{app}",
        )
    return [(site, app) for site in (SERVER, *all_sites)]


def _twice(site: str, first: str, second: str) -> InvalidRequest:
    field = f"{FIELD}.{second}"
    if first == second:
        return InvalidRequest(f"{field} names {site} twice", field=field)
    if site == SERVER:
        return InvalidRequest(
            f"{FIELD} deploys {first} and {second} to '{SERVER}': there is only one server, and "
            "it gets one app",
            field=field,
        )
    return InvalidRequest(
        f"{FIELD} deploys {first} and {second} to {site}: a site gets one app", field=field
    )


def _there_are(folders: Collection[str]) -> str:
    return f" (there are: {', '.join(sorted(folders))})" if folders else ""
