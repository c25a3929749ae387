"""Jobs and pools for the store's tests, and the manager's transitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from slotq_core.lifecycle import move
from slotq_core.model.attempts import Attempt, AttemptOutcome, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Claim, Job, JobState, Workload
from slotq_core.model.pools import Pool
from slotq_core.policy.plan import Need
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Ahead, Change, World
from slotq_core.privacy.identity import BY_DEFAULT

S = JobState
NOW = 1_700_000_000_000
REQUEST = {"TrainingJobName": "any", "HyperParameters": {"epochs": "3"}}


def a_pool(name: str = "p5", slots: int = 2, **fields: Any) -> Pool:
    capacity = fields.pop("capacity", Demand(slots=slots))
    return Pool(name=name, instance_type="ml.p5.48xlarge", capacity=capacity, **fields)


def a_job(name: str, *, slots: int = 1, **fields: Any) -> Job:
    described: dict[str, Any] = {
        "state": S.PENDING,
        "priority": 1,
        "entry_time": NOW,
        "demand": Demand(slots=slots),
        "pools": ("p5",),
        "changed_at": NOW,
        "submitter": "arn:aws:iam::123456789012:user/ada",
        "digest": "0123456789abcdef" * 4,
    }
    described |= fields
    person = BY_DEFAULT.person(described["submitter"])
    return Job(name=name, **({"person": person} | described))


def an_attempt(job: Job, pool: str = "p5") -> Attempt:
    number = job.attempts + 1
    return Attempt(
        number=number,
        training_job=job.name if number == 1 else f"{job.name}-qstamp-{number}-abcdef",
        token="token",
        pool=pool,
        instance_type="ml.p5.48xlarge",
        admitted_at=NOW,
    )


def starting(job: Job, pool: str = "p5") -> Change:
    begun = an_attempt(job, pool)
    after = move(job, S.STARTING, at=NOW + 1, attempt=begun, attempts=begun.number)
    return Change(before=job, after=after)


def running(job: Job) -> Change:
    assert job.attempt
    attempt = replace(job.attempt, created=True, running_since=NOW + 2)
    return Change(before=job, after=move(job, S.RUNNING, at=NOW + 2, attempt=attempt))


def evicting(job: Job, beneficiary: str) -> Change:
    assert job.attempt
    order = StopOrder(cause=StopCause.EVICTED, by=beneficiary, at=NOW + 3)
    attempt = replace(job.attempt, stop=order)
    after = move(job, S.STOPPING, at=NOW + 3, attempt=attempt, evictions=job.evictions + 1)
    return Change(before=job, after=after)


def claiming(job: Job, pool: str = "p5") -> Change:
    claim = Claim(pool=pool, amount=job.demand, since=NOW + 3)
    return Change(before=job, after=replace(job, claim=claim))


def ending(job: Job, state: JobState, outcome: AttemptOutcome, **fields: Any) -> Change:
    assert job.attempt
    ended = replace(job.attempt, ended_at=NOW + 4, outcome=outcome)
    after = move(job, state, at=fields.pop("at", NOW + 4), **fields)
    return Change(before=job, after=after, ended=ended)


def completing(job: Job) -> Change:
    return ending(job, S.COMPLETED, AttemptOutcome.COMPLETED)


def evicted(job: Job) -> Change:
    return ending(job, S.PREEMPTED, AttemptOutcome.EVICTED)


def backing_off(job: Job, until: int) -> Change:
    return ending(job, S.BACKOFF, AttemptOutcome.NO_CAPACITY, not_before=until)


def trying_later(job: Job, until: int) -> Change:
    """The job after a failed attempt to start it."""
    after = move(job, S.BACKOFF, at=NOW + 4, not_before=until, schedule_attempts=1)
    return Change(before=job, after=after)


def giving_up(job: Job) -> Change:
    return Change(before=job, after=move(job, S.FAILED, at=NOW + 4, cause="cannot_schedule"))


def freeing(job: Job) -> Change:
    """The job once its dependencies have completed."""
    return Change(before=job, after=replace(job, after=()))


def cancelling(job: Job) -> Change:
    return Change(before=job, after=move(job, S.CANCELLED, at=NOW + 5))


def a_queue(store: Store, *pools: Pool) -> Store:
    """The store with these pools (default: p5 with 2 slots)."""
    store.configuration.change(pools or (a_pool(),), who="the test", now=NOW)
    return store


def waits(store: Store, name: str, **fields: Any) -> Job:
    return store.jobs.submit(a_job(name, **fields), REQUEST)


def starts(store: Store, name: str, *, pool: str = "p5", **fields: Any) -> Job:
    return commit(store, starting(waits(store, name, **fields), pool))


def runs(store: Store, name: str, **fields: Any) -> Job:
    return commit(store, running(starts(store, name, **fields)))


def commit(store: Store, change: Change) -> Job:
    (job,) = store.decisions.commit([change])
    return job


# Anything that a job can be, for round trips.

_names = st.from_regex(r"[a-zA-Z0-9](-?[a-zA-Z0-9]){0,30}", fullmatch=True)
_texts = st.text(st.characters(codec="utf-8"), max_size=40)
_moments = st.integers(-(10**9), 4 * 10**12)
_counts = st.integers(0, 10**6)
_demands = st.dictionaries(
    st.sampled_from(["slots", "gpus", "licence-x"]), st.integers(1, 10**6), max_size=3
).map(Demand)
_orders = st.builds(
    StopOrder,
    cause=st.sampled_from(StopCause),
    by=_texts,
    at=_moments,
    sent=st.booleans(),
    grace_until=st.none() | _moments,
)
attempts = st.builds(
    Attempt,
    number=st.integers(1, 9999),
    training_job=_names,
    token=_texts,
    pool=_names,
    instance_type=_texts,
    admitted_at=_moments,
    created=st.booleans(),
    pending_since=st.none() | _moments,
    running_since=st.none() | _moments,
    checkpoint_at=st.none() | _moments,
    stop=st.none() | _orders,
    ended_at=st.none() | _moments,
    outcome=st.none() | st.sampled_from(AttemptOutcome),
    message=_texts,
    artifact=_texts,
    checkpoints=_texts,
)
claims = st.builds(
    Claim,
    pool=_names,
    amount=_demands,
    since=_moments,
    priority_class=_names | st.just(""),
)


@st.composite
def jobs(draw: st.DrawFn, state: JobState | None = None) -> Job:
    """A job in any state, with the fields of that state."""
    state = state or draw(st.sampled_from(JobState))
    others = draw(st.lists(_names.map("other-{}".format), max_size=3, unique=True))
    after = tuple(others) if state is S.PENDING else ()
    pools = tuple(draw(st.lists(_names, min_size=1, max_size=4, unique=True)))
    probe = Job(
        name="x", state=state, priority=0, entry_time=0, demand=Demand(), pools=(), after=after
    )
    return Job(
        name=draw(_names),
        state=state,
        priority=draw(st.integers(-(10**6), 10**6)),
        entry_time=draw(_moments),
        demand=draw(_demands),
        pools=pools,
        requires=draw(_demands),
        preemptible=draw(st.sampled_from([True, False, "semi"])),
        min_runtime=draw(_counts),
        runtime_estimate=draw(_counts),
        retries=draw(_counts),
        refused_in=draw(st.sampled_from([(), pools[-1:]])),
        role=draw(_texts),
        line_by_user=draw(st.booleans()),
        project=draw(_names | st.just("")),
        group=draw(_names | st.just("")),
        after=after,
        workload=draw(st.sampled_from(Workload)),
        priority_class=draw(_names | st.just("")),
        ran_before_class=draw(_counts),
        admitted_class=draw(_names | st.just("")),
        auto=draw(st.booleans()),
        checkpoints=draw(st.booleans()),
        submitter=draw(_texts),
        person=draw(_texts),
        attempts=draw(_counts),
        evictions=draw(_counts),
        schedule_attempts=draw(_counts),
        faults=draw(_counts),
        releases=tuple(draw(st.lists(_moments, max_size=3))),
        ran=draw(_counts),
        cause=draw(_texts),
        attempt=draw(attempts) if probe.active else None,
        claim=draw(st.none() | claims) if probe.waits else None,
        not_before=draw(_moments) if state is S.BACKOFF else None,
        changed_at=draw(_moments),
        message=draw(_texts),
        digest=draw(_texts),
        version=draw(_counts),
    )


def attempts_of(store: Store, name: str) -> tuple[Attempt, ...]:
    """The job's attempts; none if there is no such job."""
    found = store.jobs.with_attempts(name)
    return found[1] if found else ()


def ahead_of(store: Store, job: Job) -> Ahead:
    return store.worlds.load(NOW).ahead_of(job)


def all_waiting(world: World) -> list[Job]:
    """Every waiting job that a plan could learn of: those of the snapshot, and what it may ask for,
    two at a time."""
    found: list[Job] = []
    for job in world.snapshot.waiting:
        found.append(job)
        behind = world.snapshot.behind.get(job.name, 0)
        while behind:
            more = world.more(Need(after=found[-1], count=2))
            found += more.jobs
            behind = more.behind
    return found
