"""Decide whose turn it is: in each tick every submitter has an equal part.

A submitter's places form a ring. A turn takes one place from each ring in succession, so a
submitter with few callbacks has all of them looked at, however many another submitter has. Tokens
that were replaced have turns of their own: they take none from the heartbeats.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from slotq_core.ports.callbacks import KeptCallback

Page = Callable[[str, int], Sequence[str]]
"""Returns the first n places above a place, in order."""

REPLACED = 4
"""One replaced token has its turn with so many others."""

_NEWEST, _OLD, _END = "!", "~", "\x7f"
"""Below the places of newest tokens, below those of replaced ones, above all."""

_MOST_NOTED = 2000
"""Rings whose turn is remembered; beyond, all rings but the latest begin anew."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The places of one tick."""

    places: Sequence[str]
    more: bool
    """Whether there may be others."""


def turn(page: Page, behind: Mapping[str, str], *, limit: int) -> Turn:
    """Return the places whose turn it is. `behind`: as `noted` has returned it."""
    for_replaced = max(1, limit // REPLACED)
    newest = _taken(page, behind, (_NEWEST, _OLD), limit)
    replaced = _taken(page, behind, (_OLD, _END), for_replaced)
    more = len(newest) == limit or len(replaced) == for_replaced
    mixed: list[str] = []
    for place in range(max(-(-len(newest) // REPLACED), len(replaced))):
        mixed += newest[REPLACED * place : REPLACED * (place + 1)]
        mixed += replaced[place : place + 1]
    return Turn(mixed, more)


def noted(behind: Mapping[str, str], looked_at: Iterable[KeptCallback]) -> dict[str, str]:
    """Return where the next turn goes on: the last place of each ring, and the last ring of the
    newest and of the replaced tokens."""
    latest: dict[str, str] = {}
    for kept in looked_at:
        ring = _ring_of(kept.place)
        latest |= {ring: kept.place, _OLD if kept.superseded else _NEWEST: ring}
    return latest if len(behind) > _MOST_NOTED else {**behind, **latest}


def pages(places: Sequence[str]) -> Page:
    """Return the pages of places that are all known, in order."""

    def page(above: str, number: int) -> Sequence[str]:
        begin = bisect_right(places, above)
        return places[begin : begin + number]

    return page


def _taken(page: Page, behind: Mapping[str, str], within: tuple[str, str], most: int) -> list[str]:
    """Return one place of each ring in succession, as long as there are any."""
    begin, end = within
    last = behind.get(begin, "")
    middle = _above(last) if last else begin
    names = [*islice(chain(_rings(page, middle, end), _rings(page, begin, middle)), most)]
    at_once = -(-most // len(names)) if names else 1
    rings = deque(_ring(page, name, behind.get(name, ""), at_once) for name in names)
    found: list[str] = []
    while rings and len(found) < most:
        ring = rings.popleft()
        place = next(ring, None)
        if place is not None:
            found.append(place)
            rings.append(ring)
    return found


def _rings(page: Page, above: str, below: str) -> Iterator[str]:
    """Yield the names of the rings between two places."""
    while above < below:
        place = next(iter(page(above, 1)), below)
        if place >= below:
            return
        yield _ring_of(place)
        above = _above(_ring_of(place))


def _ring(page: Page, name: str, last: str, at_once: int) -> Iterator[str]:
    """Yield each place of a ring once, those behind the last one first."""
    begin, end = f"{name}#", _above(name)
    yield from _places(page, last or begin, end, at_once)
    yield from _places(page, begin, last or begin, at_once)


def _places(page: Page, above: str, until: str, at_once: int) -> Iterator[str]:
    """Yield the places above one, until another, that one included."""
    while above < until:
        some = [place for place in page(above, at_once) if place <= until]
        yield from some
        above = some[-1] if len(some) == at_once else until


def _ring_of(place: str) -> str:
    return place.partition("#")[0]


def _above(ring: str) -> str:
    """Above each place of a ring, below those of the next: `$` comes after `#`."""
    return f"{ring}$"
