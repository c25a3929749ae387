"""Assigns colours: to projects if there are any, else to priorities."""

from __future__ import annotations

from collections import Counter

import matplotlib as mpl

from slotq.simulate.run.record import Record
from slotq.simulate.run.timeline import holdings
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import JobSpec

_COLOURS = [mpl.colors.to_hex(mpl.colormaps["tab10"](n)) for n in (0, 1, 2, 3, 4, 5, 6, 8, 9)]
"""The colours of tab10 without its grey."""
OTHERS = "others"
"""The name of all groups beyond these colours."""
_GREY = "#b0b0b0"


class Palette:
    """The groups of a run, each with a colour: those that held most, projects by slots held,
    priorities highest first."""

    def __init__(self, scenario: Scenario, record: Record, end: int) -> None:
        self._scenario = scenario
        self.by_project = bool(scenario.projects)
        held = Counter({self._own(spec): 0 for spec in scenario.jobs})
        for each in holdings(scenario, record, end):
            held[self._own(each.job)] += each.slots * (each.until - each.since)
        most = [name for name, _ in held.most_common()]
        kept = most[: len(_COLOURS)]
        if not self.by_project:
            kept.sort(key=int, reverse=True)
        self.groups = [*kept, *([OTHERS] if len(kept) < len(most) else [])]
        self._colours = {name: self._colour(place, len(kept)) for place, name in enumerate(kept)}

    def group(self, job: JobSpec) -> str:
        own = self._own(job)
        return own if own in self._colours else OTHERS

    def colour(self, group: str) -> str:
        return self._colours.get(group, _GREY)

    def label(self, group: str) -> str:
        if group == OTHERS:
            return OTHERS
        return f"{'project' if self.by_project else 'priority'} {group}"

    def _own(self, job: JobSpec) -> str:
        return job.project or "" if self.by_project else str(self._scenario.priority_of(job))

    def _colour(self, place: int, count: int) -> str:
        if self.by_project:
            return _COLOURS[place]
        shade = 0.5 if count == 1 else 0.15 + 0.7 * place / (count - 1)
        return str(mpl.colors.to_hex(mpl.colormaps["plasma"](shade)))
