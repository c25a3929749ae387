"""Past use moves the surplus and nothing else; in any order it adds up to the same."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.projects import EVERYWHERE, PARTS, PastUse, Project, UseOf
from slotq_core.model.sharing import FairShare, Sharing
from slotq_core.policy.state.quotas.fair_shares import Sharer, divide
from slotq_core.usage.attempt_use import AttemptUse
from slotq_core.usage.calendar_days import DAY
from slotq_core.usage.past_use import DayUse, add_attempt, past_use
from slotq_core.wire.document.sections import FairShareSection
from tests.property.test_projects import worlds

HOUR = 3_600_000
AMOUNTS = st.integers(0, 12)


@st.composite
def sharers(draw: st.DrawFn) -> list[Sharer]:
    return [
        Sharer(
            name=name,
            age=age,
            quota=draw(AMOUNTS),
            limit=draw(st.none() | AMOUNTS),
            request=draw(AMOUNTS),
            weight=draw(st.sampled_from([None, 0, 1, 3])),
            priority=draw(st.integers(0, 1)),
            past=draw(st.integers(0, 64)),
        )
        for age, name in enumerate("abcde"[: draw(st.integers(1, 5))])
    ]


@given(sharers(), st.integers(0, 40), st.integers(0, 100))
def test_quotas_stay_and_the_whole_surplus_is_divided(
    everyone: list[Sharer], total: int, influence: int
) -> None:
    without, shares = divide(total, everyone), divide(total, everyone, influence)
    for sharer in everyone:
        assert min(sharer.quota, sharer.most) <= shares[sharer.name] <= sharer.most
        if sharer.weight == 0:
            assert shares[sharer.name] == without[sharer.name] == min(sharer.quota, sharer.most)
    assert sum(shares.values()) == sum(without.values())
    if influence == 0 or not any(sharer.past for sharer in everyone):
        assert shares == without


@st.composite
def attempts(draw: st.DrawFn) -> list[AttemptUse]:
    found = []
    for number in range(draw(st.integers(0, 12))):
        start = draw(st.integers(0, 20 * DAY))
        found.append(
            AttemptUse(
                job=f"j{number}",
                number=1,
                project=draw(st.sampled_from("abcx")),
                submitter=draw(st.sampled_from(["", "anna", "ben"])),
                workload="training",
                pool=draw(st.sampled_from("pq")),
                instance_type="",
                slots=draw(st.integers(1, 9)),
                admitted_at=start,
                ended_at=draw(st.none() | st.integers(start, start + 3 * DAY)),
            )
        )
    return found


@given(attempts(), st.randoms(use_true_random=False), st.integers(0, 30 * 24), st.integers(1, 9))
def test_any_order_adds_up_to_the_same_and_all_parts_to_one(
    uses: list[AttemptUse], chance: Random, hour: int, half_life: int
) -> None:
    projects = tuple(Project(name=name) for name in "abc")
    settings = FairShare(half_life=half_life * DAY, of=UseOf.BOTH)
    sharing = Sharing(projects=projects, fair_share=settings)

    def counted(order: list[AttemptUse], parts: int) -> PastUse:
        found: list[DayUse] = [{} for _ in range(parts)]
        for number, use in enumerate(order):
            add_attempt(found[number % parts], use, hour * HOUR)
        return past_use(found, hour * HOUR, sharing)

    first = counted(uses, 1)
    mixed = [*uses]
    chance.shuffle(mixed)
    assert counted(mixed, 3) == first
    own = first.parts.get(EVERYWHERE, {})
    assert sum(own.values()) == (PARTS if own else 0)
    assert own.keys() <= {"a", "b", "c"}
    assert first.users.keys() == own.keys() | {
        project for project, used in first.user_slot_seconds.items() if used >= 0
    }
    assert all(sum(parts.values()) == PARTS for parts in first.users.values())


@given(worlds(), st.sampled_from([50, 100]), st.sampled_from(UseOf))
def test_live_and_simulated_past_use_are_equal(
    scenario: Scenario, influence: int, of: UseOf
) -> None:
    """With runtimes of hours, so that past use changes while jobs run."""
    jobs = tuple(
        job.model_copy(
            update={
                key: getattr(job, key) * 200
                for key in ("submit_at", "running_since", "runtime", "cancel_at")
                if getattr(job, key) is not None
            }
        )
        for job in scenario.jobs
    )
    section = FairShareSection(half_life="1d", influence=influence / 100, of=of)
    slow = scenario.model_copy(
        update={"fair_share": section, "jobs": jobs, "until": (scenario.until or 0) * 40}
    )
    assert unequal(simulate(slow), live_record(slow)) == []
