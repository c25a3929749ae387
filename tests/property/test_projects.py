"""The promises between projects: shares, quotas, limits and reclaim, on random scenarios."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import JobSpec, PoolSpec
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import Fairness
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lines import in_lines
from slotq_core.policy.plan import Evict, Plan, Start
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.may_evict import may_evict
from slotq_core.policy.state.quotas.accounts import Accounts
from slotq_core.policy.state.quotas.fair_shares import Sharer, divide
from slotq_core.policy.state.quotas.gate import Taking, givers, may_reclaim
from slotq_core.policy.state.quotas.in_quota import in_quota
from slotq_core.policy.state.quotas.limits import QuotaLimits
from slotq_core.policy.state.quotas.shares import Shares
from slotq_core.wire.document.sections import ProjectSection
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.in_vain import nobody_starts_in_vain
from tests.property.test_runs import decides_nothing_before_its_time


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """One or two pools, up to three projects; jobs that wait at the start or arrive a little later,
    for one pool or for all."""
    pools = [
        PoolSpec(
            name=name, capacity=draw(st.integers(1, 5)), stop_seconds=draw(st.sampled_from([0, 3]))
        )
        for name in ("p", "q")[: draw(st.integers(1, 2))]
    ]
    names = ("a", "b", "c")[: draw(st.integers(1, 3))]
    departments = draw(st.sampled_from([(), ("d",), ("d", "e")]))
    projects = [
        ProjectSection(
            name=name,
            quota=draw(st.integers(0, 3)),
            weight=draw(st.sampled_from([None, 0, 1, 3])),
            limit=draw(st.sampled_from([None, None, None, 2, 4])),
            priority=draw(st.integers(0, 1)),
            over_quota=draw(st.sampled_from([True, True, True, False])),
            department=draw(st.sampled_from(["", *departments])),
        )
        for name in names
    ]
    accepted = [tuple(pool.name for pool in pools), *((pool.name,) for pool in pools)]
    jobs = [draw(_job(f"j{i}", names, accepted)) for i in range(draw(st.integers(1, 9)))]
    return Scenario(
        pools=pools,
        projects=projects,
        departments=[{"name": name} for name in departments],
        jobs=jobs,
        until=2_000,
    )


@st.composite
def _job(
    draw: st.DrawFn, name: str, projects: tuple[str, ...], accepted: list[tuple[str, ...]]
) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": name,
            "project": draw(st.sampled_from(projects)),
            "pools": draw(st.sampled_from(accepted)),
            "priority": draw(st.integers(0, 2)),
            "slots": draw(st.integers(1, 3)),
            "runtime": draw(st.sampled_from([None, 5, 40])),
            "preemptible": draw(st.sampled_from([True, True, "semi", False])),
            "submit_at": draw(st.sampled_from([-5, 0, 0, 10, 20])),
        }
    )


def _accounts(snapshot: Snapshot, journal: Journal | None = None) -> Accounts:
    """The accounts of a plan."""
    asked = may_evict(in_quota(snapshot))
    lines = in_lines(snapshot.waiting)
    return Accounts(snapshot, lines, journal or Journal(), may_evict=asked)


@given(worlds())
def test_the_queue_comes_to_rest(scenario: Scenario) -> None:
    """Promise 9: no two jobs evict each other in turn without another change, such as another job's
    start and end."""
    seen: dict[object, int] = {}
    known: set[str] = set()

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        known.update(job.name for job in (*snapshot.active, *snapshot.waiting))
        if any(isinstance(decision, Evict) for decision in planned.decisions):
            holders = frozenset((job.name, job.state, job.attempt.pool) for job in snapshot.active)
            waiting = frozenset(job.name for job in snapshot.waiting)
            state = (holders, waiting, frozenset(known))
            assert state not in seen, f"the same eviction at {seen[state]} and at {now}"
            seen[state] = now

    record = simulate(scenario, watch)
    assert len(record.events) < 500


@given(worlds())
def test_limits_and_capacity_always_hold(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, _planned: Plan, now: int) -> None:
        for pool in snapshot.pools:
            used = sum((j.demand for j in snapshot.active if j.attempt.pool == pool.name), Demand())
            assert used.within(pool.capacity)
        for project in scenario.projects:
            held = [job for job in snapshot.active if job.project == project.name]
            slots = sum(job.demand.slots for job in held)
            fixed = sum(job.demand.slots for job in held if not job.evictable)
            assert isinstance(project.quota, int) and not isinstance(project.limit, dict)
            bound = project.limit if project.limit is not None else slots
            bound = min(bound, project.quota) if not project.over_quota else bound
            assert slots <= bound, (project.name, now)
            assert fixed <= project.quota, (project.name, now)

    simulate(scenario, watch)


@given(worlds())
def test_a_reclaim_is_gated(scenario: Scenario) -> None:
    """A reclaimer stays within its fair share and takes from a project above its own."""

    def watch(snapshot: Snapshot, planned: Plan, _now: int) -> None:
        books = _accounts(snapshot)
        for decision in planned.decisions:
            if isinstance(decision, Start):
                _take_claim(books, decision.job)
                books.take(decision.job, decision.pool)
            elif isinstance(decision, Evict):
                _check_the_gate(books, decision)

    simulate(scenario, watch)


def _take_claim(books: Accounts, job: Job) -> None:
    """The claim counts from the start of the run."""
    if job.claim:
        books.take_claim(job, job.claim.pool)


def _check_the_gate(books: Accounts, decision: Evict) -> None:
    job, pool = decision.beneficiary, decision.claim.pool
    _take_claim(books, job)
    mine = books.of(job, pool)[0]
    owners = {victim.project for victim in decision.victims}
    assert owners == {job.project} or job.project not in owners
    if job.project not in owners:
        assert (mine.used + job.demand).within(mine.share)
    for victim in decision.victims:
        theirs = books.of(victim, pool)[0]
        in_quota = (mine.used + job.demand).within(mine.quota)
        if victim.project != job.project:
            assert theirs.over_share() or (in_quota and theirs.over_quota())
        books.evict(victim, victim.attempt.pool)
    books.take(job, pool)


@given(worlds(), st.sampled_from(Fairness))
def test_the_kept_givers_are_those_that_the_gate_lets_give(
    scenario: Scenario, fairness: Fairness
) -> None:
    """Narrow = naive, after each decision and after its rollback."""

    def watch(snapshot: Snapshot, planned: Plan, _now: int) -> None:
        departments = tuple(replace(each, fairness=fairness) for each in snapshot.departments)
        world = replace(snapshot, departments=departments)
        journal = Journal()
        books = _accounts(world, journal)
        _check_the_givers(books, world)
        for decision in planned.decisions:
            if isinstance(decision, Evict):
                for victim in decision.victims:
                    books.evict(victim, victim.attempt.pool)
                books.take(decision.beneficiary, decision.claim.pool)
            elif isinstance(decision, Start):
                books.take(decision.job, decision.pool)
            _check_the_givers(books, world)
        journal.rollback(0)
        _check_the_givers(books, world)

    simulate(scenario, watch)


def _check_the_givers(books: Accounts, snapshot: Snapshot) -> None:
    names = {project.name for project in snapshot.projects}
    for job in snapshot.waiting:
        for pool in job.pools:
            taking = Taking(job.demand, books.of(job, pool))
            naive = {
                name
                for name in names - {job.project}
                if may_reclaim(job.demand, taking.mine) and taking.is_fair(books.book(pool)[name])
            }
            assert set(givers(job, pool, names, books)) == naive


@given(worlds())
def test_in_quota_work_is_safe_from_other_projects(scenario: Scenario) -> None:
    """In-quota work is safe, "asked before each victim": each victim of another project is taken
    while that project is above its quota, earlier victims of the plan counted as gone."""

    def watch(snapshot: Snapshot, planned: Plan, _now: int) -> None:
        books = _accounts(snapshot)
        for decision in planned.decisions:
            if isinstance(decision, Start):
                books.take(decision.job, decision.pool)
            elif isinstance(decision, Evict):
                for victim in decision.victims:
                    theirs = books.of(victim, victim.attempt.pool)[0]
                    same = victim.project == decision.beneficiary.project
                    assert same or theirs.over_quota(), (victim.name, theirs)
                    books.evict(victim, victim.attempt.pool)
                books.take(decision.beneficiary, decision.claim.pool)

    simulate(scenario, watch)


@given(worlds())
def test_twenty_further_passes_decide_nothing(scenario: Scenario) -> None:
    """Promise 9, in the hardest worlds: priorities, weights, stop times, large jobs."""
    decides_nothing_before_its_time(scenario)


@given(worlds())
def test_no_two_jobs_evict_each_other_in_turn(scenario: Scenario) -> None:
    """Promise 9: between one job evicting another and the reverse, something else happens: a
    submission or an end."""
    evicted_by: dict[str, str] = {}
    for event in simulate(scenario).events:
        if event.event in {"submit", "complete", "fail", "cancel"}:
            evicted_by.clear()
        elif event.event == "evict":
            by = event.reason.removeprefix("evicted for ")
            assert evicted_by.get(by) != event.job, (event, evicted_by)
            evicted_by[event.job] = by


@given(worlds())
def test_every_beneficiary_starts(scenario: Scenario) -> None:
    """Promise 9. Or a job that may take the beneficiary's claim over starts in its place."""
    record = simulate(scenario)
    last = max((event.t for event in record.events), default=0)
    for event in record.events:
        if event.event == "evict" and event.t < last:
            by = event.reason.removeprefix("evicted for ")
            started = [t for t in record.started(by) if t >= event.t]
            others = [
                each
                for each in record.events
                if each.event == "start" and each.pool == event.pool and each.t >= event.t
            ]
            assert started or others, (event, by)


@given(worlds())
def test_idle_slots_are_never_left_empty_because_of_shares(scenario: Scenario) -> None:
    """Work-conserving: at rest, a waiting job that fits is held back only by a limit, or by a quota
    if it cannot be evicted."""

    def watch(snapshot: Snapshot, planned: Plan, _now: int) -> None:
        stopping = any(job.state is JobState.STOPPING for job in snapshot.active)
        if planned.decisions or stopping:
            return
        accounts = _accounts(snapshot)
        limits = QuotaLimits(accounts, Shares(accounts))
        for pool in snapshot.pools:
            used = sum((j.demand for j in snapshot.active if j.attempt.pool == pool.name), Demand())
            for job in snapshot.waiting:
                fits = pool.name in job.pools and job.demand.within(pool.capacity - used)
                allowed = limits.allow(job, pool.name) and limits.quotas_allow(job, pool.name)
                assert not (fits and allowed), job.name

    simulate(scenario, watch)


@given(
    st.integers(0, 20),
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.sampled_from([None, 3, 8]),
            st.integers(0, 12),
            st.sampled_from([None, 0, 1, 3]),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_a_division_is_fair(total: int, rows: list) -> None:
    """Everyone gets at least min(quota, limit, request) and at most the request. A surplus is left
    only if nobody with a weight wants more, and it is divided to the last slot."""
    sharers = [
        Sharer(name=f"s{i}", age=i, quota=q, limit=lim, request=r, weight=w, priority=p)
        for i, (q, lim, r, w, p) in enumerate(rows)
    ]
    shares = divide(total, sharers)
    for each in sharers:
        assert min(each.quota, each.most) <= shares[each.name] <= each.most
    weights = {s.name: s.quota if s.weight is None else s.weight for s in sharers}
    if not any(weights.values()) and not any(s.quota for s in sharers):
        weights = dict.fromkeys(weights, 1)
    wanting = [s for s in sharers if weights[s.name] and shares[s.name] < s.most]
    given_out = sum(shares.values())
    deserved = sum(min(s.quota, s.most) for s in sharers)
    assert given_out <= max(total, deserved)
    assert not wanting or given_out >= total


@given(
    st.integers(0, 20),
    st.lists(
        st.tuples(
            st.integers(0, 6), st.sampled_from([None, 3, 8]), st.integers(0, 12), st.integers(1, 4)
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_shares_sum_to_the_capacity_or_to_all_requests(total: int, rows: list) -> None:
    """They sum to min(capacity, requests) if everyone has a weight, or to the quotas if those
    exceed the capacity."""
    sharers = [
        Sharer(name=f"s{i}", age=i, quota=q, limit=lim, request=r, weight=w, priority=0)
        for i, (q, lim, r, w) in enumerate(rows)
    ]
    promised = sum(min(each.quota, each.most) for each in sharers)
    asked = sum(each.most for each in sharers)
    assert sum(divide(total, sharers).values()) == max(promised, min(total, asked))


@given(
    st.integers(0, 20),
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.sampled_from([None, 3, 8]),
            st.integers(0, 12),
            st.sampled_from([0, 1, 3]),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 4),
)
def test_a_share_never_falls_when_its_weight_rises(total: int, rows: list, more: int) -> None:
    sharers = [
        Sharer(name=f"s{i}", age=i, quota=q, limit=lim, request=r, weight=w, priority=p)
        for i, (q, lim, r, w, p) in enumerate(rows)
    ]
    assume(any(weight for *_, weight, _ in rows))  # All weights zero count as all equal.
    first = sharers[0]
    heavier = replace(first, weight=rows[0][3] + more)
    before, after = divide(total, sharers), divide(total, [heavier, *sharers[1:]])
    assert after[first.name] >= before[first.name]


@given(worlds())
def test_a_plan_from_the_first_jobs_of_lines_is_the_plan_from_all(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        assert plan(snapshot, now) == planned == plan_from_first_jobs(snapshot, now)

    simulate(scenario, watch)


@given(worlds())
def test_the_queue_itself_follows_the_policy(scenario: Scenario) -> None:
    assert unequal(simulate(scenario, nobody_starts_in_vain()), live_record(scenario)) == []
