"""The rules of `resource_spec`: what the job needs at each site.

A number is an amount of a resource, which the job takes from the site's pool while it runs, or of a
property, which the pool must have at least. The pools say which of the two a name is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from slotq.errors import InvalidRequest
from slotq_core.wire.pool_definition import MOST_OF_A_RESOURCE, PROPERTY, read_amount

FIELD = "resource_spec"
_SIZE_OF = "{}_in_GiB"
"""The name of a property that is written as a size: `"mem_per_gpu": "16G"`."""
_HAS_UNIT = re.compile(r".*_in_[A-Za-z]+")


def needs(value: object, *, sites: Collection[str]) -> Mapping[str, Mapping[str, int]]:
    """What the job needs at each site that says so, by name. `sites`: the server, if it has an app,
    and the sites with an app. Raises InvalidRequest with the field."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRequest(
            f'{FIELD} must be an object: what the job needs by site, such as {{"site-1": '
            '{"num_gpus": 1}}',
            field=FIELD,
        )
    found = {}
    for site, spec in value.items():
        field = f"{FIELD}.{site}"
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


def _need(site: str, name: str, amount: object) -> tuple[str, int]:
    """The name that the pools know, and the amount."""
    field = f"{site}.{name}"
    if name == "slots" or not PROPERTY.fullmatch(name):
        raise InvalidRequest(
            f"{field}: '{name}' is no name of a resource or property"
            + ("; job.json's ResourceConfig says how many slots" if name == "slots" else ""),
            field=field,
        )
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
