"""Every trigger of the queue manager, with the files in events/."""

import json
import re

import pytest

import app
from slotq.cost.bill import METRICS_EACH_PROJECT
from slotq_core import names
from slotq_core.adapters.notifiers import PASS_EVENT, WAKE_EVENT
from tests.functional.account import (
    EVENTS,
    HOUR,
    NOW,
    TABLE,
    WAKES,
    Account,
    add_job,
    forget,
    sample,
)
from tests.functional.sharing import MEMBER, OTHER, share, submit

SUBMITTER = "arn:aws:sts::123456789012:assumed-role/DataScientist/ada"


USUAL = json.loads(sample("add-job")["body"])["ResourceConfig"]


def test_every_sample_is_a_known_trigger():
    """The stream's samples are for the notifier (test_notifications.py)."""
    names = {path.stem for path in EVENTS.glob("*.json") if not path.stem.startswith("stream-")}
    triggers = {name: app.route(sample(name))[0] for name in names}
    assert {name for name, trigger in triggers.items() if trigger == "Unknown"} == {
        "poison-unknown-source"
    }
    assert set(triggers.values()) == {"ApiRequest", "TrainingEvent", "Tick", "Pass", "Unknown"}
    assert triggers["tick"] == "Tick"
    assert triggers["pass"] == triggers["wake"] == "Pass"
    assert all(t == "TrainingEvent" for name, t in triggers.items() if name.startswith("training"))


def test_the_training_samples_have_the_tags_of_job1s_first_attempt():
    for path in EVENTS.glob("training-*.json"):
        tags = sample(path.stem)["detail"]["Tags"]
        assert tags["slotq:token"] == names.token("job1", NOW, 1)
        assert tags["slotq:queue"] == TABLE


def test_the_pass_sample_is_the_queue_managers_message_to_itself():
    assert sample("pass") == PASS_EVENT


def test_a_submission_is_stored_answered_and_followed_by_an_asynchronous_pass(account: Account):
    status, job = account.call("add-job")
    assert status == 202
    assert (job["name"], job["state"], job["priority"]) == ("job1", "pending", 1)
    assert (job["place"], job["reason"]) == (None, None)
    assert job["submitter"] == SUBMITTER
    assert job["entry_time"] == "2026-11-20T10:30:00.000Z"
    assert account.plane.calls["CreateTrainingJob"] == 0
    (call,) = account.lambda_.calls
    assert call["FunctionName"] == "slotq-queue-manager"
    assert call["InvocationType"] == "Event"
    assert account.lambda_.events == [PASS_EVENT]


def test_the_pass_starts_the_training_job_with_the_users_request(account: Account):
    account.call("add-job")
    account.send("pass")
    account.plane.advance()
    found = account.plane.handle("DescribeTrainingJob", {"TrainingJobName": "job1"})
    submitted = json.loads(sample("add-job")["body"])
    for field in ("RoleArn", "HyperParameters", "InputDataConfig", "ResourceConfig"):
        assert found[field] == submitted[field]
    tags = account.plane.handle("ListTags", {"ResourceArn": found["TrainingJobArn"]})["Tags"]
    assert {tag["Key"] for tag in tags} >= {"priority", "team", "slotq:job", "slotq:token"}


@pytest.mark.parametrize("event", [sample("wake"), WAKE_EVENT], ids=["message", "timer"])
def test_a_wake_runs_a_pass_also_without_news(account: Account, event):
    """A grace may be over, which nobody but the clock says."""
    account.call("add-job")
    account.send("pass")
    assert account.send("pass")["busy"], "there is no news"
    assert account.send(event) == {"decisions": 0, "busy": False}


@pytest.mark.parametrize(
    "records", [[], "text", [1], [{"eventSource": "aws:s3"}], [{"eventSource": None}]], ids=str
)
def test_other_records_are_dead_letters(account: Account, records):
    assert "dead_letter" in account.send({"Records": records})


def test_a_victim_is_asked_and_stopped_by_the_message(account: Account, monkeypatch):
    monkeypatch.setenv("SLOTQ_WAKES", WAKES)
    forget()
    status, _ = account.call({**sample("set-pool"), "body": '{"suspend_grace": true, "slots": 1}'})
    assert status == 200
    place = {"S3Uri": "s3://bucket/low/"}
    account.call(add_job(TrainingJobName="low", CheckpointConfig=place))
    account.settle()
    account.call(add_job(TrainingJobName="high", Tags=[{"Key": "priority", "Value": "9"}]))
    account.send("pass")
    marker = json.loads(account.s3.objects["bucket", "low/_slotq/low/suspend.json"])
    assert (marker["version"], marker["grace"]) == (1, 5)
    (wake,) = account.letters.wakes
    assert 5 <= wake["DelaySeconds"] <= 7
    assert account.plane.calls["StopTrainingJob"] == 0
    account.clock.set(account.clock.now() + 1000 * wake["DelaySeconds"])
    account.send("wake")
    assert account.plane.calls["StopTrainingJob"] == 1


def test_a_tick_makes_up_for_a_lost_pass(account: Account):
    account.call("add-job")
    account.lambda_.events.clear()
    assert account.send("tick") == {"decisions": 1, "busy": False}
    assert account.state("job1") == "starting"


def test_without_asynchronous_invocation_the_pass_runs_at_once(account: Account, monkeypatch):
    monkeypatch.setenv("SLOTQ_INLINE_PASS", "1")
    assert account.call("add-job")[0] == 202
    assert account.state("job1") == "starting"
    assert account.lambda_.calls == []


@pytest.mark.parametrize(
    ("event", "state"),
    [
        ("training-starting", "starting"),
        ("training-in-progress", "running"),
        ("training-completed", "completed"),
        ("training-failed", "failed"),
        ("training-failed-capacity", "pending"),
        ("training-stopped", "stopped"),
    ],
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_training_event_moves_its_job(account: Account, event: str, state: str, times: int):
    account.call("add-job")
    account.send("pass")
    for _ in range(times):
        account.send(event)
    assert account.state("job1") == state


def test_an_event_that_changes_nothing_is_logged_with_its_job_and_counted(account, output):
    account.send("training-completed")
    account.call("add-job")
    account.send("pass")
    account.send("training-stopped")
    account.send("training-in-progress")
    written = output()
    assert "no job of this queue ever ran under that name" in written
    assert "that attempt of job1 is over" in written
    assert written.count('"Ignored"') >= 2
    assert account.state("job1") == "stopped"


def test_events_of_foreign_training_jobs_change_nothing(account: Account):
    before = account.items()
    assert account.send("training-completed") == {"decisions": 0, "busy": False}
    configured = [item for item in account.items() if item not in before]
    assert all(not item["pk"]["S"].startswith("JOB#") for item in configured)


def test_a_job_is_shown_with_its_attempts(account: Account):
    account.call("add-job")
    account.settle()
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    status, job = account.call("get-job")
    assert (status, job["state"]) == (200, "completed")
    (attempt,) = job["attempts"]
    assert attempt["training_job"] == "job1"
    assert attempt["outcome"] == "completed"
    assert attempt["artifact"].endswith("/model.tar.gz")
    assert attempt["logs"] == "/aws/sagemaker/TrainingJobs:job1/"


def test_a_higher_priority_evicts_and_the_victim_resumes(account: Account):
    account.call("add-job")
    account.settle()
    account.call("add-job-urgent")
    account.settle()
    assert [account.state("job1"), account.state("job2")] == ["preempted", "running"]
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    assert [account.state("job1"), account.state("job2")] == ["running", "completed"]
    _, job = account.call("get-job")
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["evicted", None]
    assert job["attempts"][0]["stopped_for"] == "job2"
    assert job["attempts"][1]["training_job"].startswith("job1-qstamp-2-")


def test_the_list_is_in_queue_order(account: Account):
    for name, priority in (("low", "1"), ("high", "5"), ("middle", "3")):
        tags = [{"Key": "priority", "Value": priority}]
        account.submit(name, Tags=tags)
    account.settle()
    status, queue = account.call("list-jobs")
    assert status == 200
    assert [(job["name"], job["place"]) for job in queue["jobs"]] == [
        ("high", None),
        ("middle", None),
        ("low", 1),
    ]
    event = sample("list-jobs-filtered")
    assert [job["name"] for job in account.call(event)[1]["jobs"]] == ["high", "middle", "low"]
    event["queryStringParameters"] = None
    event["multiValueQueryStringParameters"] = {"state": ["pending"]}
    assert [job["name"] for job in account.call(event)[1]["jobs"]] == ["low"]
    event["multiValueQueryStringParameters"] = {"limit": ["2"]}
    assert [job["name"] for job in account.call(event)[1]["jobs"]] == ["high", "middle"]


def test_a_waiting_job_is_cancelled_at_once(account: Account):
    account.call("add-job")
    status, job = account.call("cancel-job")
    assert (status, job["state"]) == (200, "cancelled")
    assert SUBMITTER in job["message"]
    account.settle()
    assert account.plane.calls["CreateTrainingJob"] == 0


def test_a_running_job_is_stopped_and_then_cancelled(account: Account):
    account.call("add-job")
    account.settle()
    assert account.call("cancel-job")[1]["state"] == "stopping"
    account.settle()
    assert account.state("job1") == "cancelled"


def test_a_failure_is_raised_so_that_lambda_retries_and_logged_without_contents(
    account: Account, monkeypatch, output
):
    account.call("add-job")

    def broken(**_):
        raise ValueError(json.loads(sample("add-job")["body"])["HyperParameters"])

    monkeypatch.setattr(app.manager().passes, "run", broken)
    with pytest.raises(app.Failed, match="ValueError") as raised:
        account.send("pass")
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    written = output()
    assert "ValueError" in written
    assert "sagemaker_program" not in written + str(raised.value)


def test_nothing_of_a_request_is_logged(account: Account, output):
    account.call("add-job")
    account.settle()
    account.call("get-job")
    written = output()
    for content in ("sagemaker_program", "epochs", "RoleArn", "pytorch-training", "ada"):
        assert content not in written


def test_the_pools_follow_the_settings_at_a_cold_start(account: Account, monkeypatch):
    account.send("tick")
    monkeypatch.setenv("SLOTQ_POOLS", "main=3@ml.p4d.24xlarge,small=1@ml.g5.xlarge")
    forget()
    account.send("tick")
    tags = [{"Key": "slotq:pools", "Value": "small"}]
    assert account.call(add_job(Tags=tags))[0] == 202


def test_a_pool_in_use_is_not_removed_and_the_queue_continues(
    account: Account, monkeypatch, output
):
    account.call("add-job")
    account.settle()
    monkeypatch.setenv("SLOTQ_POOLS", "other=1@ml.g5.xlarge")
    forget()
    assert account.send("tick") == {"decisions": 0, "busy": False}
    assert account.state("job1") == "running"
    assert "a setting was not taken in" in output()


def test_a_tick_measures_the_longest_wait(account: Account, output):
    for number in range(3):
        account.clock.set(account.clock.now() + 1000)
        account.call(add_job(TrainingJobName=f"job{number}"))
    account.send("tick")
    account.clock.set(account.clock.now() + HOUR)
    account.send("tick")
    waited = re.findall(r'"OldestWaiting":\[(\d+\.?\d*)\]', output())
    assert [float(each) for each in waited] == [0.0, 3600.0]


def test_a_tick_measures_warm_time_that_nobody_used(account: Account, output):
    account.call(
        add_job(TrainingJobName="job", ResourceConfig={**USUAL, "KeepAlivePeriodInSeconds": 60})
    )
    account.settle()
    assert '"WarmUnused"' not in output()
    for _ in range(3):
        account.clock.set(account.clock.now() + HOUR)
        account.settle()
        account.send("tick")
    assert re.findall(r'"WarmUnused":\[(\d+\.?\d*)\]', output()) == ["60.0"]


def test_a_tick_measures_projects_where_the_stack_asks_for_it(
    account: Account, output, monkeypatch
):
    def lines():
        written = [json.loads(line) for line in output().splitlines() if '"ProjectHeld"' in line]
        return {(line["project"], line["resource"]): line for line in written}

    account.send("tick")
    monkeypatch.setenv("SLOTQ_PROJECT_METRICS", "1")
    account.send("tick")
    assert lines() == {}, "there are no projects"
    share()
    submit(account, "speech1", "speech", by=OTHER)
    submit(account, "vision1", "vision", by=MEMBER)
    monkeypatch.delenv("SLOTQ_PROJECT_METRICS")
    account.send("tick")
    assert lines() == {}, "nobody asked for metrics"
    monkeypatch.setenv("SLOTQ_PROJECT_METRICS", "1")
    account.send("tick")
    found = lines()
    assert {key: metrics_of(line) for key, line in found.items()} == {
        ("vision", "slots"): (1, 0, 0, 1),
        ("(others)", "slots"): (1, 0, 1, 0),
    }
    (declared,) = found["vision", "slots"]["_aws"]["CloudWatchMetrics"]
    assert sorted(declared["Dimensions"][0]) == ["project", "resource", "service"]
    assert (declared["Namespace"], len(declared["Metrics"])) == ("SlotQ", METRICS_EACH_PROJECT)


def test_metrics_of_projects_that_cannot_be_had_fail_no_tick(account: Account, output, monkeypatch):
    share()
    monkeypatch.setenv("SLOTQ_PROJECT_METRICS", "many")
    assert account.send("tick") == {"decisions": 0, "busy": False}
    assert "the projects were not measured" in output()


def metrics_of(line: dict) -> tuple[float, ...]:
    names = ("ProjectHeld", "ProjectWaiting", "ProjectOverQuota", "ProjectShare")
    return tuple(line[name][0] for name in names)


def test_the_door_accepts_requests_and_requests_passes_of_the_queue_manager(
    account: Account, monkeypatch
):
    monkeypatch.setenv("SLOTQ_SERVES", "door")
    monkeypatch.setenv("SLOTQ_MANAGER", "the-manager")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "the-door")
    forget()
    assert account.call("add-job")[0] == 202
    (asked,) = account.lambda_.calls
    assert asked["FunctionName"] == "the-manager"
    for event in ("pass", "tick", "training-in-progress", "poison-unknown-source"):
        with pytest.raises(app.Failed, match="NotUnderstood"):
            account.send(event)
    assert account.plane.calls["CreateTrainingJob"] == 0
    assert account.letters.read == []


def test_the_queue_manager_accepts_no_api_requests(account: Account, monkeypatch):
    """API traffic must not use the concurrency of events and ticks."""
    monkeypatch.setenv("SLOTQ_SERVES", "queue")
    forget()
    for event in ("add-job", "list-jobs", "mend"):
        with pytest.raises(app.Failed, match="NotUnderstood"):
            account.send(event)
    assert account.send("tick") == {"decisions": 0, "busy": False}


def test_the_views_function_answers_reads_and_changes_nothing(account: Account, monkeypatch):
    account.call("add-job")
    monkeypatch.setenv("SLOTQ_SERVES", "views")
    monkeypatch.delenv("SLOTQ_POOLS")
    forget()
    before = account.items()
    assert account.call("list-jobs")[1]["jobs"][0]["name"] == "job1"
    assert account.state("job1") == "pending"
    assert account.call("list-pools")[1]["pools"][0]["name"] == "main"
    for event in ("add-job-urgent", "cancel-job", "mend", "pass", "tick", "training-in-progress"):
        with pytest.raises(app.Failed, match="NotUnderstood"):
            account.send(event)
    assert account.items() == before
    assert account.plane.calls["CreateTrainingJob"] == 0
