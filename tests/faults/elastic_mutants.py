"""Broken variants of the rules for elastic gangs. The worlds that show them are small: the
scenarios of `tests/scenarios/elastic`, by the policy alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from slotq.simulate import load, simulate
from slotq.simulate.report import differences
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.actions import victims
from slotq_core.policy.explain import waiting
from slotq_core.policy.plan import Plan, RollBack
from slotq_core.policy.state import plan_state
from slotq_core.policy.state.eligibility import Eligibility
from slotq_core.policy.state.groups import elastic
from slotq_core.policy.state.groups.elastic import ElasticGang
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.turn.gang_turn import GangTurn
from tests.faults.hours_mutants import Played, _Watch
from tests.faults.mutants import Hunt, Mutant
from tests.faults.promises import Broken

BREATHES = "the core of an elastic gang goes whole, the others one by one, and they come back"
_WORLDS = Path(__file__).parents[1] / "scenarios"


def world(name: str, folder: str = "elastic") -> Hunt:
    """The scenario of that name, with each expectation that does not hold."""

    def hunt() -> Iterator[Played]:
        scenario = load(_WORLDS / folder / f"{name}.yaml")
        found = differences(scenario, simulate(scenario))
        yield Played(_Watch([Broken(BREATHES, str(difference)) for difference in found]))

    return hunt


def _without_rollbacks() -> Iterator[Played]:
    """A scenario in which no member is left to be rolled back after its gang."""
    found: list[Broken] = []

    def watch(_: Snapshot, planned: Plan, now: int) -> None:
        found.extend(
            Broken(BREATHES, f"{decision.group} is rolled back at {now}")
            for decision in planned.decisions
            if isinstance(decision, RollBack)
        )

    simulate(load(_WORLDS / "elastic" / "a_core_takes_the_others_along.yaml"), watch)
    yield Played(_Watch(found))


def _of(module: Any, name: str, value: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(module, name, value)


_core_of, _extra, _beyond, _protect = (
    elastic.core_of,
    ElasticGang._extra,
    elastic.beyond_core,
    ElasticGang.protect,
)


def _smaller_core(gang: LiveGang, members: Any, *started: Any) -> frozenset[str]:
    core = _core_of(gang, members, *started)
    return frozenset(sorted(core)[:-1]) or core


def _last_joined(gang: LiveGang, members: Any, *started: Any) -> frozenset[str]:
    members = [*members]
    size = len(_core_of(gang, members, *started))
    names = sorted(members, key=lambda job: job.attempt.admitted_at if job.attempt else 0)
    return frozenset(job.name for job in names[-size:])


def _whoever_is_mandatory(gang: LiveGang, members: Any, *started: Any) -> frozenset[str]:
    bare = LiveGang(group=replace(gang.group, mandatory=()), waiting=(), active=())
    return _core_of(bare, members, *started)


def _like_any_job(gang: ElasticGang, *place: Any) -> Any:
    found = _extra(gang, *place)
    return replace(found, joined=0, unsaved=1_000_000, cost=1_000_000, slot_cost=1_000_000)


def _first_joined_goes(gang: ElasticGang, *place: Any) -> Any:
    found = _extra(gang, *place)
    return replace(found, joined=2 * elastic._BELOW_ALL - found.joined)


def _protected_together(gang: ElasticGang, ends: Any) -> Any:
    everyone = {job.name: max(ends.values()) for job, _ in gang.places} if ends else {}
    return _protect(gang, everyone)


def _within_share(turn: GangTurn, step: Any, job: Any, rooms: Any) -> bool:
    beyond = turn._state.shares.beyond
    return step(job, [room for room in rooms if not beyond(job, room.pool.name)])


def _endangers(eligible: Eligibility, job: Any, pool: str) -> bool:
    return bool(eligible._state.shares.beyond(job, pool))


def _no_rule(*_: Any) -> None:
    return None


FIRST, JOINED = "extra_members_go_first", "the_core_is_who_joined_first"
MUTANTS = (
    Mutant(
        "a core is smaller than its gang needs",
        _of(elastic, "core_of", _smaller_core),
        world(FIRST),
        BREATHES,
    ),
    Mutant(
        "who joined last is the core",
        _of(elastic, "core_of", _last_joined),
        world(JOINED),
        BREATHES,
    ),
    Mutant(
        "mandatory members are no core",
        _of(elastic, "core_of", _whoever_is_mandatory),
        world("a_mandatory_member_is_core"),
        BREATHES,
    ),
    Mutant(
        "members beyond the core go like any job",
        _of(ElasticGang, "_extra", _like_any_job),
        world(FIRST),
        BREATHES,
    ),
    Mutant(
        "the first joined goes first",
        _of(ElasticGang, "_extra", _first_joined_goes),
        world("the_last_joined_goes_first"),
        BREATHES,
    ),
    Mutant(
        "a core goes without the others",
        _of(victims, "_with_extras", tuple),
        _without_rollbacks,
        BREATHES,
    ),
    Mutant(
        "a gang that is not preemptible is protected whole",
        _of(elastic, "beyond_core", lambda _: set()),
        world("only_the_core_is_protected"),
        BREATHES,
    ),
    Mutant(
        "members beyond the core start within quota and share",
        _of(GangTurn, "_serve_beyond", _within_share),
        world("all_members_start_at_once"),
        BREATHES,
    ),
    Mutant(
        "members beyond the core are protected with it",
        _of(plan_state, "_beyond_core", _no_rule),
        world("semi_preemptible_as_far_as_the_core"),
        BREATHES,
    ),
    Mutant(
        "who joins stays within the share",
        _of(Eligibility, "endangers_gang", _endangers),
        world("who_joins_may_go_beyond_the_share"),
        BREATHES,
    ),
    Mutant(
        "one min_runtime protects all",
        _of(ElasticGang, "protect", _protected_together),
        world("each_member_has_its_own_min_runtime"),
        BREATHES,
    ),
    Mutant(
        "a member joins a gang that is ending",
        _of(LiveGang, "is_ending", property(lambda _: False)),
        world("left_out_once_the_gang_is_done"),
        BREATHES,
    ),
    Mutant(
        "a pool drains for a member that is not needed",
        _of(LiveGang, "breathes", property(lambda _: False)),
        world("a_member_that_waits_to_join_drains_nothing"),
        BREATHES,
    ),
    Mutant(
        "a member joins in another pool",
        _of(PlanState, "_beside_gang", lambda _, __, rooms: rooms),
        world("gang_same_pool_joins_there", "gangs"),
        BREATHES,
    ),
    Mutant(
        "nobody says who is not yet in",
        _of(waiting, "not_yet_in", waiting.incomplete),
        world("left_out_once_the_gang_is_done"),
        BREATHES,
    ),
)
