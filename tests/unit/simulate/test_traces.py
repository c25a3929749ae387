"""Jobs from a table, in the world of a scenario file."""

from __future__ import annotations

import pytest

from slotq.simulate import load, simulate

TRACE = """\
slots,job,project,submit_s,runtime_s
2,a1,a,0,30
1,b1,b,5.5,1e1

1,own-2,,7,1.5
"""


@pytest.fixture
def files(tmp_path):
    def written(world: str, trace: str = TRACE):
        (tmp_path / "w.yaml").write_text(world)
        (tmp_path / "t.csv").write_text(trace)
        return tmp_path / "w.yaml", tmp_path / "t.csv"

    return written


def test_the_traces_jobs_run_in_the_world_of_the_file(files):
    world = "pools: [{name: p, capacity: 2}]\nprojects: [{name: a, quota: 2}, {name: b}]\n"
    scenario = load(*files(world))
    assert [(j.name, j.project, j.slots, j.submit_at, j.runtime) for j in scenario.jobs] == [
        ("a1", "a", 2, 0, 30_000),
        ("b1", "b", 1, 5_500, 10_000),
        ("own-2", "default", 1, 7_000, 1_500),
    ]
    record = simulate(scenario)
    assert record.started("b1") == [30_000]


def test_the_traces_jobs_come_after_the_jobs_of_the_file(files):
    world = "pools: [{name: p, capacity: 2}]\njobs: [{name: first, submit_at: 0}]\n"
    assert [job.name for job in load(*files(world)).jobs] == ["first", "a1", "b1", "own-2"]


def test_without_projects_all_jobs_share_one_order(files):
    """The column is then unused: a higher priority in the file evicts any running job."""
    world = (
        "pools: [{name: p, capacity: 2}]\n"
        "jobs: [{name: urgent, submit_at: 10, slots: 2, priority: 1, runtime: 5}]\n"
    )
    scenario = load(*files(world))
    assert {job.project for job in scenario.jobs} == {None}
    assert simulate(scenario).evictions("a1") == 1


def test_expectations_may_name_the_traces_jobs(files):
    world = "pools: [{name: p, capacity: 2}]\nexpect: [{at: end, states: {a1: completed}}]\n"
    assert load(*files(world)).expect[0].states == {"a1": "completed"}


def test_a_job_that_no_pool_can_hold_is_refused(files):
    scenario = load(*files("pools: [{name: p, capacity: 1}]\n"))
    assert simulate(scenario).states["a1"] == [(0, "refused")]


def test_a_table_can_be_as_spreadsheets_write_it(files):
    """With a byte order mark, CRLF and spaces."""
    world, trace = files("pools: [{name: p, capacity: 2}]\n")
    trace.write_bytes(
        "\ufeffjob, project, submit_s, runtime_s, slots\r\na, x, 0, 1, 1\r\n".encode()
    )
    assert [job.name for job in load(world, trace).jobs] == ["a"]
