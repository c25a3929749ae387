"""A fortnight of three teams of equal weight. Two of them use the pool for a week; the third is
idle and bursts on day seven. All times are in seconds."""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from slotq.simulate import simulate
from slotq.simulate.scenario.scenario import Scenario

HOUR = 3_600
DAY = 24 * HOUR
SLOTS = 24
BURST = 7 * DAY
END = 14 * DAY
HALF_LIFE = {"half_life": "2d"}


def even(chance: random.Random) -> list[dict[str, Any]]:
    """Each team always has jobs that wait."""
    return [
        {
            "name": f"{team}{number}",
            "project": team,
            "submit_at": first if number < 2 * SLOTS else chance.randint(first, END),
            "runtime": chance.randint(2 * HOUR, 6 * HOUR),
        }
        for team, first in (("a", 0), ("b", 0), ("c", BURST))
        for number in range(SLOTS * (END - first) // (4 * HOUR))
    ]


def by_day(chance: random.Random) -> list[dict[str, Any]]:
    """Teams submit on working days, most of it before noon, and some of it is urgent."""
    found = []
    for day in range(14):
        load = 1.5 if day % 7 < 5 else 0.4
        for team in "ab" if day < 7 else "abc":
            share = SLOTS // (2 if day < 7 else 3)
            for number in range(int(load * 24 * share / 5.4)):
                start = int(chance.triangular(6, 20, 10) * HOUR)
                found.append(
                    {
                        "name": f"{team}{day}-{number}",
                        "project": team,
                        "submit_at": day * DAY + start,
                        "slots": chance.choice((1, 1, 1, 2, 4)),
                        "priority": int(chance.random() < 0.2),
                        "runtime": chance.randint(HOUR, 5 * HOUR),
                    }
                )
    return found


@cache
def played(kind: Any, *, over_time: bool) -> tuple[list[tuple[str, float, float, int]], int]:
    """What was held (team, from, until, slots), and the number of evictions."""
    jobs = kind(random.Random(7))
    world = {
        "pools": [{"name": "p", "capacity": SLOTS}],
        "projects": [{"name": team, "quota": 0, "weight": 1} for team in "abc"],
        "jobs": jobs,
        "until": END,
        **({"fair_share": HALF_LIFE} if over_time else {}),
    }
    record = simulate(Scenario.model_validate(world))
    slots = {job["name"]: (job["project"], job.get("slots", 1)) for job in jobs}
    since: dict[str, float] = {}
    held, evictions = [], 0
    for event in record.events:
        evictions += event.event == "evict"
        if event.event == "start":
            since[event.job] = event.t / 1000
        elif event.job in since:
            team, count = slots[event.job]
            held.append((team, since.pop(event.job), event.t / 1000, count))
    held += [(slots[job][0], at, END, slots[job][1]) for job, at in since.items()]
    return held, evictions


def parts(kind: Any, start: int, end: int, *, over_time: bool = True) -> dict[str, float]:
    """Each team's part of what was held in a span."""
    found = dict.fromkeys("abc", 0.0)
    for team, since, until, slots in played(kind, over_time=over_time)[0]:
        found[team] += max(0, min(until, end) - max(since, start)) * slots
    return {team: found[team] / sum(found.values()) for team in "abc"}


def test_the_idle_team_reaches_its_share_at_once_and_goes_above_it_within_two_hours() -> None:
    assert parts(even, BURST, BURST + HOUR)["c"] > 1 / 3
    assert parts(even, BURST + 2 * HOUR, BURST + 3 * HOUR)["c"] > 0.6
    assert parts(even, BURST, BURST + HOUR, over_time=False)["c"] == pytest.approx(1 / 3, abs=0.02)


def test_it_stays_above_its_share_for_days_and_comes_back_to_it() -> None:
    days = [parts(even, BURST + day * DAY, BURST + (day + 1) * DAY)["c"] for day in range(7)]
    assert days[0] > 0.5 and days[1] > 0.4
    assert all(later < earlier + 0.02 for earlier, later in pairwise(days))
    last = parts(even, END - DAY, END)
    assert all(part == pytest.approx(1 / 3, abs=0.05) for part in last.values())


def test_past_use_evicts_hardly_more() -> None:
    with_it, without = (played(by_day, over_time=over_time)[1] for over_time in (True, False))
    assert without > 100
    assert with_it <= 1.1 * without
    week = parts(by_day, BURST, END)
    assert week["c"] > parts(by_day, BURST, END, over_time=False)["c"] + 0.03
