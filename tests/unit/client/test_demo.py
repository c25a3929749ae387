"""The demo's checks, and its story, which is the first scenario of the system."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

pytest.importorskip("moto", reason="the local extra is not installed")

from rich.console import Console

from slotq.demo.job.train import SAVE_EVERY, begin, improve, load, save
from slotq.demo.proof import checks
from slotq.demo.screen import timeline, verdict
from slotq.demo.story import PARTS
from tests.unit.client.fake_queue import attempt, ended

RESUMED = "job1-qstamp-2-abcdef"


def moment(second):
    return f"2026-11-20T10:30:{second:02}.000Z"


def runs(name, *spans, **fields):
    attempts = [
        attempt(
            number,
            training_job=RESUMED if number == 2 else name,
            admitted_at=moment(since),
            running_since=moment(since),
            ended_at=moment(until),
            outcome="completed",
        )
        for number, (since, until) in enumerate(spans, start=1)
    ]
    last = moment(spans[-1][1])
    return ended(name=name, attempts=attempts, changed_at=last, entry_time=moment(0), **fields)


@pytest.fixture
def jobs():
    job1 = runs("job1", (0, 6), (12, 36), evictions=1)
    first = job1.attempts[0].model_copy(
        update={"outcome": "evicted", "stop_cause": "evicted", "stopped_for": "job4"}
    )
    job1.attempts[0] = first
    return {
        "job1": job1,
        "job2": runs("job2", (2, 12)),
        "job3": runs("job3", (26, 36)),
        "job4": runs("job4", (7, 26)),
    }


def trained(steps):
    weights = begin()
    for step in range(steps):
        weights, _ = improve(weights, step)
    return weights


@dataclass
class FakeEvidence:
    kept: int | None = 30
    resumed: int | None = 30
    logs: dict = field(default_factory=lambda: {"job1": range(1, 38), RESUMED: range(31, 301)})
    weights: object = field(default_factory=lambda: trained(300))

    def steps(self, training_job):
        return list(self.logs[training_job])

    def resumed_from(self, training_job):
        return self.resumed

    def model(self, artifact):
        return self.weights


def held(jobs, evidence):
    return all(check.held for check in checks(jobs, evidence))


def test_the_expected_course_passes_every_check(jobs):
    assert held(jobs, FakeEvidence())


@pytest.mark.parametrize(
    "evidence",
    [
        FakeEvidence(kept=None),
        FakeEvidence(kept=0, resumed=0),
        FakeEvidence(resumed=None),
        FakeEvidence(resumed=20),
        FakeEvidence(kept=50, resumed=50),
        FakeEvidence(logs={"job1": range(1, 38), RESUMED: range(1, 301)}),
        FakeEvidence(logs={"job1": range(1, 38), RESUMED: range(36, 301)}),
        FakeEvidence(logs={"job1": [], RESUMED: []}),
        FakeEvidence(weights=None),
        FakeEvidence(weights=trained(299)),
    ],
)
def test_missing_evidence_of_a_resume_fails_the_check(jobs, evidence):
    assert not held(jobs, evidence)


def changed(jobs, name, **fields):
    return {**jobs, name: jobs[name].model_copy(update=fields)}


def test_wrong_states_order_or_evictions_fail_the_check(jobs):
    evidence = FakeEvidence()
    early = [jobs["job3"].attempts[0].model_copy(update={"admitted_at": moment(1)})]
    assert not held(changed(jobs, "job3", state="failed"), evidence)
    assert not held(changed(jobs, "job3", attempts=early), evidence)
    assert not held(changed(jobs, "job2", evictions=1), evidence)
    assert not held(changed(jobs, "job1", attempts=jobs["job1"].attempts[1:]), evidence)
    assert not held(changed(jobs, "job1", state="failed", attempts=[]), evidence)


def test_the_timeline_and_the_verdict_are_printed(jobs):
    console = Console(width=120, record=True, file=None, color_system=None)
    with console.capture() as captured:
        console.print(timeline(jobs))
        console.print(verdict(checks(jobs, FakeEvidence(resumed=20))))
    text = captured.get()
    (bar,) = [line for line in text.splitlines() if line.startswith("job1, priority")]
    assert bar.index("▒") < bar.index("·") < bar.index("█")
    assert "evicted for job4" in text
    assert text.count("✘") == 1


def test_the_training_script_resumes_from_its_checkpoint(tmp_path, capsys):
    weights, step = load(tmp_path)
    assert step == 0
    save(tmp_path, trained(7), 7)
    weights, step = load(tmp_path)
    assert step == 7
    assert weights == trained(7)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.json"]


def test_the_story_is_the_first_scenario():
    told = [(part.name, part.at, part.priority, part.steps) for part in PARTS]
    assert told == [
        ("job1", 0, 1, 300),
        ("job2", 20, 2, 100),
        ("job3", 40, 1, 100),
        ("job4", 60, 3, 200),
    ]
    assert SAVE_EVERY < 60
