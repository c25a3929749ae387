"""JSON <-> model for changes of the configuration: what a request may set, and the record."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from slotq_core.definitions import DURATIONS, LONGEST, MOST_SLOTS, SETTINGS, settings_of
from slotq_core.errors import InvalidRequest
from slotq_core.model.pools import Pool, PoolState
from slotq_core.moments import iso
from slotq_core.wire import VERSION, PoolSettingsView
from slotq_core.wire_body import BaseModel, invalid, json_object


def _seconds(key: str) -> Any:
    return Field(default=None, ge=DURATIONS[key], le=LONGEST, strict=True)


class PoolBody(BaseModel):
    """What shall be different about a pool; a pool that is not there is made, of `slots` and
    `instance_type` at least. What is not named stays. Durations are seconds, null stands for none.
    """

    model_config = ConfigDict(extra="forbid")
    slots: int = Field(default=0, ge=0, le=MOST_SLOTS, strict=True)
    """Below what is in use: nothing is stopped, and nothing starts until use has fallen."""
    instance_type: str = ""
    reserve_after: int | None = _seconds("reserve_after")
    min_runtime: int | None = _seconds("min_runtime")
    max_min_runtime: int | None = _seconds("max_min_runtime")
    time_slice: int | None = _seconds("time_slice")
    pending_timeout: int | None = _seconds("pending_timeout")
    count_foreign: bool = Field(default=False, strict=True)
    consolidate: bool = Field(default=False, strict=True)
    resources: dict[str, int] = Field(default_factory=dict)
    """All that it has besides slots."""
    state: PoolState = PoolState.ACTIVE
    revision: int | None = Field(default=None, ge=0, strict=True)
    """The configuration's, that this was decided on: refused if there is another by now."""


class PoolChangeView(BaseModel):
    """What became of one pool."""

    name: str
    before: PoolSettingsView | None
    """None: there was no such pool."""
    after: PoolSettingsView | None
    """None: it was removed."""


class ChangeView(BaseModel):
    """One change of the configuration."""

    revision: int
    who: str
    """Who signed the request; SLOTQ_POOLS where the pools came from the template."""
    at: str
    pools: list[PoolChangeView]
    """Those that differ."""
    order: list[str]
    """All pools after it, in their order."""


class ChangesView(BaseModel):
    version: int = VERSION
    changes: list[ChangeView]
    """The latest first."""


def parse_pool(body: str | bytes) -> tuple[dict[str, Any], int | None]:
    """The settings that a body names, as `definitions.defined` takes them, and the revision.

    Raises InvalidRequest with the field at fault.
    """
    given = json_object(body, what="the pool's settings")
    try:
        read = PoolBody.model_validate(given)
    except ValidationError as error:
        raise invalid(error) from None
    settings = read.model_dump(exclude_unset=True, exclude={"revision"})
    if not settings:
        raise InvalidRequest(f"say what shall change: {', '.join(SETTINGS)}")
    return settings, read.revision


def change_view(
    revision: int, *, who: str, at: int, before: tuple[Pool, ...], after: tuple[Pool, ...]
) -> ChangeView:
    old, new = ({pool.name: pool for pool in pools} for pools in (before, after))
    differ = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    pools = [
        PoolChangeView(name=name, before=_settings(old.get(name)), after=_settings(new.get(name)))
        for name in differ
    ]
    return ChangeView(revision=revision, who=who, at=iso(at), pools=pools, order=[*new])


def _settings(pool: Pool | None) -> PoolSettingsView | None:
    return PoolSettingsView(**settings_of(pool)) if pool else None
