"""The core and the agent, which imports nothing of it, write and read the same documents."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq_core.errors import NotUnderstood
from slotq_core.wire.nodes import documents as core
from tests.unit.nodes.agent import agent, finished_node

TOKEN = "token"
texts = st.text(max_size=30)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)  # fmt: skip
documents = st.dictionaries(texts, values, max_size=5)


@given(documents)
def test_both_write_the_same_bytes(document: dict[str, Any]) -> None:
    assert core.canonical(document) == agent.canonical(document)
    assert core.canonical(json.loads(core.canonical(document))) == core.canonical(document)


@given(documents)
def test_both_prove_with_the_same_code(document: dict[str, Any]) -> None:
    document.pop("hmac", None)
    assert agent.with_proof(document, TOKEN)["hmac"] == core.proof(document, TOKEN)


ORDER = core.OrderedAttempt(
    attempt="job-1",
    job="job",
    number=2,
    gpus=(3,),
    gpu_part=25,
    cpus=4,
    memory_mib=1000,
    grace_s=7,
    literal_paths=True,
    suspend=core.Suspend(by="urgent", reason="priority"),
    stop=True,
    request={"Environment": {"A": "ä"}},
)
ORDERS = core.Orders(node="node", generation=2, number=5, lease_s=60, attempts=(ORDER,))


def test_the_core_reads_its_own_orders() -> None:
    assert core.read_orders(core.written_orders(ORDERS)) == ORDERS
    plain = core.OrderedAttempt(attempt="job-1", job="job", number=1)
    leaving = replace(ORDERS, leave=True, attempts=(plain, replace(plain, attempt="job-2")))
    assert core.read_orders(core.written_orders(leaving)) == leaving


@pytest.mark.parametrize("field", ["version", "node", "number", "lease_s", "leave", "attempts"])
def test_orders_that_lack_something_are_not_understood(field: str) -> None:
    document = json.loads(core.written_orders(ORDERS))
    del document[field]
    with pytest.raises(NotUnderstood):
        core.read_orders(core.canonical(document))


def test_the_agent_reads_the_cores_orders() -> None:
    found = agent.read_orders(core.written_orders(ORDERS), "node", 2, 4)
    assert (found.number, found.lease, found.leave) == (5, 60, False)
    (order,) = found.attempts
    assert vars(order) == {
        "attempt": "job-1",
        "job": "job",
        "number": 2,
        "gpus": (3,),
        "gpu_part": 25,
        "cpus": 4,
        "memory_mib": 1000,
        "grace": 7.0,
        "literal": True,
        "suspend": {"by": "urgent", "reason": "priority"},
        "stop": True,
        "request": {"Environment": {"A": "ä"}},
    }


def test_a_report_from_before_there_were_parts_is_read(report: core.NodeReport) -> None:
    document = json.loads(core.written_report(report, TOKEN))
    del document["attempts"][0]["gpu_bound"]
    document["hmac"] = core.proof(document, TOKEN)
    assert read(core.canonical(document)) == report


def test_the_agents_order_has_every_field_of_the_cores() -> None:
    renamed = {"grace_s": "grace", "literal_paths": "literal"}
    names = {renamed.get(name, name) for name in asdict(ORDER)}
    assert set(vars(agent.Order(asdict(ORDER)))) == names


def test_the_core_reads_the_agents_report_and_writes_the_same_bytes(tmp_path) -> None:
    document = finished_node(tmp_path).document()
    content = agent.canonical(agent.with_proof(document, TOKEN))
    report = core.read_report(content, token=TOKEN, node="node", generation=2)
    assert report.attempts[0].state is core.AttemptPhase.FAILED
    assert core.written_report(report, TOKEN) == content


def test_no_place_of_one_job_makes_the_report_of_its_node_unreadable(tmp_path) -> None:
    node = finished_node(tmp_path)
    (job,) = node._jobs.values()
    longest = "s3://bucket/" + "x" * 1_012  # as SageMaker takes one
    for place in (longest, longest * 9, "s3://bucket/\ud800"):
        job.checkpoints = place
        job.artifact = f"{place}/{'j' * 63}/output/model.tar.gz"
        content = agent.canonical(agent.with_proof(node.document(), TOKEN))
        report = core.read_report(content, token=TOKEN, node="node", generation=2)
        assert report.attempts[0].state is core.AttemptPhase.FAILED
        if place == longest:
            assert (report.attempts[0].artifact, report.attempts[0].checkpoints) == (
                job.artifact,
                job.checkpoints,
            )


@pytest.fixture
def report() -> core.NodeReport:
    return core.NodeReport(
        node="node",
        generation=2,
        number=1,
        orders=0,
        uptime_ms=5,
        state=core.NodePhase.READY,
        uids=True,
        gpus=(core.Gpu(index=0, id="0"),),
        attempts=(core.ReportedAttempt(attempt="job-1", state=core.AttemptPhase.RUNNING),),
    )


def read(content: bytes, **changes: Any) -> core.NodeReport:
    return core.read_report(content, **{"token": TOKEN, "node": "node", "generation": 2, **changes})


def test_a_report_comes_back_as_it_was(report: core.NodeReport) -> None:
    assert read(core.written_report(report, TOKEN)) == report


def test_a_field_of_a_newer_agent_is_ignored_and_proven(report: core.NodeReport) -> None:
    document = json.loads(core.written_report(report, TOKEN))
    document["newer"] = [1]
    document["hmac"] = core.proof(document, TOKEN)
    assert read(core.canonical(document)) == report


def test_whoever_lacks_the_token_forges_nothing(report: core.NodeReport) -> None:
    good = core.written_report(report, TOKEN)
    for content in (
        core.written_report(report, "another"),
        good.replace(b'"running"', b'"failed"'),
        json.dumps({**json.loads(good), "hmac": None}).encode(),
        json.dumps({**json.loads(good), "hmac": "ü"}).encode(),
    ):
        with pytest.raises(core.Unproven):
            read(content)


@pytest.mark.parametrize("changes", [{"node": "other"}, {"generation": 3}])
def test_a_report_counts_for_its_own_node_and_generation(
    report: core.NodeReport, changes: dict[str, Any]
) -> None:
    with pytest.raises(core.OfAnother):
        read(core.written_report(report, TOKEN), **changes)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"a":1,"a":1}', b"[" * 10_000, b"1" * 5000, b"\xff"]
)
def test_what_is_no_report_is_not_understood(content: bytes) -> None:
    with pytest.raises(NotUnderstood):
        read(content)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"number": -1},
        {"number": True},
        {"number": 2**60},
        {"state": "well"},
        {"uids": 1},
        {"gpus": [{"index": 0}]},
        {"problems": ["x" * 301]},
        {"problems": ["x"] * 21},
        {"attempts": None},
        {"attempts": [1]},
        {"attempts": "twice"},
        {"attempts": [{"attempt": "../other"}]},
    ],
)
def test_a_proven_report_of_another_form_is_not_understood(
    report: core.NodeReport, change: dict[str, Any]
) -> None:
    document = {**json.loads(core.written_report(report, TOKEN)), **change}
    if change == {"attempts": "twice"}:
        document["attempts"] = json.loads(core.written_report(report, TOKEN))["attempts"] * 2
    document["hmac"] = core.proof(document, TOKEN)
    with pytest.raises(NotUnderstood):
        read(core.canonical(document))


def test_a_report_has_a_largest_size(report: core.NodeReport) -> None:
    large = replace(report, problems=("x" * core.LARGEST_REPORT,))
    with pytest.raises(NotUnderstood, match="larger"):
        read(core.written_report(large, TOKEN))


def test_only_what_the_agent_reads_is_ordered() -> None:
    request = {"TrainingJobName": "j", "RoleArn": "r", "Tags": [], "Environment": {"A": "1"}}
    assert core.reduced(request) == {"Environment": {"A": "1"}}


def test_the_bounds_agree() -> None:
    assert (core.LARGEST_ORDERS, core.LARGEST_REPORT) == (
        agent.LARGEST_ORDERS,
        agent.LARGEST_REPORT,
    )
    assert (core.MOST_PROBLEMS, core.LONGEST_PROBLEM) == (
        agent.MOST_PROBLEMS,
        agent.LONGEST_PROBLEM,
    )
    assert (core.LONGEST_FAILURE, core.LONGEST_URI) == (agent.LONGEST_FAILURE, agent.LONGEST_URI)
    assert {phase for phase in core.AttemptPhase if not phase.ended} == agent.LIVE
