"""Past use: what an attempt's day counts at an hour, in 64ths of all."""

from __future__ import annotations

import pytest

from slotq_core.model.demand import Demand
from slotq_core.model.projects import EVERYWHERE, NO_PAST_USE, PastUse, Project, UseOf
from slotq_core.model.sharing import FairShare, Sharing
from slotq_core.usage.attempt_use import AttemptUse, PartUse
from slotq_core.usage.calendar_days import DAY
from slotq_core.usage.past_use import (
    DayUse,
    add_attempt,
    decayed,
    hour_of,
    is_due,
    parts_of,
    past_use,
)

HOUR = 3_600_000
TWO = (Project(name="a"), Project(name="b"))
SHARING = Sharing(projects=TWO, fair_share=FairShare(half_life=DAY))


def attempt(project: str, start: int, end: int | None, slots: int = 1, **fields) -> AttemptUse:
    given = {"pool": "p", **fields}
    return AttemptUse(
        job=f"{project}{start}",
        number=1,
        project=project,
        workload="training",
        instance_type="ml.m5.large",
        slots=slots,
        admitted_at=start,
        ended_at=end,
        **given,
    )


def counted(*uses: AttemptUse, at: int, sharing: Sharing = SHARING) -> PastUse:
    found: DayUse = {}
    for use in uses:
        add_attempt(found, use, at)
    return past_use([found], at, sharing)


@pytest.mark.parametrize(
    ("age", "counts"),
    [
        (-5 * HOUR, 6400),
        (0, 6400),
        (12 * HOUR, 4800),
        (DAY, 3200),
        (DAY + 12 * HOUR, 2400),
        (3 * DAY, 800),
        (8 * DAY - 1, 25),
        (8 * DAY, 0),
    ],
)
def test_use_halves_with_each_half_life_and_is_forgotten_after_eight(age: int, counts: int) -> None:
    assert decayed(6400, age, DAY) == counts


def test_the_parts_add_up_to_one_and_remainders_go_to_the_largest_fraction() -> None:
    assert parts_of({"a": 1, "b": 1, "c": 1}) == {"a": 22, "b": 21, "c": 21}
    assert parts_of({"a": 999, "b": 1}) == {"a": 64}
    assert parts_of({"a": 5}) == {"a": 64}


def test_use_counts_until_the_hour_and_by_the_end_of_its_day() -> None:
    at = DAY + 12 * HOUR
    found = counted(
        attempt("a", 0, 2 * HOUR), attempt("b", at - HOUR, None), attempt("b", at, at + HOUR), at=at
    )
    # The two hours of the day before are half a half-life old: one and a half hours.
    assert found.parts == {EVERYWHERE: {"a": 38, "b": 26}}
    assert found.slot_seconds == {EVERYWHERE: 5400 + 3600}
    assert counted(attempt("a", at + 1, None), at=at).parts == {}


def test_projects_that_are_gone_do_not_count() -> None:
    found = counted(attempt("gone", 0, HOUR), attempt("", 0, HOUR), attempt("a", 0, 1), at=HOUR)
    assert found.parts == {EVERYWHERE: {"a": 64}}


def test_with_quotas_by_pool_each_pool_counts_by_itself() -> None:
    sharing = Sharing(
        projects=(Project(name="a", quota={"p": Demand(slots=1)}), Project(name="b")),
        fair_share=FairShare(),
    )
    both = (PartUse("p", "", 1), PartUse("q", "", 3))
    found = counted(
        attempt("a", 0, HOUR, parts=both, slots=4),
        attempt("b", 0, HOUR, pool="q"),
        at=HOUR,
        sharing=sharing,
    )
    assert found.parts == {"p": {"a": 64}, "q": {"a": 48, "b": 16}}
    assert counted(attempt("a", 0, HOUR, parts=both, slots=4), at=HOUR).slot_seconds == {
        EVERYWHERE: 4 * 3600
    }


def test_an_attempt_on_a_node_counts_its_part_of_the_slot() -> None:
    found = counted(
        attempt("a", 0, HOUR, part_of_slot=(1, 8)),
        attempt("b", 0, HOUR, part_of_slot=(3, 8)),
        at=HOUR,
    )
    assert found.parts == {EVERYWHERE: {"a": 16, "b": 48}}


def test_what_was_counted_before_goes_on_losing() -> None:
    before = counted(attempt("a", 0, HOUR), attempt("b", 0, HOUR), at=HOUR)
    found = past_use([], HOUR + DAY, SHARING, before)
    assert found.parts == before.parts
    assert found.slot_seconds == {EVERYWHERE: 3600}
    later: DayUse = {}
    add_attempt(later, attempt("b", DAY, DAY + HOUR), HOUR + DAY)
    assert past_use([later], HOUR + DAY, SHARING, before).parts == {EVERYWHERE: {"a": 16, "b": 48}}


def test_it_is_due_each_hour_and_when_the_settings_change() -> None:
    found = counted(at=5 * HOUR)
    assert not is_due(found, SHARING, 6 * HOUR - 1)
    assert is_due(found, SHARING, 6 * HOUR)
    assert is_due(found, Sharing(projects=TWO, fair_share=FairShare()), 5 * HOUR)
    by_pool = (Project(name="a", quota={"p": Demand(slots=1)}),)
    changed = Sharing(projects=by_pool, fair_share=SHARING.fair_share)
    assert is_due(found, changed, 5 * HOUR)
    assert not is_due(NO_PAST_USE, Sharing(projects=TWO), 5 * HOUR)
    assert hour_of(6 * HOUR - 1) == 5 * HOUR


def test_the_use_of_users_counts_by_project_and_only_where_it_is_asked_for() -> None:
    uses = (
        attempt("a", 0, HOUR, slots=3, submitter="anna"),
        attempt("a", 0, HOUR, submitter="ben", pool="q"),
        attempt("b", 0, HOUR, submitter="anna"),
        attempt("gone", 0, HOUR, submitter="anna"),
    )
    by_users = Sharing(projects=TWO, fair_share=FairShare(half_life=DAY, of=UseOf.USERS))
    found = counted(*uses, at=HOUR, sharing=by_users)
    assert found.users == {"a": {"anna": 48, "ben": 16}, "b": {"anna": 64}}
    assert found.user_slot_seconds == {"a": 4 * 3600, "b": 3600}
    assert (found.parts, found.slot_seconds) == ({}, {})
    assert counted(*uses, at=HOUR).users == {}
    both = Sharing(projects=TWO, fair_share=FairShare(half_life=DAY, of=UseOf.BOTH))
    assert counted(*uses, at=HOUR, sharing=both).users == found.users
    assert counted(*uses, at=HOUR, sharing=both).parts == counted(*uses, at=HOUR).parts
    alone = Sharing(fair_share=FairShare(half_life=DAY, of=UseOf.USERS))
    of_all = counted(attempt("", 0, HOUR, submitter="anna"), at=HOUR, sharing=alone)
    assert of_all.users == {"": {"anna": 64}}


def test_what_users_used_before_goes_on_losing() -> None:
    by_users = Sharing(projects=TWO, fair_share=FairShare(half_life=DAY, of=UseOf.USERS))
    before = counted(attempt("a", 0, HOUR, submitter="anna"), at=HOUR, sharing=by_users)
    later: DayUse = {}
    add_attempt(later, attempt("a", DAY, DAY + HOUR, submitter="ben"), HOUR + DAY)
    found = past_use([later], HOUR + DAY, by_users, before)
    assert found.users == {"a": {"anna": 21, "ben": 43}}


def test_a_change_of_whose_use_counts_is_due_at_once() -> None:
    found = counted(at=5 * HOUR)
    by_users = Sharing(projects=TWO, fair_share=FairShare(half_life=DAY, of=UseOf.USERS))
    assert is_due(found, by_users, 5 * HOUR)
