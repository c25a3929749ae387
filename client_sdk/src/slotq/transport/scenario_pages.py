"""Put the pages of the whole queue together."""

from __future__ import annotations

from collections.abc import Callable

from slotq.errors import Outdated
from slotq_core.wire.scenario.views import ScenarioView

TRIES = 4
"""How often the pages are read from the first on, where the queue changes between two of them."""


def whole_scenario(page: Callable[[str | None], ScenarioView]) -> ScenarioView:
    """The queue in all its pages. `page` reads the page of a cursor; None: the first.

    All pages are of one queue: where it changes in between, they are read again. After `TRIES` the
    first page is returned, which is whole in itself and says how many jobs it leaves out.
    """
    for _ in range(TRIES):
        first = page(None)
        try:
            return _with_the_rest(first, page)
        except Outdated:
            continue
    return first.model_copy(update={"next": None})


def _with_the_rest(first: ScenarioView, page: Callable[[str | None], ScenarioView]) -> ScenarioView:
    jobs, groups, yields = [*first.jobs], [*first.groups], [*first.yields]
    last = first
    while last.next is not None:
        last = page(last.next)
        jobs += last.jobs
        groups += last.groups
        yields += last.yields
    return first.model_copy(
        update={
            "jobs": jobs,
            "groups": groups,
            "yields": yields,
            "left_out": last.left_out,
            "next": None,
        }
    )
