"""Whoever waits for a job's end hears of it: once at least, and of nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from slotq.local.training.virtual_runner import Work
from slotq_core.errors import InvalidRequest, NameTaken, NotDelivered, NotPermitted
from slotq_core.manager import QueueManager
from slotq_core.model.callers import Access
from slotq_core.model.jobs import JobState
from slotq_core.model.notices import Callback, CallbackKind
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from slotq_core.notices import job_answers
from slotq_core.notices.job_answers import JobAnswer
from slotq_core.operations.callbacks import answering
from slotq_core.operations.status import Status
from slotq_core.ports.callbacks import KeptCallback
from slotq_core.wire.submission import parse_submission
from tests.queue_world import START, QueueWorld, pool, request

EVERY_KIND = frozenset(CallbackKind)


@dataclass
class Waiting:
    """A double of those who wait: it takes one answer for each token, as AWS does."""

    beats: list[str] = field(default_factory=list)
    sent: list[tuple[str, JobAnswer]] = field(default_factory=list)
    """Every answer, also those to closed waits."""
    closed: set[str] = field(default_factory=set)
    refuses: str = ""
    """Why no call is accepted now; empty: each is."""
    lost: bool = False
    """Whether the answer of AWS is lost, though AWS has taken the call."""

    def still_waits(self, callback: Callback) -> bool:
        assert callback.kind is CallbackKind.TASK
        self.beats.append(callback.token)
        if self.refuses:
            raise NotDelivered(self.refuses)
        return callback.token not in self.closed

    def send(self, callback: Callback, answer: JobAnswer) -> bool:
        if self.refuses:
            raise NotDelivered(self.refuses)
        self.sent.append((callback.token, answer))
        was_open = callback.token not in self.closed
        self.closed.add(callback.token)
        if self.lost:
            raise NotDelivered("ReadTimeoutError")
        return was_open

    @property
    def ends(self) -> list[tuple[str, str]]:
        return [(token, answer.error) for token, answer in self.sent]


class WaitedFor(QueueWorld):
    """A queue that answers callbacks."""

    def __init__(
        self,
        *pools: Any,
        kinds: frozenset[CallbackKind] = EVERY_KIND,
        operators: tuple[str, ...] = (),
        **more: Any,
    ) -> None:
        self.waiting, self._kinds, self._operators = Waiting(), kinds, operators
        super().__init__(*pools, **more)

    def another_manager(self) -> QueueManager:
        return QueueManager(
            store=self.store,
            training=self.training(),
            clock=self.clock,
            notifier=self,
            dead_letters=self,
            scripts=self.scripts,
            operators=self._operators,
            callback_kinds=self._kinds,
            answers=lambda: self.waiting,
        )

    def wait(
        self, name: str, token: str, *, by: str = "ann", when: str = "cancel", **fields: Any
    ) -> Status:
        """Submit a job, and wait for its end by a task's token."""
        return self._submit(name, {"task_token": token, "when_abandoned": when}, by, fields)

    def wait_in_a_pipeline(self, name: str, token: str) -> Status:
        return self._submit(name, {"pipeline_token": token}, "ann", {})

    def _submit(self, name: str, callback: Any, by: str, fields: dict[str, Any]) -> Status:
        body = {**request(name, **fields), "slotq:callback": callback}
        submission, kept = parse_submission(body)
        return self.manager.submissions.submit(submission, kept, submitter=by)

    def tick(self, seconds: float = 60) -> tuple[str, ...]:
        """A minute later; returns the troubles."""
        self.later(seconds)
        troubles = self.manager.tick().troubles
        self.deliver()
        return troubles

    def kept(self) -> list[KeptCallback]:
        return [*self.store.callbacks.all()]


@pytest.fixture
def world():
    return WaitedFor()


def test_a_job_that_completes_is_a_task_that_succeeds_once(world):
    world.wait("job1", "token")
    world.deliver()
    world.tick()
    assert world.waiting.ends == []
    world.tick()
    ((token, answer),) = world.waiting.sent
    assert (token, answer.error) == ("token", "")
    output = json.loads(job_answers.task_output(answer))
    assert output["model"] == "s3://bucket/out/job1/output/model.tar.gz"
    assert (output["job"], output["state"], output["attempts"]) == ("job1", "completed", 1)
    assert world.kept() == []
    world.tick()
    assert len(world.waiting.sent) == 1


def test_each_tick_shows_that_the_job_lives(world):
    world.runtime = 600_000
    world.wait("job1", "token")
    world.wait("job2", "other", priority=-1)
    world.wait_in_a_pipeline("job3", "a1B2c3D4e5")
    for _ in range(3):
        world.tick()
    assert world.waiting.beats == ["token", "other"] * 3, "also of a job that waits"


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda world: None, "SlotQ.Failed"),
        (lambda world: world.manager.changes.cancel("job1", by="ann"), "SlotQ.Cancelled"),
        (lambda world: world.client.stop_training_job(TrainingJobName="job1"), "SlotQ.Stopped"),
    ],
)
def test_each_other_end_is_a_failure_with_its_own_error(end, error):
    world = WaitedFor(work={"job1": Work(runtime=30_000, exit_code=1)})
    world.wait("job1", "token")
    world.deliver()
    end(world)
    world.tick()
    ((_, answer),) = world.waiting.sent
    assert answer.error == error
    assert json.loads(job_answers.task_failure(answer)[1])["reason"] == answer.reason


def test_a_time_box_is_a_failure_of_its_own(world):
    world.runtime = 10 * 86_400_000
    world.wait("job1", "token")
    world.deliver()
    world.later(86_400 + 200)
    world.tick()
    ((_, answer),) = world.waiting.sent
    error, cause = job_answers.task_failure(answer)
    assert error == "SlotQ.MaxRuntimeExceeded"
    assert json.loads(cause)["model"] == "s3://bucket/out/job1/output/model.tar.gz"


def test_an_eviction_is_no_end(world):
    world.wait("low", "token", priority=1)
    world.deliver()
    world.later(10)
    world.submit("high", priority=2)
    world.deliver()
    world.tick(5)
    assert world.job("low").state is JobState.PREEMPTED
    assert world.waiting.ends == []
    for _ in range(4):
        world.tick()
    assert world.waiting.ends == [("token", "")]
    assert dict(world.waiting.sent)["token"].facts["evictions"] == 1


def test_a_retry_is_no_end():
    world = WaitedFor(work={"job1": Work(fails_after=30_000, checkpoint=False)})
    world.wait("job1", "token", retries="1")
    world.deliver()
    world.tick(31)
    assert (world.job("job1").attempts, world.waiting.ends) == (2, [])
    world.tick()
    assert world.waiting.ends == [("token", "SlotQ.Failed")]


def test_the_newest_token_hears_of_the_end_and_the_old_one_that_it_is_superseded(world):
    world.wait("job1", "first")
    world.deliver()
    before = world.job("job1")
    world.wait("job1", "second")
    assert world.job("job1") == before
    world.wait("job1", "first")  # Repeated by a client that had no answer.
    world.tick(10)
    assert world.waiting.ends == [("first", "SlotQ.Superseded")]
    assert world.waiting.beats == ["second"]
    world.tick(100)
    assert world.waiting.ends == [("first", "SlotQ.Superseded"), ("second", "")]
    assert world.kept() == []


def test_a_job_without_a_callback_may_get_one(world):
    world.submit("job1")
    world.deliver()
    world.wait("job1", "late")
    world.submit("job1")  # The same without a callback takes nothing away.
    world.tick(101)
    assert world.waiting.ends == [("late", "")]


def test_a_submission_after_the_end_is_answered_by_the_next_tick(world):
    world.wait("job1", "token")
    world.deliver()
    world.tick(101)
    assert world.waiting.ends == [("token", "")]
    again = world.wait("job1", "again")
    assert again.job.state is JobState.COMPLETED
    world.tick(1)
    assert world.waiting.ends == [("token", ""), ("again", "")]
    with pytest.raises(NameTaken, match="has ended"):
        world.submit("job1")
    with pytest.raises(NameTaken, match="has ended"):
        world.wait("job1", "other", priority=7)
    assert world.kept() == []


def test_another_body_of_the_name_changes_no_callback(world):
    world.wait("job1", "token")
    with pytest.raises(NameTaken):
        world.wait("job1", "other", priority=7)
    assert [kept.token for kept in world.kept()] == ["token"]


def test_nobody_waits_for_a_strangers_job():
    """A token that takes a place could cancel the job."""
    world = WaitedFor(operators=("boss",))
    vision = Project(name="vision", access=Access(members=("ann", "eve"), default_for=("*",)))
    world.store.configuration.change(sharing=Sharing(projects=(vision,)), who="test", now=START)
    world.wait("job1", "token")
    with pytest.raises(NotPermitted):
        world.wait("job1", "strangers", by="eve")
    assert [kept.token for kept in world.kept()] == ["token"]
    world.wait("job1", "operators", by="boss")
    assert [kept.token for kept in world.kept()] == ["operators", "token"]


@pytest.mark.parametrize("kinds", [frozenset(), frozenset({CallbackKind.PIPELINE})])
def test_a_queue_that_answers_no_tasks_refuses_them(kinds):
    world = WaitedFor(kinds=kinds)
    with pytest.raises(InvalidRequest, match="TaskCallbacks") as refused:
        world.wait("job1", "token")
    assert refused.value.field == "slotq:callback"
    assert world.states() == {}
    assert world.kept() == []


def test_what_is_not_accepted_stays_with_its_reason_and_is_sent_again(world):
    world.wait("job1", "token")
    world.deliver()
    world.later(101)
    world.waiting.refuses = "KmsAccessDeniedException"
    assert world.tick(1) == ("callback of job1: KmsAccessDeniedException",)
    (kept,) = world.kept()
    assert (kept.tries, kept.trouble) == (1, "KmsAccessDeniedException")
    assert world.tick(30) == (), "not before its time"
    assert world.tick(40) == ("callback of job1: KmsAccessDeniedException",)
    assert world.kept()[0].due - world.clock.now() == 120_000
    world.waiting.refuses = ""
    world.tick(121)
    assert world.waiting.ends == [("token", "")]
    assert world.kept() == []


def test_an_answer_that_gets_lost_is_repeated_and_does_no_harm(world):
    world.wait("job1", "token")
    world.deliver()
    world.waiting.lost = True
    world.tick(101)
    world.waiting.lost = False
    world.tick()
    assert [token for token, _ in world.waiting.sent] == ["token", "token"]
    assert world.kept() == []


def test_a_handler_that_dies_behind_the_answer_loses_nothing(world, monkeypatch):
    world.wait("job1", "token")
    world.deliver()
    world.later(101)

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(world.store.callbacks), "forget", dies)
        with pytest.raises(KeyboardInterrupt):
            world.tick(1)
    world.tick()
    assert [token for token, _ in world.waiting.sent] == ["token", "token"]


@pytest.mark.parametrize("runs", [True, False])
def test_a_job_for_whose_end_nobody_waits_is_cancelled(world, runs):
    world.submit("ahead") if not runs else None
    world.wait("job1", "token")
    world.deliver()
    world.waiting.closed.add("token")
    world.tick(10)
    world.tick(1)
    job = world.job("job1")
    assert job.state is JobState.CANCELLED
    assert job.message == "cancelled by the queue: nobody waits for its end any more"
    assert world.kept() == []
    assert world.waiting.sent == []


def test_it_goes_on_if_its_submission_says_so(world):
    world.wait("job1", "token", when="continue")
    world.deliver()
    world.waiting.closed.add("token")
    world.tick(10)
    assert world.kept() == []
    world.tick(101)
    assert world.job("job1").state is JobState.COMPLETED
    assert world.waiting.sent == []


def test_a_newer_token_that_comes_with_the_heartbeat_saves_the_job(world, monkeypatch):
    world.wait("job1", "first")
    world.deliver()
    world.waiting.closed.add("first")
    right = Waiting.still_waits

    def overtaken(self: Waiting, callback: Callback) -> bool:
        answer = right(self, callback)
        world.wait("job1", "second")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(Waiting, "still_waits", overtaken)
        world.tick(10)
    assert world.job("job1").state is JobState.RUNNING
    world.tick(101)
    assert ("second", "") in world.waiting.ends


def test_a_heartbeat_that_is_refused_cancels_nothing_and_says_why_once(world):
    world.runtime = 1_000_000
    world.wait("job1", "token")
    world.deliver()
    world.waiting.refuses = "ThrottlingException"
    assert world.tick() == world.tick() == ("callback of job1: ThrottlingException",)
    assert world.kept()[0].trouble == "ThrottlingException"
    world.waiting.refuses = ""
    assert world.tick() == ()
    assert world.kept()[0].trouble == ""
    assert world.job("job1").state is JobState.RUNNING


def test_a_tick_makes_a_bounded_number_of_calls(world):
    number = answering.MOST_A_TICK + 50
    world.runtime = 10_000_000
    for place in range(number):
        world.wait(f"job{place:04}", f"token{place:04}")
    for tick in range(1, 4):
        world.tick()
        assert len(world.waiting.beats) <= tick * answering.MOST_A_TICK
    assert len({*world.waiting.beats}) == number, "each has its turn"


def test_a_tick_without_time_leaves_them_to_the_next(world):
    world.runtime = 1_000_000
    world.wait("job1", "token")
    world.manager.tick(budget=answering.SLOWEST)
    assert world.waiting.beats == []
    world.manager.tick(budget=4 * answering.SLOWEST)
    assert world.waiting.beats == ["token"]


@pytest.mark.parametrize("most", [answering.MOST_A_TICK, 50])
def test_a_tick_whose_time_runs_out_goes_on_where_it_stopped(world, monkeypatch, most):
    """Else whose names come last would never have their turn while AWS is slow."""
    monkeypatch.setattr(answering, "MOST_A_TICK", most)
    world.runtime = 10_000_000
    for place in range(70):
        world.wait(f"job{place:04}", f"token{place:04}")
    beats = world.waiting.still_waits

    def slowly(callback: Callback) -> bool:
        world.clock.set(world.clock.now() + 1_000)
        return beats(callback)

    monkeypatch.setattr(world.waiting, "still_waits", slowly)
    for ticks in range(1, 5):
        world.clock.set(world.clock.now() + 60_000)
        world.manager.tick(budget=40_000)  # Time for twenty.
        assert len({*world.waiting.beats}) == min(70, 20 * ticks)


def test_a_job_whose_records_have_gone_is_answered(world):
    world.wait("job1", "token")
    world.deliver()
    world.waiting.refuses = "KmsAccessDeniedException"
    world.tick(101)
    world.tick(31 * 86_400)
    assert world.states() == {}
    world.waiting.refuses = ""
    world.tick(3600)
    assert world.waiting.ends == [("token", "SlotQ.Forgotten")]
    assert world.kept() == []


def test_nothing_that_people_see_has_the_token(world):
    world.wait("job1", "very-secret-token")
    world.waiting.refuses = "ThrottlingException"
    troubles = world.tick(10)
    seen: list[Callable[[], object]] = [
        lambda: troubles,
        world.manager.jobs.statuses,
        lambda: world.manager.jobs.request("job1", by="ann"),
        lambda: world.manager.queue_snapshots.read(to="ann"),
        world.manager.doctor.examine,
        lambda: world.events,
        lambda: world.client.describe_training_job(TrainingJobName="job1"),
        world.kept,
    ]
    for look in seen:
        assert "very-secret-token" not in repr(look())


def test_two_pools_and_a_pipeline():
    world = WaitedFor(pool("p", 1))
    world.wait_in_a_pipeline("job1", "a1B2c3D4e5")
    world.deliver()
    world.tick(101)
    ((token, answer),) = world.waiting.sent
    outputs = {each["Name"]: each["Value"] for each in job_answers.step_outputs(answer)}
    assert token == "a1B2c3D4e5"
    assert outputs["model"] == "s3://bucket/out/job1/output/model.tar.gz"
