"""Gangs whose members take GPUs of nodes, on a virtual clock."""

from __future__ import annotations

from typing import Any

from tests.unit.simulate.test_nodes import job, ran


def gang(*members: dict[str, Any], **rules: Any) -> dict[str, Any]:
    jobs = [{**member, "group": "g"} for member in members]
    return {"jobs": jobs, "groups": [{"name": "g", **rules}]}


def alike(number: int, at: int = 0, runtime: int = 100, **fields: Any) -> list[dict[str, Any]]:
    return [job(f"m{n}", at, runtime, **fields) for n in range(number)]


def starts(record: Any, *names: str) -> list[list[int]]:
    return [[at // 1000 for at in record.started(name)] for name in names]


def test_eight_members_of_one_gpu_start_on_one_node():
    record, seen = ran(**gang(*alike(8, gpus=1)))
    assert starts(record, *(f"m{n}" for n in range(8))) == [[180]] * 8
    assert seen[:2] == ["0 node-1 starting", "180 node-1 ready"]
    assert not any("node-2" in line for line in seen)


def test_a_gang_starts_over_two_nodes_once_both_are_ready():
    world = gang(*alike(3, at=10, gpus=5))
    world["jobs"].insert(0, job("old", gpus=3, runtime=1_000))
    record, seen = ran(**world, slots=3)
    assert starts(record, "old", "m0", "m1", "m2") == [[180], [190], [190], [190]]
    assert [line for line in seen if line.endswith("starting")] == [
        "0 node-1 starting",
        "10 node-2 starting",
        "10 node-3 starting",
    ]


def test_a_gang_waits_whole_while_its_last_member_has_no_room():
    """One member would fit beside `old`. It keeps its GPUs until the other has some."""
    world = gang(*alike(2, at=200, gpus=4))
    world["jobs"] = [
        job("old", gpus=4, runtime=400),
        job("whole", runtime=300),
        *world["jobs"],
    ]
    record, _ = ran(**world, slots=2)
    assert starts(record, "m0", "m1") == [[480], [480]]


def test_a_gang_spares_who_shares_its_other_node():
    world = gang(job("m0", gpus=8, runtime=1_000), job("m1", gpus=4, runtime=1_000))
    world["jobs"] += [
        job("beside", at=1, gpus=4, runtime=1_000, priority=5),
        job("high", at=300, gpus=8, priority=1),
    ]
    record, _ = ran(**world, slots=2)
    assert starts(record, "high") == [[305]]
    assert [record.evictions(name) for name in ("m0", "m1", "beside")] == [1, 1, 0]


def test_a_gang_has_a_member_on_a_whole_instance():
    record, _ = ran(**gang(job("whole"), *alike(2, gpus=4)), slots=2)
    assert starts(record, "whole", "m0", "m1") == [[180]] * 3


def test_who_takes_the_node_of_a_gangs_members_evicts_its_member_on_an_instance():
    world = gang(job("whole", runtime=1_000), *alike(2, gpus=4, runtime=1_000))
    world["jobs"].append(job("high", at=300, runtime=50, priority=1))
    record, _ = ran(**world, slots=2)
    assert starts(record, "high") == [[305]]
    assert [record.evictions(name) for name in ("whole", "m0", "m1")] == [1, 1, 1]
    assert starts(record, "whole", "m0") == [[180, 535], [180, 535]]


def test_a_gang_evicts_lower_ranks_on_nodes_and_an_instance():
    low = [job(f"low{n}", gpus=4, runtime=1_000) for n in range(2)]
    world = gang(*alike(3, at=300, gpus=4, priority=1))
    world["jobs"] = [*low, job("lone", runtime=1_000), *world["jobs"]]
    record, _ = ran(**world, slots=2)
    assert starts(record, "m0", "m1", "m2") == [[305 + 180]] * 3
    assert sum(record.evictions(name) for name in ("low0", "low1", "lone")) == 3


def test_a_gang_that_one_empty_instance_holds_is_not_refused_and_a_larger_one_is():
    record, _ = ran(**gang(*alike(9, gpus=1)))
    assert record.states["m0"][-1][1] == "refused"
    record, _ = ran(**gang(*alike(8, gpus=1)))
    assert record.states["m0"][-1][1] == "completed"


def test_a_member_left_out_joins_on_a_node():
    world = gang(*alike(3, gpus=4, runtime=500), min_members=2)
    record, _ = ran(**world, slots=2)
    assert starts(record, "m0", "m1") == [[180], [180]]
    assert starts(record, "m2")[0][0] <= 360


def test_a_projects_gang_counts_the_instances_that_it_needs():
    """Eight members of one GPU are one instance: the project deserves it, and reclaims it."""
    world = gang(*alike(8, at=10, gpus=1, project="b", runtime=50))
    world["jobs"][:0] = [job(f"a{n}", project="a", runtime=1_000) for n in range(2)]
    projects = [{"name": "a", "quota": 1}, {"name": "b", "quota": 1}]
    record, _ = ran(**world, slots=2, projects=projects)
    assert starts(record, "m0", "m7") == [[195], [195]]
    assert record.evictions("a0") + record.evictions("a1") == 1
