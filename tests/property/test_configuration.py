"""A document says everything: what is written and read again is the same."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from slotq_core.model.callers import Access, CallerLimits, CallerRule, Limits
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Workload
from slotq_core.model.pools import CapacityKind, OnStall, Pool, PoolState
from slotq_core.model.projects import (
    EVERYWHERE,
    Beyond,
    Budget,
    Department,
    Fairness,
    Prescription,
    Project,
)
from slotq_core.model.sharing import SchedulerSettings, Settings, Sharing, Subscription
from slotq_core.wire.document.amending import with_project
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.differences import differences, document_differences
from slotq_core.wire.document.writing import doubled_names, project_entry, written

POOLS = ("p5", "p4", "a.b-c_d", "gpus", "licences")
"""The last two are names of resources too."""
names = st.sampled_from(["a", "vision", "x.y", "team-1", "Z9", "b_c"])
amounts = st.integers(0, 1000)
seconds = st.integers(0, 10_000).map(lambda n: 1000 * n)


def some(*texts):
    """A few of these, in any order."""
    return st.lists(st.sampled_from(texts), max_size=3, unique=True).map(tuple)


PLANS = "arn:aws:sagemaker:us-east-1:123456789012:training-plan"
principals = st.lists(
    st.sampled_from(["arn:aws:iam::1:role/x", "arn:aws:iam::2:user/*", "*"]), max_size=3
).map(tuple)
priorities = st.integers(-1_000_000, 1_000_000)
optional = st.none() | st.integers(0, 1_000_000)


@st.composite
def pools(draw):
    return tuple(
        Pool(
            name=name,
            instance_type=draw(st.sampled_from(["ml.p4d.24xlarge", "ml.odd.metal"])),
            capacity=Demand(slots=draw(amounts), licences=draw(amounts)),
            properties=Demand({"mem": draw(st.integers(0, 64))}),
            reserve_after=draw(st.none() | seconds),
            min_runtime=draw(seconds),
            max_min_runtime=draw(seconds),
            pending_timeout=draw(st.none() | seconds.map(lambda n: n + 1000)),
            capacity_kind=(kind := draw(st.sampled_from(CapacityKind))),
            plan_arn=f"{PLANS}/{POOLS.index(name)}" if kind is CapacityKind.PLAN else "",
            spot_wait=draw(seconds),
            consolidate=draw(st.booleans()),
            count_foreign=draw(st.booleans()),
            open=draw(st.booleans()),
            stall_after=draw(st.none() | seconds.map(lambda n: n + 60_000)),
            on_stall=draw(st.sampled_from(OnStall)),
            stall_unreported=draw(st.booleans()),
            read_reports=draw(st.booleans()),
            state=draw(st.sampled_from(PoolState)),
        )
        for name in draw(st.permutations(POOLS))[: draw(st.integers(1, 3))]
    )


def quotas(scopes, resources):
    """Amounts of one kind, or none. A quota of nothing is written as 0 slots."""
    demand = st.dictionaries(st.sampled_from(resources), st.integers(0, 9), min_size=1)
    if scopes == (EVERYWHERE,):
        return st.builds(lambda own: {EVERYWHERE: Demand({"slots": 0, **own})}, demand)
    return st.dictionaries(st.sampled_from(scopes), demand.map(Demand), max_size=3)


def limits_of(scopes, resources):
    own = st.dictionaries(st.sampled_from(resources), st.integers(0, 9), min_size=1)
    if scopes == (EVERYWHERE,):  # Beside slots, no resource can be taken for a pool.
        beside = own.map(lambda it: {"slots": 0, **it})
        return st.dictionaries(st.just(EVERYWHERE), beside, max_size=1)
    return st.dictionaries(st.sampled_from(scopes), own, max_size=3)


def weights_among(*owners):
    """Weights of one number, or by resource: of those that somebody has a quota of, else slots."""
    quotas = [own for each in owners for own in (each.quota or {}).values()]
    shared = {name for own in quotas for name in own} or {"slots"}
    weight = st.integers(0, 1_000_000)
    return optional | st.dictionaries(st.sampled_from(sorted(shared)), weight, min_size=1)


prescriptions = st.builds(
    Prescription,
    defaults=st.sampled_from(
        [{}, {"VpcConfig": {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}}]
    ),
    fixed=st.sampled_from([{}, {"EnableNetworkIsolation": True}]),
    roles=some("arn:aws:iam::*:role/x", "arn:aws:iam::1:role/service-role/*"),
    images=some("123456789012.dkr.ecr.us-east-1.amazonaws.com/*", "team/image:2"),
    outputs=some("s3://bucket/team", "s3://*"),
    instance_types=st.dictionaries(
        st.sampled_from([kind.value for kind in Workload]), some("ml.g5.*", "*"), max_size=2
    ),
    max_priority=st.none() | priorities,
    waiting=amounts,
    submissions=amounts,
)


budgets = st.none() | st.builds(
    Budget, slot_ms=st.integers(1, 10**15), beyond=st.sampled_from(Beyond)
)


schedulers = st.none() | st.builds(
    SchedulerSettings,
    max_jobs=st.none() | st.integers(1, 1_000_000),
    max_schedule_count=st.integers(1, 1_000_000),
    min_schedule_interval=st.integers(1, 700_000),
    max_schedule_interval=st.integers(700_000, 10**9),
)


@st.composite
def configurations(draw):
    there = draw(pools())
    pool_names = tuple(pool.name for pool in there)
    declared = sorted({"slots", *(name for pool in there for name in pool.capacity)})
    scopes = draw(st.sampled_from([(EVERYWHERE,), pool_names]))
    quota, limit = quotas(scopes, declared), limits_of(scopes, declared)
    departments = tuple(
        Department(
            name=name,
            quota=draw(st.none() | quota),
            limit=draw(limit),
            priority=draw(priorities),
            over_quota=draw(st.booleans()),
            fairness=draw(st.sampled_from(Fairness)),
        )
        for name in draw(st.lists(names, max_size=3, unique=True))
    )
    admins = draw(principals)
    projects = tuple(
        Project(
            name=name,
            department=draw(st.sampled_from(["", *(each.name for each in departments)])),
            quota=draw(quota),
            limit=draw(limit),
            priority=draw(priorities),
            over_quota=draw(st.booleans()),
            min_runtime=draw(seconds),
            budget=draw(budgets),
            pools=tuple(draw(st.permutations(pool_names))[: draw(st.integers(0, 2))]),
            access=Access(
                viewers=draw(principals),
                members=draw(principals),
                admins=admins,
                default_for=draw(principals),
            ),
            requests=replace(draw(prescriptions), approval=bool(admins) and draw(st.booleans())),
        )
        for name in draw(st.lists(names, max_size=4, unique=True))
    )
    weights = weights_among(*departments, *projects)
    departments = tuple(replace(each, weight=draw(weights)) for each in departments)
    projects = tuple(replace(each, weight=draw(weights)) for each in projects)
    rules = draw(st.lists(st.sampled_from(["arn:*:role/a", "arn:*:role/b"]), unique=True))
    return Settings(
        pools=there,
        limits=Limits(
            default=CallerLimits(waiting=draw(amounts), submissions=draw(amounts)),
            waiting_in_all=draw(amounts),
            lines=draw(amounts),
            rules=tuple(
                CallerRule(callers=each, together=draw(st.booleans()), waiting=draw(optional))
                for each in rules
            ),
        ),
        sharing=Sharing(
            departments=departments,
            projects=projects,
            operators=draw(principals),
            session_roles=draw(st.sampled_from([("AWSReservedSSO_*",), (), ("Team*", "X")])),
            weights=draw(st.booleans()),
            unchecked=frozenset(draw(st.sets(st.sampled_from(Subscription)))),
            scheduler=draw(schedulers),
        ),
    )


@given(configurations())
def test_what_is_written_is_read_as_it_was(settings):
    document = written(settings)
    assert read(document) == settings
    assert written(read(document)) == document


@given(configurations(), configurations())
def test_documents_differ_where_configurations_do(before, after):
    # Where a pool's name becomes a resource's too, documents also spell quotas otherwise.
    assume(doubled_names(before.pools) == doubled_names(after.pools))
    found = list(differences(before, after))
    told = list(document_differences(written(before), written(after)))
    assert {(it.section, it.name) for it in found} == {(it.section, it.name) for it in told}
    assert bool(found) == (before != after)


@given(configurations())
def test_an_entry_set_as_it_is_changes_nothing(settings):
    for project in settings.sharing.projects:
        entry = project_entry(project, doubled_names(settings.pools))
        keys = {k: v for k, v in entry.items() if k != "name"}
        assert with_project(settings, project.name, keys) == settings
