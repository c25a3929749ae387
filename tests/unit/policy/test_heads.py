"""The heads of the lines request as much as all waiting jobs, so shares and plans are the same."""

from __future__ import annotations

from dataclasses import replace

from slotq.simulate import simulate
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lines import heads_needed, line_of
from slotq_core.policy.order import position
from slotq_core.policy.plan import Plan


def plans(world: dict) -> list[tuple[Plan, Plan]]:
    """The plans of each moment: from all jobs, and from as many heads as `heads_of` gives."""
    found: list[tuple[Plan, Plan]] = []

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        lines = {line_of(job) for job in snapshot.waiting}
        needed = heads_needed(lines, snapshot.pools, snapshot.active, projects=True)
        heads = [
            job
            for line in lines
            for job in sorted((j for j in snapshot.waiting if line_of(j) == line), key=position)[
                : needed[line]
            ]
        ]
        found.append((planned, plan(replace(snapshot, waiting=tuple(heads)), now)))

    simulate(Scenario.model_validate(world), watch)
    return found


def many(project: str, pool: str, demand: dict, count: int = 30) -> list[dict]:
    return [
        {"name": f"{project}{i}", "project": project, "pools": [pool], "demand": demand}
        | {"submit_at": 0, "runtime": 10}
        for i in range(count)
    ]


def test_heads_of_a_line_of_one_small_pool_request_the_whole_share():
    """Project a has room for one job and still deserves 4 slots, so project c may not have 4."""
    world = {
        "pools": [{"name": "p", "capacity": 1}, {"name": "q", "capacity": 9}],
        "projects": [{"name": name} for name in "acb"],
        "jobs": [
            *many("a", "p", {"slots": 1}),
            {"name": "b", "project": "b", "slots": 9, "running_since": 0, "pool": "q"},
            {"name": "c", "project": "c", "slots": 4, "submit_at": 0, "pools": ["q"]},
        ],
        "until": 0,
    }
    for everything, heads in plans(world):
        assert everything.decisions == heads.decisions


def test_heads_of_a_line_short_of_one_resource_request_the_whole_other_one():
    """One job of project a takes all gpus, but a requests 30 slots, so project c may not have 4."""
    world = {
        "pools": [{"name": "p", "capacity": {"slots": 10, "gpus": 8}}],
        "projects": [{"name": name} for name in "acb"],
        "jobs": [
            *many("a", "p", {"slots": 1, "gpus": 8}),
            *(
                {"name": f"b{i}", "project": "b", "running_since": 0, "pool": "p"}
                for i in range(10)
            ),
            {"name": "c", "project": "c", "slots": 4, "submit_at": 0},
        ],
        "until": 0,
    }
    for everything, heads in plans(world):
        assert everything.decisions == heads.decisions
