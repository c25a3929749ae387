"""Misspelt names: the known names that are near, for hints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

MOST_COMPARED = 1_000
"""The most known names that a hint compares: each costs time, and the queue may have many."""
LONGEST_COMPARED = 64
"""Characters of a name. A longer name is no misspelling, and would be slow to compare."""
_SHOWN = 12
"""The most known names that a message lists."""
_AKIN = 0.6
"""The least similarity (difflib's ratio) for a hint about a name that is refused anyway."""


def near_names(name: str, known: Iterable[str], alike: float) -> list[str]:
    """The known names that this one may misspell, the nearest first: those equal but for case,
    spaces, hyphens and underscores, then those at least `alike` similar (0 to 1)."""
    if len(name) > LONGEST_COMPARED:
        return []
    names, plain = [*known], plain_name(name)
    same = [candidate for candidate in names if plain_name(candidate) == plain]
    from difflib import get_close_matches  # Imported only for misspelt names.

    return [*same, *(get_close_matches(name, names, n=len(names), cutoff=alike) if names else [])]


def nearest(name: str, known: Iterable[str], alike: float) -> str | None:
    """The nearest of `near_names`; None if no name is near."""
    return next(iter(near_names(name, known, alike)), None)


def similar_name(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name, for a hint; None if none is similar."""
    return nearest(name, known, _AKIN)


def similar_names(name: str, known: Iterable[str], most: int) -> list[str]:
    """At most `most` similar names among the first MOST_COMPARED, the nearest first; case does not
    count."""
    folded: dict[str, list[str]] = {}
    for candidate in islice(known, MOST_COMPARED):
        folded.setdefault(candidate.casefold(), []).append(candidate)
    found = dict.fromkeys(near_names(name.casefold(), folded, _AKIN))
    return [candidate for near in found for candidate in folded[near]][:most]


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """The end of a message: `; did you mean 'main'?`, with at most `most` similar names. Empty if
    no known name is similar."""
    found = similar_names(name, known, most)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def unknown(what: str, name: str, known: Iterable[str], *, whose: str = "the") -> str:
    """The message `there is no pool 'p6'; the pools are p5, p4; did you mean 'p5'?`."""
    names, plural = [*known], f"{what}es" if what.endswith("s") else f"{what}s"
    lead = f"there is no {what} '{name[:LONGEST_COMPARED]}'"
    if not names:
        return f"{lead}; {'you have none' if whose == 'your' else f'there are no {plural}'}"
    return f"{lead}; {whose} {plural} are {listed(names)}{did_you_mean(name, names)}"


def listed(names: Iterable[str], none: str = "none") -> str:
    """Names for a message: at most twelve, then a count."""
    every = list(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more if every else none


def as_known(name: str, known: Iterable[str]) -> str | None:
    """The known name as it is written, if it is this one or, but for case, this one alone; else
    None."""
    names = {*known}
    if name in names:
        return name
    same = [candidate for candidate in names if candidate.casefold() == name.casefold()]
    return same[0] if len(same) == 1 else None


def plain_name(name: str) -> str:
    """A name without case, spaces, hyphens and underscores."""
    return re.sub(r"[\s_-]", "", name).casefold()
