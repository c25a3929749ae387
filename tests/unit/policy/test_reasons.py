"""Why a job waits: for each reason a world in which it applies, with its numbers and words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest

from slotq_core.model import reasons
from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, Job, JobState
from slotq_core.model.pools import MissingRight, Pool, PoolHealth, PoolState
from slotq_core.model.projects import Project
from slotq_core.model.sharing import SchedulerSettings
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import User
from slotq_core.operations.status import looked_into
from slotq_core.policy.cycle import plan
from slotq_core.ports.stored import World
from slotq_core.wire.views.jobs import reason_view

NOW = 1_000_000


def pool(name: str = "p", slots: int = 2, **fields) -> Pool:
    return Pool(name=name, instance_type="t", capacity=Demand(slots=slots), **fields)


def waits(name: str, *, priority: int = 0, slots: int = 1, since: int = 0, **fields) -> Job:
    return Job(
        name=name,
        state=JobState.PENDING,
        priority=priority,
        entry_time=NOW - since,
        demand=Demand(slots=slots),
        pools=fields.pop("pools", ("p",)),
        **fields,
    )


def runs(name: str, *, at: str = "p", since: int = 10_000, **fields) -> Job:
    attempt = Attempt(
        number=1,
        training_job=name,
        token="",
        pool=at,
        instance_type="t",
        admitted_at=NOW - since,
        created=True,
        running_since=NOW - since,
    )
    return replace(waits(name, **fields), state=JobState.RUNNING, attempt=attempt, attempts=1)


def stops(name: str, **fields) -> Job:
    job = runs(name, **fields)
    stop = StopOrder(cause=StopCause.EVICTED, by="x", at=NOW - 1)
    return replace(job, state=JobState.STOPPING, attempt=replace(job.attempt, stop=stop))


def starts(name: str, **fields) -> Job:
    """A job whose create has no answer of SageMaker yet."""
    job = runs(name, **fields)
    attempt = replace(job.attempt, created=False, running_since=None)
    return replace(job, state=JobState.STARTING, attempt=attempt)


@dataclass(frozen=True, kw_only=True)
class Case:
    sentence: str
    pools: tuple[Pool, ...] = (pool(),)
    active: tuple[Job, ...] = ()
    others: tuple[Job, ...] = ()
    groups: tuple[Group, ...] = ()
    job: Job = field(default_factory=lambda: waits("job"))
    scheduler: SchedulerSettings | None = None
    users: tuple[User, ...] = ()
    projects: tuple[Project, ...] = ()
    reason: reasons.Reason
    text: str
    wake_at: int | None = None


ROLE = "arn:aws:iam::1:role/r"
LACKS_ALL = MissingRight(action="sagemaker:CreateTrainingJob", since=0, not_before=NOW + 5_000)
LACKS_ROLE = MissingRight(role=ROLE, action="iam:PassRole", since=0, not_before=NOW, message="no")


def lacking(missing: MissingRight) -> PoolHealth:
    return PoolHealth(missing_rights=(missing,))


CASES = [
    Case(
        sentence="the queue may not create any training job there",
        pools=(pool(health=lacking(replace(LACKS_ALL, message="denied"))),),
        reason=reasons.RightsMissing(
            pool="p",
            role="",
            action="sagemaker:CreateTrainingJob",
            until=NOW + 5_000,
            probe="",
            cause="denied",
        ),
        text="the queue lacks sagemaker:CreateTrainingJob in pool p; tried again at "
        "1970-01-01T00:16:45.000Z: denied",
        wake_at=NOW + 5_000,
    ),
    Case(
        sentence="another job of its role tries whether the right is there again",
        pools=(pool(health=lacking(LACKS_ROLE)),),
        active=(starts("a", role=ROLE),),
        job=waits("job", role=ROLE),
        reason=reasons.RightsMissing(
            pool="p", role=ROLE, action="iam:PassRole", until=None, probe="a", cause="no"
        ),
        text=f"execution role {ROLE} lacks iam:PassRole in pool p; a is trying it: no",
    ),
    Case(
        sentence="nothing is evicted for it while its role lacks a right",
        pools=(pool(health=lacking(LACKS_ROLE)),),
        active=(runs("a"), runs("b")),
        job=waits("job", role=ROLE, priority=5),
        reason=reasons.RightsMissing(
            pool="p", role=ROLE, action="iam:PassRole", until=None, probe="", cause="no"
        ),
        text=f"execution role {ROLE} lacks iam:PassRole in pool p; tried again on the next free "
        "slots, and nothing is evicted for it until then: no",
    ),
    Case(
        sentence="the pool is full of equals",
        active=(runs("a"), runs("b")),
        reason=reasons.NoFreeSlots(pool="p", needed=1, free=0, capacity=2, lower_ranked=0),
        text="needs 1 slot; pool p has 0 free of 2, and no job there has a lower priority",
    ),
    Case(
        sentence="what ranks lower is not enough",
        active=(runs("a", priority=5), runs("b")),
        job=waits("job", priority=1, slots=2),
        reason=reasons.NoFreeSlots(pool="p", needed=2, free=0, capacity=2, lower_ranked=1),
        text="needs 2 slots; pool p has 0 free of 2, and evicting the jobs of lower priority "
        "there would not free enough",
    ),
    Case(
        sentence="what ranks lower is inside its min_runtime",
        pools=(pool(min_runtime=60_000),),
        active=(runs("a", since=10_000), runs("b", since=20_000)),
        job=waits("job", priority=1),
        reason=reasons.LowerRankedProtected(pool="p", needed=1, free=0, until=NOW + 40_000),
        text="needs 1 slot; pool p has 0 free, and the jobs of lower priority there keep their "
        "slots until 1970-01-01T00:17:20.000Z",
        wake_at=NOW + 40_000,
    ),
    Case(
        sentence="what ranks lower is not preemptible",
        active=(runs("a", preemptible=False), runs("b", preemptible=False)),
        job=waits("job", priority=1),
        reason=reasons.LowerRankedProtected(pool="p", needed=1, free=0, until=None),
        text="needs 1 slot; pool p has 0 free, and the jobs of lower priority there are not "
        "preemptible",
    ),
    Case(
        sentence="slots are coming free for it",
        active=(stops("a"), runs("b")),
        reason=reasons.SlotsComing(pool="p", needed=1, free=0, coming=1),
        text="starts in pool p when the stopping jobs there have ended; needs 1 slot: 0 free "
        "now, 1 coming free",
    ),
    Case(
        sentence="it has just evicted for them",
        active=(runs("a"), runs("b", priority=2)),
        job=waits("job", priority=1),
        reason=reasons.SlotsComing(pool="p", needed=1, free=0, coming=1),
        text="starts in pool p when the stopping jobs there have ended; needs 1 slot: 0 free "
        "now, 1 coming free",
    ),
    Case(
        sentence="the free slot is owed to a claimant behind it",
        active=(stops("a"),),
        others=(
            waits("big", slots=2, since=-5, claim=Claim(pool="p", amount=Demand(slots=2), since=0)),
        ),
        reason=reasons.HeldForOthers(pool="p", needed=1, free=1, holder="big"),
        text="needs 1 slot; the 1 free in pool p are held for big",
    ),
    Case(
        sentence="the free slot is held for one ahead that waits for more",
        active=(stops("a"),),
        others=(waits("big", slots=2, since=5),),
        reason=reasons.HeldForOthers(pool="p", needed=1, free=1, holder="big"),
        text="needs 1 slot; the 1 free in pool p are held for big",
    ),
    Case(
        sentence="the pool drains for another",
        pools=(pool(reserve_after=60_000),),
        active=(runs("a"),),
        others=(waits("big", slots=2, since=70_000),),
        reason=reasons.HeldForOthers(pool="p", needed=1, free=1, holder="big"),
        text="needs 1 slot; the 1 free in pool p are held for big",
        wake_at=NOW + 60_000,
    ),
    Case(
        sentence="a drain that holds back only another project is not why it waits",
        pools=(pool(slots=5, reserve_after=60_000, min_runtime=50_000),),
        projects=(
            Project(name="a", quota={"": Demand(slots=2)}),
            Project(name="b", quota={"": Demand(slots=3)}),
        ),
        active=(runs("safe", slots=3, project="a"), stops("gives", project="a")),
        others=(
            waits("big", slots=2, since=70_000, project="a"),
            waits(
                "owed", slots=2, project="b", claim=Claim(pool="p", amount=Demand(slots=2), since=0)
            ),
        ),
        job=waits("third", project="b"),
        reason=reasons.HeldForOthers(pool="p", needed=1, free=1, holder="owed"),
        text="needs 1 slot; the 1 free in pool p are held for owed",
        wake_at=NOW + 40_000,
    ),
    Case(
        sentence="the pool drains for it",
        pools=(pool(reserve_after=60_000),),
        active=(runs("a"),),
        job=waits("job", slots=2, since=70_000),
        reason=reasons.Reserved(pool="p", needed=2, free=1),
        text="pool p starts nothing behind this job until the job has its 2 slots, except what "
        "cannot delay it; 1 free so far",
    ),
    Case(
        sentence="the pool drains for it, and what runs there has ended by a known moment",
        pools=(pool(reserve_after=60_000),),
        active=(replace(runs("a"), runtime_bound=900_000),),
        job=waits("job", slots=2, since=70_000),
        reason=reasons.Reserved(pool="p", needed=2, free=1, at_latest=2_490_000),
        text="pool p starts nothing behind this job until the job has its 2 slots, except what "
        "cannot delay it; 1 free so far; at the latest 1970-01-01T00:41:30.000Z, if nothing ahead "
        "of it enters",
    ),
    Case(
        sentence="the pool drains for it, and its project would be beyond its share",
        pools=(pool(slots=4, reserve_after=60_000),),
        projects=(
            Project(name="a", quota={"": Demand(slots=2)}),
            Project(name="b", quota={"": Demand(slots=2)}),
        ),
        active=(runs("a", project="a"), runs("b", project="b", slots=2)),
        job=waits("job", slots=2, since=70_000, project="a"),
        reason=reasons.Reserved(pool="p", needed=2, free=1, project="a"),
        text="pool p starts nothing of project a behind this job until the job has its 2 slots, "
        "except what cannot delay it; 1 free so far; other projects still start jobs there within "
        "their fair shares",
    ),
    Case(
        sentence="it may still be passed",
        pools=(pool(reserve_after=60_000),),
        active=(runs("a"),),
        job=waits("job", slots=2, since=50_000),
        reason=reasons.NoFreeSlots(pool="p", needed=2, free=1, capacity=2, lower_ranked=0),
        text="needs 2 slots; pool p has 1 free of 2, and no job there has a lower priority",
        wake_at=NOW + 10_000,
    ),
    Case(
        sentence="slots are free, but another resource is not",
        pools=(replace(pool(slots=4), capacity=Demand(slots=4, gpus=8)),),
        active=(replace(runs("a"), demand=Demand(slots=1, gpus=6)),),
        job=replace(waits("job"), demand=Demand(slots=1, gpus=4)),
        reason=reasons.NoFreeSlots(
            pool="p", needed=4, free=2, capacity=8, lower_ranked=0, resource="gpus"
        ),
        text="needs 4 gpus; pool p has 2 free of 8, and no job there has a lower priority",
    ),
    Case(
        sentence="its pool has less of another resource than it needs",
        job=replace(waits("job"), demand=Demand(slots=1, licences=1)),
        reason=reasons.PoolsTooSmall(needed=1, largest=0, resource="licences"),
        text="needs 1 licence, but the largest of its pools now has 0 in all",
    ),
    Case(
        sentence="its pool is paused",
        pools=(pool(state=PoolState.PAUSED),),
        reason=reasons.PoolClosed(pool="p", state="paused"),
        text="pool p is paused: nothing starts there",
    ),
    Case(
        sentence="its pool is drained",
        pools=(pool(state=PoolState.DRAINED),),
        reason=reasons.PoolClosed(pool="p", state="drained"),
        text="pool p is drained: nothing starts there",
    ),
    Case(
        sentence="its pool shrank",
        pools=(pool(slots=1),),
        job=waits("job", slots=2),
        reason=reasons.PoolsTooSmall(needed=2, largest=1),
        text="needs 2 slots, but the largest of its pools now has 1 in all",
    ),
    Case(
        sentence="its pool is gone",
        job=waits("job", pools=("gone",)),
        reason=reasons.PoolsTooSmall(needed=1, largest=0),
        text="needs 1 slot, but the largest of its pools now has 0 in all",
    ),
    Case(
        sentence="its gang is not all there",
        others=(waits("hand", group="g"),),
        groups=(Group(name="g", members=("job", "hand", "chief"), mandatory=("chief",)),),
        job=waits("job", group="g"),
        reason=reasons.GangIncomplete(group="g", needed=3, waiting=2, missing=("chief",)),
        text="gang g must start 3 jobs at once; 2 wait, and these are missing: chief",
    ),
    Case(
        sentence="there is room for a part of its gang",
        active=(runs("a"),),
        others=(waits("mate", group="g"),),
        groups=(Group(name="g", members=("job", "mate")),),
        job=waits("job", group="g"),
        reason=reasons.GangBlocked(
            group="g",
            needed=2,
            free=1,
            drains="",
            lacks=reasons.Lacks(member="mate", pool="p", member_needs=1, pool_free=0, holder="a"),
        ),
        text="gang g needs room for 2 of its jobs at once; its pools have 1 slot free. "
        "Pool p has 0 free for mate, which needs 1 slot; a holds slots there",
    ),
    Case(
        sentence="a site of its federated job is full of another project's jobs",
        pools=(pool("p"), pool("q", slots=4)),
        projects=(Project(name="nlp"), Project(name="vision", quota={"": Demand(slots=6)})),
        active=(
            runs("v1", at="q", pools=("q",), project="vision", slots=1),
            runs("v2", at="q", pools=("q",), project="vision", slots=3),
        ),
        others=(waits("north", group="g", project="nlp", pools=("q",)),),
        groups=(
            Group(
                name="g",
                members=("job", "north"),
                sites={"north": "hospital-north", "job": "hospital-south"},
            ),
        ),
        job=waits("job", group="g", project="nlp"),
        reason=reasons.GangBlocked(
            group="g",
            needed=2,
            free=2,
            drains="",
            lacks=reasons.Lacks(
                member="north",
                pool="q",
                site="hospital-north",
                member_needs=1,
                pool_free=0,
                holder="v2",
                holder_project="vision",
                other_holders=1,
            ),
        ),
        text="gang g needs room for 2 of its jobs at once; its pools have 2 slots free. "
        "Pool q (site hospital-north) has 0 free for north, which needs 1 slot; v2 of project "
        "vision and 1 job more hold slots there",
    ),
    Case(
        sentence="a claim keeps the slots that its gang needs",
        active=(stops("s", slots=1),),
        others=(
            waits("mate", group="g"),
            waits("big", slots=2, claim=Claim(pool="p", amount=Demand(slots=2), since=0)),
        ),
        groups=(Group(name="g", members=("job", "mate")),),
        job=waits("job", group="g"),
        reason=reasons.GangBlocked(
            group="g",
            needed=2,
            free=1,
            drains="",
            lacks=reasons.Lacks(member="job", pool="p", member_needs=1, pool_free=0, holder="big"),
        ),
        text="gang g needs room for 2 of its jobs at once; its pools have 1 slot free. "
        "Pool p has 0 free for job, which needs 1 slot; big holds slots there",
    ),
    Case(
        sentence="one pool of its gang is paused",
        pools=(pool("p"), pool("q", state=PoolState.PAUSED)),
        others=(waits("mate", group="g", pools=("q",)),),
        groups=(Group(name="g", members=("job", "mate")),),
        job=waits("job", group="g"),
        reason=reasons.GangBlocked(
            group="g",
            needed=2,
            free=4,
            drains="",
            lacks=reasons.Lacks(member="mate", pool="q", member_needs=1, pool_free=2),
            also=reasons.PoolClosed(pool="q", state="paused"),
        ),
        text="gang g needs room for 2 of its jobs at once; its pools have 4 slots free. "
        "Pool q has 2 free for mate, which needs 1 slot. "
        "Also: pool q is paused: nothing starts there",
    ),
    Case(
        sentence="a pool drains for its gang",
        pools=(pool(reserve_after=60_000),),
        active=(runs("a"),),
        others=(waits("mate", group="g", since=70_000),),
        groups=(Group(name="g", members=("job", "mate")),),
        job=waits("job", group="g", since=70_000),
        reason=reasons.GangBlocked(
            group="g",
            needed=2,
            free=1,
            drains="p",
            lacks=reasons.Lacks(member="mate", pool="p", member_needs=1, pool_free=0, holder="a"),
        ),
        text="gang g needs room for 2 of its jobs at once; its pools have 1 slot free, and pool p "
        "is kept free for it. Pool p has 0 free for mate, which needs 1 slot; a holds slots there",
    ),
    Case(
        sentence="a pool drains for its gang, which brings its project beyond its share",
        pools=(pool(slots=4, reserve_after=60_000),),
        projects=(
            Project(name="a", quota={"": Demand(slots=2)}),
            Project(name="b", quota={"": Demand(slots=2)}),
        ),
        active=(runs("a", project="a"), runs("b", project="b", slots=2)),
        others=(waits("mate", group="g", since=70_000, project="a"),),
        groups=(Group(name="g", members=("job", "mate")),),
        job=waits("job", group="g", since=70_000, project="a"),
        reason=reasons.GangBlocked(
            group="g",
            needed=2,
            free=1,
            drains="p",
            project="a",
            lacks=reasons.Lacks(
                member="mate",
                pool="p",
                member_needs=1,
                pool_free=0,
                holder="b",
                holder_project="b",
                other_holders=1,
            ),
        ),
        text="gang g needs room for 2 of its jobs at once; its pools have 1 slot free, and pool p "
        "starts nothing of project a behind it; other projects still start jobs there within their "
        "fair shares. Pool p has 0 free for mate, which needs 1 slot; b of project b and 1 job "
        "more hold slots there",
    ),
    Case(
        sentence="as many of its sweep as may hold slots already",
        active=(runs("a", group="s"),),
        groups=(Group(name="s", members=("a", "job"), max_parallel=1),),
        job=waits("job", group="s", priority=5),
        reason=reasons.SweepLimit(group="s", active=1, limit=1),
        text="at most 1 job of sweep s may hold slots at once; 1 hold or are owed them",
    ),
    Case(
        sentence="as many as may hold slots in all, one of them by a claim",
        active=(runs("a"),),
        others=(waits("owed", claim=Claim(pool="p", amount=Demand(slots=1), since=0)),),
        job=waits("job", priority=5),
        scheduler=SchedulerSettings(max_jobs=2),
        reason=reasons.JobLimitReached(active=2, limit=2),
        text="at most 2 jobs may hold slots at once; 2 hold or are owed them",
    ),
]


ANN = User(name="ann", limits={"p": {"HIGH": 2, "LOW": 1}})
CASES += [
    Case(
        sentence="its user may hold no more",
        pools=(pool(slots=8),),
        users=(ANN,),
        active=(runs("a", priority_class="HIGH", priority=30, person="ann"),),
        job=waits("job", priority_class="HIGH", priority=30, slots=2, person="ann"),
        reason=reasons.UserLimitReached(
            pool="p", needed=2, user="ann", priority_class="HIGH", used=1, limit=2
        ),
        text="needs 2 slots; user ann holds 1 of its limit 2 for HIGH in pool p",
    ),
    Case(
        sentence="its user has room in no class for an AUTO job",
        pools=(pool(slots=8),),
        users=(ANN,),
        active=(
            runs("a", priority_class="HIGH", person="ann"),
            runs("b", priority_class="LOW", person="ann"),
        ),
        job=waits("job", priority_class="AUTO", auto=True, slots=2, person="ann"),
        reason=reasons.UserLimitReached(
            pool="p", needed=2, user="ann", priority_class="HIGH", used=1, limit=2
        ),
        text="needs 2 slots; user ann holds 1 of its limit 2 for HIGH in pool p",
    ),
    Case(
        sentence="its user may not choose its class any more",
        users=(ANN,),
        job=waits("job", priority_class="NORMAL", priority=10, person="ann"),
        reason=reasons.ClassForbidden(pool="p", user="ann", priority_class="NORMAL"),
        text="user ann may hold no slots for NORMAL in pool p",
    ),
    Case(
        sentence="its number is no class's value",
        users=(ANN,),
        job=waits("job", priority=7, person="ann"),
        reason=reasons.ClassForbidden(pool="p", user="ann", priority_class=""),
        text="user ann may hold no slots for a number that is no class's value in pool p",
    ),
    Case(
        sentence="it would join its gang in a class that is lower",
        pools=(pool(slots=8),),
        users=(ANN,),
        active=tuple(
            runs(name, priority_class="HIGH", priority=30, person="ann", group="g")
            for name in ("a", "b")
        ),
        groups=(Group(name="g", members=("a", "b", "job"), min_members=2),),
        job=waits("job", priority_class="AUTO", auto=True, person="ann", group="g"),
        reason=reasons.EndangersItsGang(group="g", pool="p", needed=1, free=6, counts_as="LOW"),
        text="needs 1 slot, and pool p has 6 free. Its gang g runs without it; "
        "with it the whole gang could be evicted "
        "for more jobs, as it would count as LOW",
    ),
    Case(
        sentence="another user's time slice is not over yet",
        pools=(pool(slots=1, time_slice=60_000),),
        active=(runs("a", person="ann", since=20_000),),
        job=waits("job", person="bob"),
        reason=reasons.TurnComes(pool="p", needed=1, free=0, until=NOW + 40_000),
        text="needs 1 slot; pool p has 0 free, and the first time slice there ends at "
        "1970-01-01T00:17:20.000Z",
        wake_at=NOW + 40_000,
    ),
    Case(
        sentence="jobs of the same user and rank would have to move",
        pools=(pool(slots=2, consolidate=True), pool("q")),
        active=(
            runs("a", person="ann", pools=("p", "q")),
            runs("b", person="ann", pools=("p", "q")),
        ),
        job=waits("job", person="ann"),
        reason=reasons.SameUser(pool="p", needed=1, free=0, held=2),
        text="needs 1 slot; pool p has 0 free, and jobs of the same user and priority hold 2: "
        "they are not interrupted for each other",
    ),
    Case(
        sentence="the time slices are those of the same user",
        pools=(pool(slots=2, time_slice=60_000),),
        active=(runs("a", slots=2, person="ann", since=90_000),),
        job=waits("job", person="ann"),
        reason=reasons.SameUser(pool="p", needed=1, free=0, held=2),
        text="needs 1 slot; pool p has 0 free, and jobs of the same user and priority hold 2: "
        "they are not interrupted for each other",
    ),
]


FULL_FOR_ANN = reasons.UserLimitReached(
    pool="p", needed=1, user="ann", priority_class="HIGH", used=2, limit=2
)
CASES += [
    Case(
        sentence="its user may hold no more, and the pool is full as well",
        users=(ANN,),
        active=(
            runs("a", priority_class="HIGH", priority=30, person="ann"),
            runs("b", priority_class="HIGH", priority=30, person="ann"),
        ),
        job=waits("job", priority_class="HIGH", priority=30, person="ann"),
        reason=replace(
            FULL_FOR_ANN,
            also=reasons.NoFreeSlots(pool="p", needed=1, free=0, capacity=2, lower_ranked=0),
        ),
        text="needs 1 slot; user ann holds 2 of its limit 2 for HIGH in pool p. Also: needs 1 "
        "slot; pool p has 0 free of 2, and no job there has a lower priority",
    ),
    Case(
        sentence="its user and its project may hold no more",
        pools=(pool(slots=8),),
        users=(ANN,),
        projects=(Project(name="nlp", quota={"": Demand(slots=2)}, limit={"": {"slots": 2}}),),
        active=(
            runs("a", priority_class="HIGH", priority=30, person="ann", project="nlp"),
            runs("b", priority_class="HIGH", priority=30, person="ann", project="nlp"),
        ),
        job=waits("job", priority_class="HIGH", priority=30, person="ann", project="nlp"),
        reason=replace(
            FULL_FOR_ANN,
            also=reasons.HoldingLimit(owner="nlp", needed=1, used=2, limit=2),
        ),
        text="needs 1 slot; user ann holds 2 of its limit 2 for HIGH in pool p. Also: needs 1 "
        "slot; nlp holds 2 of its limit 2",
    ),
    Case(
        sentence="its pool is paused, and its user may hold no more",
        pools=(pool(slots=8, state=PoolState.PAUSED),),
        users=(ANN,),
        active=(
            runs("a", priority_class="HIGH", priority=30, person="ann"),
            runs("b", priority_class="HIGH", priority=30, person="ann"),
        ),
        job=waits("job", priority_class="HIGH", priority=30, person="ann"),
        reason=reasons.PoolClosed(pool="p", state="paused", also=FULL_FOR_ANN),
        text="pool p is paused: nothing starts there. Also: needs 1 slot; user ann holds 2 of its "
        "limit 2 for HIGH in pool p",
    ),
    Case(
        sentence="its sweep holds all that it may, and the pool is full as well",
        pools=(pool(slots=1),),
        active=(runs("a", group="s"),),
        groups=(Group(name="s", members=("a", "job"), max_parallel=1),),
        job=waits("job", group="s"),
        reason=reasons.SweepLimit(
            group="s",
            active=1,
            limit=1,
            also=reasons.NoFreeSlots(pool="p", needed=1, free=0, capacity=1, lower_ranked=0),
        ),
        text="at most 1 job of sweep s may hold slots at once; 1 hold or are owed them. Also: "
        "needs 1 slot; pool p has 0 free of 1, and no job there has a lower priority",
    ),
    Case(
        sentence="its user's limit would keep its gang back in the empty pool, too",
        pools=(pool(slots=3),),
        users=(User(name="ann", limits={"p": {"HIGH": 1}}),),
        active=(runs("a", slots=2),),
        others=(waits("mate", group="g", priority_class="HIGH", priority=30, person="ann"),),
        groups=(Group(name="g", members=("job", "mate")),),
        job=waits("job", group="g", priority_class="HIGH", priority=30, person="ann"),
        reason=reasons.GangBlocked(
            group="g",
            needed=2,
            free=1,
            drains="",
            lacks=reasons.Lacks(member="mate", pool="p", member_needs=1, pool_free=0, holder="a"),
            also=reasons.UserLimitReached(
                pool="p", needed=2, user="ann", priority_class="HIGH", used=0, limit=1
            ),
        ),
        text="gang g needs room for 2 of its jobs at once; its pools have 1 slot free. Pool p has "
        "0 free for mate, which needs 1 slot; a holds slots there. Also: needs 2 slots; user ann "
        "holds 0 of its limit 1 for HIGH in pool p",
    ),
]


NLP = Project(name="nlp", quota={"": Demand(slots=4)})
VISION = Project(name="vision", quota={"": Demand(slots=4)})
CASES += [
    Case(
        sentence="with it its gang would be beyond the share of its project",
        pools=(pool(slots=6),),
        projects=(
            Project(name="nlp", quota={"": Demand(slots=2)}, weight=0),
            Project(name="vision", quota={"": Demand(slots=4)}),
        ),
        active=(
            runs("a", project="nlp", group="g", pools=("p",)),
            runs("b", project="nlp", group="g"),
            runs("v", project="vision", slots=2, preemptible=False),
        ),
        others=(waits("large", project="vision", slots=3),),
        groups=(Group(name="g", members=("a", "b", "job"), min_members=2),),
        job=waits("job", project="nlp", group="g"),
        reason=reasons.EndangersItsGang(group="g", pool="p", needed=1, free=2, counts_as=""),
        text="needs 1 slot, and pool p has 2 free. Its gang g runs without it; "
        "with it the whole gang could be "
        "reclaimed, as its project would be above its fair share",
    ),
    Case(
        sentence="the free slots belong to another project",
        pools=(pool(slots=8),),
        projects=(NLP, VISION),
        active=(runs("n", project="nlp", slots=4), stops("s", project="nlp", slots=2)),
        others=(
            waits(
                "vis",
                project="vision",
                slots=4,
                since=-5,
                claim=Claim(pool="p", amount=Demand(slots=4), since=0),
            ),
        ),
        job=waits("job", project="nlp"),
        reason=reasons.HeldForOthers(
            pool="p",
            needed=1,
            free=2,
            holder="vis",
            holder_project="vision",
            project="nlp",
            used=4,
            quota=4,
        ),
        text="needs 1 slot; project nlp uses 4 slots, quota 4; the 2 free in pool p belong to "
        "project vision (vis)",
    ),
    Case(
        sentence="the pool is not open to its project",
        pools=(pool(open=False),),
        projects=(NLP, Project(name="other")),
        job=waits("job", project="other"),
        reason=reasons.PoolNotOpen(pool="p", project="other"),
        text="pool p is open only to projects with a quota there, and project other has none",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_a_waiting_job_has_the_reason_with_its_numbers(case: Case) -> None:
    snapshot = Snapshot(
        pools=case.pools,
        active=case.active,
        waiting=(*case.others, case.job),
        groups=case.groups,
        scheduler=case.scheduler,
        users=case.users,
        projects=case.projects,
    )
    planned = plan(snapshot, NOW)
    assert planned.reasons[case.job.name] == case.reason
    assert case.reason.text() == case.text
    assert planned.wake_at == case.wake_at
    view = reason_view(case.reason)
    shown = json.loads(view.model_dump_json())
    assert shown["numbers"].keys() == case.reason.numbers().keys()
    assert shown["text"] == case.text
    assert (shown["also"] is None) == (case.reason.also is None)


def test_all_codes_are_different_and_have_numbers() -> None:
    kinds = [
        kind
        for kind in vars(reasons).values()
        if isinstance(kind, type)
        and issubclass(kind, reasons.Reason)
        and kind is not reasons.Reason
    ]
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert reasons.BehindInLine(ahead=3).numbers() == {"ahead": 3}
    assert reasons.BehindInLine(ahead=1).sentence() == "1 job is ahead of it"
    many = reasons.BehindInLine(ahead=1_001, or_more=True)
    assert many.sentence() == "more than 1,000 jobs are ahead of it"
    assert many.numbers() == {"ahead": 1_001, "or_more": True}
    some = reasons.BehindInLine(ahead=0, or_more=True)
    assert some.sentence() == "other jobs are ahead of it"


def why_of(job: Job, **world) -> reasons.Reason | None:
    """Why one of several waiting jobs waits, as a person who asks sees it."""
    snapshot = Snapshot(pools=world.pop("pools", (pool(),)), **world)
    return looked_into(job, World(snapshot=snapshot, ledgers={}), NOW).reason


def test_each_job_of_a_sweep_beyond_its_limit_says_so_not_its_first_alone() -> None:
    jobs = tuple(waits(f"s{n}", group="s", since=9 - n, slots=1 + n % 2) for n in range(6))
    group = Group(name="s", members=("a", *(job.name for job in jobs)), max_parallel=1)
    world = {"active": (runs("a", group="s"),), "waiting": jobs, "groups": (group,)}
    for job in jobs:
        why = why_of(job, pools=(pool(slots=9),), **world)
        assert why == reasons.SweepLimit(group="s", active=1, limit=1), job.name


def test_each_job_beyond_max_jobs_says_so() -> None:
    jobs = tuple(waits(f"j{n}", since=9 - n) for n in range(3))
    settings = SchedulerSettings(max_jobs=1)
    for job in jobs:
        why = why_of(
            job, pools=(pool(slots=9),), active=(runs("a"),), waiting=jobs, scheduler=settings
        )
        assert why == reasons.JobLimitReached(active=1, limit=1), job.name


def test_a_member_that_starts_or_is_owed_slots_is_not_kept_back() -> None:
    jobs = tuple(waits(f"s{n}", group="s", since=9 - n) for n in range(3))
    group = Group(name="s", members=tuple(job.name for job in jobs), max_parallel=1)
    told = [why_of(job, waiting=jobs, groups=(group,)) for job in jobs]
    limit = reasons.SweepLimit(group="s", active=1, limit=1)
    assert told == [reasons.NextPass(pool="p"), limit, limit]


def test_a_job_behind_others_says_what_the_first_of_its_line_waits_for() -> None:
    active = (runs("a"), runs("b"))
    jobs = tuple(waits(f"j{n}", since=9 - n) for n in range(3))
    world = {"active": active, "waiting": jobs}
    head = reasons.NoFreeSlots(pool="p", needed=1, free=0, capacity=2, lower_ranked=0)
    assert why_of(jobs[0], **world) == head
    why = why_of(jobs[2], **world)
    assert why == reasons.BehindInLine(ahead=0, head="j0", head_waits=head)
    assert why.text() == (
        "0 jobs are ahead of it; j0, the first of its line, waits: needs 1 slot; pool p has 0 free "
        "of 2, and no job there has a lower priority"
    )
    assert reason_view(why).numbers == {"ahead": 0, "head": "j0", "head_reason": "no_free_slots"}


def test_what_the_head_waits_for_is_repeated_in_short() -> None:
    cause = "no capacity, says the service, " * 40
    head = reasons.PoolBacksOff(pool="p", until=NOW, cause=cause)
    told = reasons.BehindInLine(ahead=2, head="j0", head_waits=head).text()
    assert told.startswith("2 jobs are ahead of it; j0, the first of its line, waits: pool p is ")
    assert told.endswith("…")
    assert len(told) < 320


def test_the_head_is_of_the_jobs_own_line() -> None:
    """Of three lines in one pool, each job behind its head names that one."""
    active = (runs("a", slots=2),)
    jobs = tuple(
        waits(f"{letter}{n}", since=9 - n, slots=slots)
        for letter, slots in (("x", 1), ("y", 2))
        for n in range(2)
    )
    gone = waits("z1", pools=("gone",))
    told = {job.name: why_of(job, active=active, waiting=(*jobs, gone)) for job in jobs}
    assert told["x1"].head == "x0"
    assert told["y1"].head == "y0"
    assert why_of(waits("z2", pools=("gone",)), waiting=(gone,)).head == "z1"
