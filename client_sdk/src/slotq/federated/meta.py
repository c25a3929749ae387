"""The rules of meta.json or meta.conf, but for those of `deploy_map` and `resource_spec`.

Two keys are our own: `sites` names the pool of a site that is not called like its pool, and
`heartbeat_seconds` how long a member may be silent. Keys that are not among KEYS are kept: FLARE
has others (`scope`, `launcher_spec` …), and people add their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slotq.errors import InvalidRequest
from slotq.federated.sites import ALL, SERVER, Wanted, deployments, needs
from slotq_core import names
from slotq_core.spelling import nearest

KEYS = (
    "name",
    "resource_spec",
    "deploy_map",
    "min_clients",
    "mandatory_clients",
    "sites",
    "heartbeat_seconds",
)
_REQUIRED = ("name", "deploy_map")
_ALIKE = 0.8
"""From which likeness on (`spelling`) an unknown key may be a typing error."""
LEAST_HEARTBEAT, MOST_HEARTBEAT = 60, 86_400
"""Bounds of `heartbeat_seconds`: reports reach the queue every 15 seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Meta:
    """A meta.json that keeps the rules."""

    name: str
    """The group's name, with hyphens for characters that no job's name may contain."""
    apps: Mapping[str, str]
    """The app of the server and of each client, the server first."""
    needs: Mapping[str, Mapping[str, Wanted]]
    """What the job needs at each site that says so."""
    min_clients: int = 1
    mandatory: tuple[str, ...] = ()
    """Clients that the job needs to run."""
    pools: Mapping[str, str] = field(default_factory=dict)
    """The pools of sites, where they have other names."""
    heartbeat: int | None = None
    """In seconds; None: silence is allowed."""
    warnings: tuple[str, ...] = ()
    """What of the document has no effect, as sentences."""

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(site for site in self.apps if site != SERVER)

    @property
    def members(self) -> Mapping[str, str]:
        """The name of the job at each site."""
        return {site: f"{self.name}-{legal(site)}" for site in self.apps}


def read(
    document: object,
    *,
    folders: Collection[str],
    pools: Sequence[str],
    mapped: Mapping[str, str] | None = None,
    by_default: str | None = None,
    is_simulated: bool = False,
) -> Meta:
    """Check the document. Raises InvalidRequest with the field.

    `folders`: the app folders that exist. `pools`: the queue's pools, in their order; they are the
    sites of `@ALL` unless there is a mapping. `mapped`: pools of sites from elsewhere; they come
    before those of `sites`. `by_default`: the name of a document without one.
    `is_simulated`: the sites of clients are no pools.
    """
    if not isinstance(document, Mapping):
        raise InvalidRequest("meta.json must hold one object")
    if by_default is not None:
        document = {"name": by_default, **document}
    unknown = {key: _meant(key) for key in document if key not in KEYS}
    _check_missing(document, unknown)
    pool_of = _sites(document.get("sites")) | dict(mapped or {})
    named = [site for site in pool_of if site != SERVER]
    every = named or [pool for pool in pools if pool != SERVER]
    apps = deployments(document.get("deploy_map"), folders=folders, all_sites=every)
    _check_pools({} if is_simulated else apps, pool_of, pools)
    clients = [site for site in apps if site != SERVER]
    wanted, idle = needs(document.get("resource_spec"), sites=apps)
    meta = Meta(
        name=_name(document.get("name")),
        apps=apps,
        needs=wanted,
        min_clients=_min_clients(document.get("min_clients"), len(clients)),
        mandatory=_mandatory(document.get("mandatory_clients"), clients),
        pools={site: pool_of.get(site, site) for site in apps if site in {*pool_of, *pools}},
        heartbeat=_heartbeat(document.get("heartbeat_seconds")),
        warnings=(
            *(_no_effect(key, meant) for key, meant in unknown.items()),
            *_goes_nowhere(pool_of, apps),
            *idle,
        ),
    )
    _check_members(meta)
    return meta


def made_for(app: str, name: str) -> dict[str, Any]:
    """The meta.json of a single app: it goes to all."""
    return {"name": name, "deploy_map": {app: [ALL]}}


def legal(name: str) -> str:
    """The name, with hyphens for what a job's name may not contain."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")


def _meant(key: str) -> str | None:
    """The known key that this one may be a typing error of."""
    return nearest(key.lower(), KEYS, _ALIKE)


def _check_missing(document: Mapping[str, Any], unknown: Mapping[str, str | None]) -> None:
    """Refuse a document with a misspelt required key."""
    for key, meant in unknown.items():
        if meant in _REQUIRED and meant not in document:
            raise InvalidRequest(
                f"{meant} is missing, and meta.json has a key '{key}'; did you mean '{meant}'?",
                field=key,
            )


def _no_effect(key: str, meant: str | None) -> str:
    hint = f"; did you mean '{meant}'?" if meant else ""
    return f"meta.json: '{key}' is kept, and has no effect in the queue{hint}"


def _goes_nowhere(pool_of: Mapping[str, str], apps: Mapping[str, str]) -> Iterator[str]:
    if idle := [site for site in pool_of if site not in apps]:
        yield (
            f"the pool of {', '.join(idle)} has no effect: deploy_map deploys no app there (it "
            f"does to: {', '.join(apps)})"
        )


def _name(value: object) -> str:
    if value is None:
        raise InvalidRequest("name is missing: it names the job in the queue", field="name")
    if not isinstance(value, str) or not names.is_legal(made := legal(value)):
        raise InvalidRequest(
            f"name must be a text with at least one letter or digit, which makes at most "
            f"{names.LONGEST} characters, not {value!r:.80}",
            field="name",
        )
    return made


def _min_clients(value: object, clients: int) -> int:
    if value is None:
        return 1
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(
            f"min_clients must be a whole number, not {value!r:.60}", field="min_clients"
        )
    if value < 1:
        raise InvalidRequest(f"min_clients must be at least 1, not {value}", field="min_clients")
    if value > clients:
        raise InvalidRequest(
            f"min_clients is {value}, and deploy_map has only {clients} clients",
            field="min_clients",
        )
    return value


def _mandatory(value: object, clients: Sequence[str]) -> tuple[str, ...]:
    key = "mandatory_clients"
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidRequest(f"{key} must be a list of sites", field=key)
    for site in value:
        if site == SERVER:
            raise InvalidRequest(
                f"{key} names '{SERVER}', which is no client: it always takes part", field=key
            )
        if site not in clients:
            raise InvalidRequest(
                f"{key} names '{site}', to which deploy_map deploys no app (it does to: "
                f"{', '.join(clients)})",
                field=key,
            )
    return tuple(dict.fromkeys(value))


def _heartbeat(value: object) -> int | None:
    key = "heartbeat_seconds"
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not LEAST_HEARTBEAT <= value <= MOST_HEARTBEAT
    ):
        raise InvalidRequest(
            f"{key} must be a whole number from {LEAST_HEARTBEAT} to {MOST_HEARTBEAT:,}, not "
            f"{value!r:.60}",
            field=key,
        )
    return value


def _sites(value: object) -> dict[str, str]:
    """The pools by site."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(p, str) and p for p in value.values()):
        raise InvalidRequest(
            'sites must be an object: the pool of each site, such as {"site-1": "pool-a"}',
            field="sites",
        )
    return dict(value)


def _check_pools(apps: Mapping[str, str], pool_of: Mapping[str, str], pools: Sequence[str]) -> None:
    """Check that each site is a pool. The server may run in any."""
    there = f"the queue's pools: {', '.join(pools) or 'none that you see'}"
    for site, pool in pool_of.items():
        if pool not in pools:
            raise InvalidRequest(
                f"sites.{site}: there is no pool '{pool}' ({there})", field=f"sites.{site}"
            )
    for site in apps:
        if site != SERVER and site not in pool_of and site not in pools:
            raise InvalidRequest(
                f"deploy_map.{apps[site]}: site '{site}' is no pool ({there}); name its pool with "
                f"--site {site}=POOL, or under sites in meta.json",
                field=f"deploy_map.{apps[site]}",
            )


def _check_members(meta: Meta) -> None:
    """Check the names of the jobs."""
    taken: dict[str, str] = {}
    for site, name in meta.members.items():
        where = f"deploy_map.{meta.apps[site]}"
        if not legal(site) or not names.is_legal(name):
            raise InvalidRequest(
                f"{where}: the job at site '{site}' would be named '{name}', and a job's name has "
                f"{names.RULE}: choose a shorter name, or other names of sites",
                field=where,
            )
        if name in taken:
            raise InvalidRequest(
                f"{where}: sites '{taken[name]}' and '{site}' would both be the job '{name}'",
                field=where,
            )
        taken[name] = site
