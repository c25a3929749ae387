"""Which app goes to which sites, and what it needs there: `deploy_map` and `resource_spec`.

There is one server. A site gets at most one app. `@ALL`, in any case, is the server and every site,
and must be the only entry. An app with an empty list has no site; only its folder must exist. An
app's sites are a list, one text, or an object with the key `sites` or `targets`; a list may contain
such objects.

A number in `resource_spec` is an amount of a resource, which the job takes from the site's pool
while it runs, or of a property, which the pool must have at least. The queue says which of the two
a name is; it knows FLARE's `num_gpus` and `mem_per_gpu_in_GiB`
(`slotq_core.wire.pool_definition`). A text or a boolean is a property that the pool must have as it
is. `@default` holds FLARE's portable amounts of every client; a site's own go first. Of a site's
launchers only `process` counts, as for FLARE's scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from slotq.errors import InvalidRequest
from slotq_core.gpu_amounts import gpus_number, read_gpus
from slotq_core.wire import traits
from slotq_core.wire.pool_definition import MOST_OF_A_RESOURCE, PROPERTY, SPELLINGS, read_amount
from slotq_core.wire.training.instance_types import MEMORY_PER_GPU, NAMES

SERVER = "server"
ALL = "@ALL"
MAP = "deploy_map"
_SITES_OF = ("targets", "sites")
"""The keys of an object that lists sites."""


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
    found = {}
    for app, sites in value.items():
        field = f"{MAP}.{app}"
        if app not in folders:
            raise InvalidRequest(
                f"{field}: the job's folder has no app folder '{app}'{_there_are(folders)}",
                field=field,
            )
        found[app] = _sites(field, sites)
    return found


def _sites(field: str, value: object) -> list[str]:
    """The sites of an app, in any of their forms. Raises InvalidRequest."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, Mapping):
        value = _listed(field, value)
    if not isinstance(value, list):
        raise _no_sites(field)
    found: list[object] = []
    for item in value:
        found += _listed(field, item) if isinstance(item, Mapping) else [item]
    if not all(isinstance(site, str) and site for site in found):
        raise _no_sites(field)
    return [ALL if site.casefold() == ALL.casefold() else site for site in map(str, found)]


def _listed(field: str, value: Mapping[str, object]) -> list[object]:
    """The list in an object with one of the keys of sites. Raises InvalidRequest."""
    key = next((key for key in _SITES_OF if key in value), None)
    sites = value[key] if key else None
    if len(value) != 1 or not isinstance(sites, list):
        raise _no_sites(field)
    return sites


def _no_sites(field: str) -> InvalidRequest:
    return InvalidRequest(
        f'{field} must be a list of sites, such as ["site-1", "site-2"]', field=field
    )


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
DEFAULT = "@default"
"""The entry of `resource_spec` for every client."""
_LAUNCHERS = ("process", "docker", "k8s", "slurm")
"""FLARE's launchers. A site may have an entry for each."""
_PORTABLE: Mapping[str, tuple[str, int]] = {"num_of_gpus": ("gpus", 0), "num_of_cpus": ("vcpus", 1)}
"""Amounts of FLARE's that all of its launchers know: our word, and the least."""
_MEMORY = ("memory", "memory_gib")
_MEMORY_SIZE = re.compile(r"[1-9][0-9]{0,8}(Mi|Gi|Ti)")
_AMOUNTS = frozenset({*GPUS, *NAMES, MEMORY_PER_GPU})
"""Names that cannot be texts or booleans."""
_SIZE_OF = "{}_in_GiB"
"""The name of a property that is written as a size: `"mem_per_gpu": "16G"`."""
_HAS_UNIT = re.compile(r".*_in_[A-Za-z]+")

Wanted = float | str | bool
"""What a site must have of one name."""


def needs(
    value: object, *, sites: Collection[str]
) -> tuple[Mapping[str, Mapping[str, Wanted]], tuple[str, ...]]:
    """What the job needs at each site that says so, by name; and what has no effect, as sentences.

    `sites`: the server, if it has an app, and the sites with an app. Raises InvalidRequest with the
    field."""
    if value is None:
        return {}, ()
    if not isinstance(value, Mapping):
        raise InvalidRequest(
            f'{SPEC} must be an object: what the job needs by site, such as {{"site-1": '
            '{"num_gpus": 1}}',
            field=SPEC,
        )
    warnings: list[str] = []
    found = {site: _needs_at(site, spec, warnings) for site, spec in value.items()}
    if (default := found.pop(DEFAULT, None)) is not None:
        _check_default(value[DEFAULT])
        for site in sites:
            if site != SERVER:
                found[site] = {**default, **found.get(site, {})}
    if idle := [site for site in found if site not in sites]:
        warnings.append(
            f"{SPEC} of {', '.join(idle)} has no effect: deploy_map deploys no app there (it does "
            f"to: {', '.join(sites)})"
        )
    at_sites = {site: _without_nothing(spec) for site, spec in found.items() if site in sites}
    return at_sites, tuple(warnings)


def _needs_at(site: str, spec: object, warnings: list[str]) -> dict[str, Wanted]:
    """What one entry asks for."""
    field = f"{SPEC}.{site}"
    if not isinstance(spec, Mapping):
        raise InvalidRequest(
            f'{field} must be an object: amounts by name, such as {{"num_gpus": 1}}', field=field
        )
    if any(name in spec for name in _LAUNCHERS):
        if others := [name for name in spec if name != _LAUNCHERS[0]]:
            warnings.append(
                f"{field}: {', '.join(others)} has no effect in the queue: beside launchers only "
                f"the entry '{_LAUNCHERS[0]}' counts"
            )
        return _needs_at(f"{site}.{_LAUNCHERS[0]}", spec.get(_LAUNCHERS[0]) or {}, warnings)
    read = [_need(field, name, amount) for name, amount in spec.items()]
    words = [SPELLINGS.get(name, name) for name, _ in read]
    for index, word in enumerate(words):
        if word in (earlier := words[:index]):
            first, second = [*spec][earlier.index(word)], [*spec][index]
            raise InvalidRequest(
                f"{field} asks for {first} and for {second}, which are the same: name one",
                field=f"{field}.{second}",
            )
    return dict(read)


def _check_default(spec: Mapping[str, object]) -> None:
    """Refuse names that FLARE does not give to every client."""
    for name in spec:
        if name not in {*_PORTABLE, _MEMORY[0]}:
            field = f"{SPEC}.{DEFAULT}.{name}"
            raise InvalidRequest(
                f"{field}: {DEFAULT} takes only {', '.join((*_PORTABLE, _MEMORY[0]))}; name what "
                "else a site must have under the site",
                field=field,
            )


def _without_nothing(spec: Mapping[str, Wanted]) -> dict[str, Wanted]:
    """What is asked for. Without GPUs, their memory means nothing."""
    kept = {name: amount for name, amount in spec.items() if amount or amount is False}
    if any(name in spec and name not in kept for name in GPUS):
        kept.pop(MEMORY_PER_GPU, None)
    return kept


def _need(site: str, name: str, amount: object) -> tuple[str, Wanted]:
    """The name that the pools know, and the amount, or the text or boolean."""
    field = f"{site}.{name}"
    if name == "slots" or not PROPERTY.fullmatch(name):
        raise InvalidRequest(
            f"{field}: '{name}' is no name of a resource or property"
            + ("; job.json's ResourceConfig says how many slots" if name == "slots" else ""),
            field=field,
        )
    if name in _PORTABLE or name == _MEMORY[0]:
        return _portable(field, name, amount)
    if name in GPUS and isinstance(amount, float):
        try:
            return name, gpus_number(read_gpus(amount))
        except ValueError as error:
            raise InvalidRequest(f"{field}: {error}", field=field) from None
    if isinstance(amount, int) and not isinstance(amount, bool):
        return name, _within(field, amount)
    if isinstance(amount, str) and (sized := _size(field, name, amount)) is not None:
        return sized
    if name not in _AMOUNTS and isinstance(amount, str | bool):
        return name, _as_it_is(field, amount)
    raise _no_number(field, amount, texts=name not in _AMOUNTS)


def _portable(field: str, name: str, amount: object) -> tuple[str, int]:
    """An amount that all launchers of FLARE know, in the queue's words. Raises InvalidRequest where
    FLARE refuses it."""
    if name == _MEMORY[0]:
        if isinstance(amount, str) and _MEMORY_SIZE.fullmatch(amount):
            sized = read_amount(_SIZE_OF.format(name), amount)
            return _MEMORY[1], _within(field, sized or 0)
        raise InvalidRequest(
            f'{field} must be a whole number followed by Mi, Gi or Ti, such as "64Gi", not '
            f"{amount!r:.60}",
            field=field,
        )
    word, least = _PORTABLE[name]
    if isinstance(amount, bool) or not isinstance(amount, int) or amount < least:
        raise InvalidRequest(
            f"{field} must be a whole number of at least {least}, not {amount!r:.60}", field=field
        )
    return word, _within(field, amount)


def _size(field: str, name: str, text: str) -> tuple[str, int] | None:
    """A number or a size, written as a text; None for any other text."""
    for known in (name, *(() if _HAS_UNIT.fullmatch(name) else (_SIZE_OF.format(name),))):
        if (amount := read_amount(known, text)) is not None:
            return known, _within(field, amount)
    return None


def _as_it_is(field: str, value: object) -> str | bool:
    if (read := traits.read(value)) is None:
        raise InvalidRequest(f"{field} must be {traits.RULE}, not {value!r:.60}", field=field)
    return read


def _within(field: str, amount: int) -> int:
    if not 0 <= amount <= MOST_OF_A_RESOURCE:
        raise InvalidRequest(
            f"{field} must be from 0 to {MOST_OF_A_RESOURCE:,}, not {amount}", field=field
        )
    return amount


def _no_number(field: str, value: object, *, texts: bool) -> InvalidRequest:
    others = ', or a size such as "16G"'
    if texts:
        others = ', a size such as "16G", a text, or true or false'
    return InvalidRequest(f"{field} must be a whole number{others}, not {value!r:.60}", field=field)
