"""One route of the API: its path and method, what it needs and does, and its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slotq_core.model.callers import Action

if TYPE_CHECKING:
    from slotq_core.api.router import Answer
    from slotq_core.api.routes import Handlers

Schema = Mapping[str, object]

TEXT: Schema = {"type": "string"}
MOMENT: Schema = {"type": "string", "format": "date-time"}
COUNT: Schema = {"type": "integer", "minimum": 0}
SWITCH: Schema = {"type": "boolean", "default": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A parameter of the query."""

    name: str
    meaning: str
    schema: Schema


DRY_RUN = "dry_run"
"""The parameter of requests that only ask what would come of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Returned:
    """A successful answer: its status, meaning and model."""

    status: int = 200
    meaning: str
    model: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """A path with a method. In its texts the number of that name replaces `{MOST_…}`
    (`openapi.NUMBERS`)."""

    path: str
    """`<name>` matches any one part."""
    method: str
    action: Action
    """What it is to the caller's rights (`model.callers.NEEDED`). OPERATE is checked before
    the handler runs; what concerns a job is checked where the job is known."""
    handler: Callable[[Handlers], Answer]
    operation: str
    """The name in the description."""
    summary: str
    description: str = ""
    query: tuple[Parameter, ...] = ()
    body: str = ""
    """The body's model; empty: none."""
    returns: tuple[Returned, ...]
    errors: tuple[int, ...] = ()
    """Statuses of refusals; besides 500 and 503."""
    tagged: bool = False
    """Whether answers have entity tags (`api.tags`): what people look at again and again."""

    @property
    def known(self) -> tuple[str, ...] | None:
        """The parameters that the query may have; None: any, which are ignored. A route that
        changes something refuses unknown ones: a misspelt `dry_run` must not cause the change."""
        ignores = self.method == "GET" and not self.query
        return None if ignores else tuple(parameter.name for parameter in self.query)
