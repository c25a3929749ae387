"""Jobs are of one line if they agree in all that a line is made of."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from slotq_core.adapters.dynamodb.layout.table import MAX_SORT_KEY
from slotq_core.admission.rules import MAX_POOLS_PER_JOB
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import SHORTEST_ATTEMPT, Claim, Job, JobState, Workload
from slotq_core.policy.lines import Line, in_lines
from slotq_core.storage.snapshots import stand_in

JOB = Job(
    name="a", state=JobState.PENDING, priority=1, entry_time=5, demand=Demand(slots=1), pools=("p",)
)

OTHERWISE: dict[str, object] = {
    "name": "b",
    "state": JobState.PREEMPTED,
    "priority": 2,
    "entry_time": 6,
    "demand": Demand(slots=2),
    "pools": ("p", "q"),
    "parts": (("p", Demand(slots=1)),),
    "requires": Demand(mem=8),
    "preemptible": False,
    "min_runtime": 1,
    "runtime_estimate": 1,
    "retries": 1,
    "project": "nlp",
    "group": "g",
    "after": ("b",),
    "after_any": ("c",),
    "depends_on": ("b", "c"),
    "followed": True,
    "workload": Workload.INTERACTIVE,
    "priority_class": "NORM",
    "ran_before_class": 1,
    "admitted_class": "NORM",
    "auto": True,
    "checkpoints": False,
    "submitter": "ana",
    "person": "ana",
    "role": "arn:aws:iam::1:role/r",
    "attempts": 1,
    "evictions": 1,
    "schedule_attempts": 1,
    "faults": 1,
    "refused_in": ("p",),
    "denied_in": ("p",),
    "releases": (1,),
    "shared_faults": (1,),
    "ran": 1,
    "reports": True,
    "attempt": Attempt(
        number=1,
        pool="p",
        training_job="a-1",
        token="t",
        instance_type="ml.m5.large",
        admitted_at=0,
    ),
    "claim": Claim(pool="p", amount=Demand(slots=1), since=0),
    "not_before": 1,
    "changed_at": 1,
    "line_by_user": True,
    "cause": "x",
    "message": "x",
    "digest": "x",
    "metrics": (("loss", 0.5),),
    "version": 1,
    "gpus": 200,
    "tenant": "a1b2",
    "longest_attempt": 1,
    "runtime_bound": 3_600_000,
    "evicted_at": (1, 2),
    "warm_key": "c3d4",
    "keep_alive": 60_000,
    "literal_paths": True,
    "whole_because": ("spot",),
}
"""A different value for each field of a job."""


def test_every_field_of_a_job_has_a_different_value_here():
    assert OTHERWISE.keys() == {field.name for field in fields(Job)}
    assert all(getattr(JOB, name) != value for name, value in OTHERWISE.items())


@pytest.mark.parametrize("by_user", [False, True])
@pytest.mark.parametrize("field", OTHERWISE)
def test_jobs_are_grouped_by_their_line(field: str, by_user: bool):
    """Whatever they differ in, and even if another job stands between them."""
    other = replace(JOB, **{"name": "b", field: OTHERWISE[field]})
    apart = replace(JOB, name="c", project="another")
    alike = Line.of(JOB, by_user=by_user) == Line.of(other, by_user=by_user)
    together = alike and other.claim is None
    for waiting in ([JOB, other, apart], [JOB, apart, other], [other, apart, JOB]):
        lines = in_lines(waiting, by_user=by_user)
        assert sorted(map(len, lines)) == ([1, 2] if together else [1, 1, 1])


def test_no_line_rests_on_an_estimate():
    assert Line.of(JOB) == Line.of(replace(JOB, runtime_estimate=60_000))


def test_a_persons_sessions_share_a_line():
    one = replace(JOB, submitter="role/one", person="role")
    other = replace(JOB, name="b", submitter="role/other", person="role")
    assert len(in_lines([one, other], by_user=True)) == 1
    assert len(in_lines([one, replace(other, person="role/other")], by_user=True)) == 2


def test_the_longest_session_fits_into_a_lines_key():
    """DynamoDB limits the key to 1,024 bytes; names of roles and sessions have up to 64."""
    person = f"arn:aws-us-gov:sts::123456789012:assumed-role/{'R' * 64}/{'s' * 64}"
    pools = tuple(f"pool-{number:02}" for number in range(MAX_POOLS_PER_JOB))
    wide = replace(JOB, person=person, pools=pools, project="p" * 63, role="arn", group="g" * 63)
    wide = replace(wide, line_by_user=True, priority_class="C" * 63, refused_in=pools)
    wide = replace(wide, gpus=95, tenant="a" * 16, longest_attempt=28 * 86_400_000)
    wide = replace(wide, warm_key="c" * 12, runtime_bound=28 * 86_400_000)
    key = Line.of(wide, by_user=True).key
    assert person in key
    assert len(key.encode()) <= MAX_SORT_KEY
    assert Line.parse(key).user == person


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"person": "ann"},
        {"role": "arn"},
        {"line_by_user": True},
        {"line_by_user": True, "person": "ann"},
        {"line_by_user": True, "priority_class": "HIGH"},
        {"line_by_user": True, "person": "ann", "role": "arn", "priority_class": "HIGH"},
        {"refused_in": ("p",)},
        {"gpus": 200, "tenant": "a1b2"},
        {"gpus": 25, "tenant": "a1b2", "longest_attempt": 60_000},
        {"refused_in": ("p",), "line_by_user": True, "person": "ann"},
        {"preemptible": "semi", "longest_attempt": 60_000},
        {"warm_key": "c3d4"},
        {"runtime_bound": 3_600_000},
        {"gpus": 25, "tenant": "a1b2", "warm_key": "c3d4"},
    ],
)
def test_a_lines_key_is_read_back(fields: dict[str, object]):
    line = Line.of(replace(JOB, **fields))
    assert Line.parse(line.key) == line
    assert Line.parse(line.key).key == line.key


@pytest.mark.parametrize(("gpus", "written"), [(25, 0.25), (50, 0.5), (200, 2)])
def test_a_stand_in_fits_the_same_nodes_as_the_jobs_of_its_line(gpus: int, written: float):
    line = Line.of(replace(JOB, gpus=gpus, tenant="a1b2", longest_attempt=60_000))
    assert Line.of(stand_in(line, 1, entry_time=0)) == line == Line.parse(line.key)
    assert json.loads(line.key)[-3] == written  # Also as versions before parts of GPUs wrote it.


@pytest.mark.parametrize(
    ("bound", "ran", "at_least"),
    [
        (0, 0, 0),
        (8, 0, 896),
        (7_000, 0, 6_144),
        (8_191, 0, 7_168),
        (8_192, 0, 8_192),
        (12_000, 4_000, 7_168),
        (5_000, 9_000, 896),
    ],
)
def test_a_line_has_jobs_with_about_as_much_of_their_runtime_left(
    bound: int, ran: int, at_least: int
):
    line = Line.of(replace(JOB, runtime_bound=bound, ran=ran))
    assert line.at_least == at_least
    assert stand_in(line, 1, entry_time=0).runtime_left in {at_least or None, SHORTEST_ATTEMPT}
    assert Line.of(stand_in(line, 1, entry_time=0)) == line == Line.parse(line.key)


def test_a_job_on_a_node_waits_in_one_line_whatever_is_left_of_its_runtime():
    on_node = replace(JOB, gpus=200, tenant="a1b2")
    assert Line.of(on_node) == Line.of(replace(on_node, runtime_bound=3_600_000))


def test_a_line_is_in_policy_order():
    late, named = replace(JOB, name="c", entry_time=6), replace(JOB, name="b")
    (line,) = in_lines([late, named, JOB])
    assert line.jobs == [JOB, named, late]


def test_each_claimant_is_a_separate_line():
    claim = Claim(pool="p", amount=Demand(slots=1), since=0)
    one, other = replace(JOB, claim=claim), replace(JOB, name="b", claim=claim)
    assert [line.jobs for line in in_lines([one, other])] == [[one], [other]]
