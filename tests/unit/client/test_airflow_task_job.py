"""Which job of the queue belongs to a try of an Airflow task, and what the task returns.

The operator, the sensor and the trigger run under Airflow itself: tests/ecosystem.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slotq.airflow.provider_info import get_provider_info
from slotq.airflow.task_job import (
    TASK_TAG,
    Cancelled,
    TaskTry,
    first_try,
    job_name,
    job_of,
    newest_job,
    outcome,
    request_of,
)
from slotq.errors import NameTaken, NotCompleted
from slotq.jobs.submission import settings_tags, with_tags
from slotq_core import names
from tests.least_request import least_request
from tests.unit.client.fake_queue import FakeQueue, attempt, client_of, ended

CONFIG = least_request("fit")
TRY = TaskTry(dag_id="dag", task_id="fit", run_id="manual__2026-11-28T05:00:00+00:00")
FIRST, SECOND, THIRD = (replace(TRY, number=number) for number in (1, 2, 3))
CLEARED = replace(TRY, number=2, first=2)


@pytest.fixture
def queue():
    return FakeQueue()


@pytest.fixture
def client(http):
    return client_of(http)


def submitted(client, task, config=CONFIG):
    return job_of(client, request_of(config, task), task).name


def end(queue, name, state="completed"):
    queue.jobs[name] = ended(state, name=name)


def test_the_first_try_submits_the_request_with_the_tasks_name(client, queue):
    assert submitted(client, FIRST) == "fit"
    assert queue.requests["fit"]["Tags"] == [
        {"Key": TASK_TAG, "Value": "dag/fit/manual__2026-11-28T05:00:00+00:00"}
    ]


def test_a_retry_waits_for_the_job_that_lives(client, queue):
    for task in (FIRST, SECOND, THIRD):
        assert submitted(client, task) == "fit"
    assert list(queue.requests) == ["fit"]


def test_a_retry_returns_a_job_that_completed_while_no_worker_watched(client, queue):
    submitted(client, FIRST)
    end(queue, "fit")
    assert submitted(client, SECOND) == "fit"
    assert job_of(client, request_of(CONFIG, SECOND), SECOND).state == "completed"


@pytest.mark.parametrize("state", ["failed", "cancelled", "stopped"])
def test_a_retry_after_a_job_that_did_not_complete_submits_another(client, queue, state):
    submitted(client, FIRST)
    end(queue, "fit", state)
    assert submitted(client, SECOND) == "fit-t2"
    assert submitted(client, THIRD) == "fit-t2", "which lives"
    end(queue, "fit-t2", state)
    assert submitted(client, THIRD) == "fit-t3"
    bodies = [{**body, "TrainingJobName": ""} for body in queue.requests.values()]
    assert bodies[0] == bodies[1] == bodies[2]


def test_a_task_that_was_cleared_after_the_end_trains_anew(client, queue):
    submitted(client, FIRST)
    end(queue, "fit")
    assert submitted(client, CLEARED) == "fit-t2"
    end(queue, "fit-t2")
    again = replace(CLEARED, number=3)
    assert submitted(client, again) == "fit-t2", "a retry of the cleared task"


def test_a_task_that_was_cleared_while_its_job_lives_waits_for_it(client, queue):
    submitted(client, FIRST)
    assert submitted(client, CLEARED) == "fit"


def test_a_job_of_another_run_is_never_taken_for_ones_own(client, queue):
    submitted(client, replace(TRY, run_id="yesterday"))
    end(queue, "fit")
    for task in (FIRST, SECOND):
        with pytest.raises(NameTaken, match=r"leave TrainingJobName out, or .*\{\{ ts_nodash \}\}"):
            submitted(client, task)
    assert list(queue.requests) == ["fit"]


def test_another_request_is_not_attached_to_a_job_that_lives(client):
    submitted(client, FIRST)
    with pytest.raises(NameTaken):
        submitted(client, SECOND, {**CONFIG, "RoleArn": f"{CONFIG['RoleArn']}-2"})


def test_the_newest_job_is_the_one_to_cancel(client, queue):
    assert newest_job(client, "fit", FIRST) is None
    submitted(client, FIRST)
    end(queue, "fit", "failed")
    submitted(client, SECOND)
    found = newest_job(client, "fit", THIRD)
    assert found is not None
    assert (found[0], found[1].name) == (2, "fit-t2")


@pytest.mark.parametrize(
    ("max_tries", "retries", "first"),
    [(0, 0, 1), (2, 2, 1), (1, 0, 2), (5, 2, 4), (0, 2, 1), (0, None, 1)],
)
def test_the_first_try_since_a_task_was_cleared(max_tries, retries, first):
    """Airflow sets `max_tries` to the tries so far and the task's retries when it clears one."""
    assert first_try(max_tries, retries) == first


def test_a_name_of_its_own_differs_from_run_to_run_and_not_from_try_to_try():
    nameless = {key: value for key, value in CONFIG.items() if key != "TrainingJobName"}
    runs = [replace(TRY, run_id=run, map_index=index) for run in "ab" for index in (-1, 0, 1)]
    found = [request_of(nameless, task)["TrainingJobName"] for task in runs]
    assert len(set(found)) == 6
    assert all(name.startswith("dag-fit-") and names.is_legal(name) for name in found)
    assert request_of(nameless, SECOND) == request_of(nameless, FIRST)
    odd = TaskTry(dag_id="ä" * 99, task_id=".", run_id="x")
    assert names.is_legal(odd.name)


@pytest.mark.parametrize("base", ["a" * 63, "a" * 59 + "-bcd", "b"])
def test_a_later_name_is_legal(base):
    assert names.is_legal(job_name(base, 12))
    assert job_name(base, 12).endswith("-t12")


def test_long_ids_keep_the_run_in_the_tag():
    long = replace(TRY, dag_id="d" * 250, map_index=7)
    assert long.key.endswith("/fit/manual__2026-11-28T05:00:00+00:00/7")
    assert len(long.key) == 256


def test_a_completed_job_returns_its_model_and_its_description():
    job = ended(name="fit", attempts=[attempt(1), attempt(2, artifact="s3://b/m.tar.gz")])
    found = outcome(job)
    assert (found["job"], found["model"]) == ("fit", "s3://b/m.tar.gz")
    assert found["training_job"] == "job1-qstamp-2-abcdef"
    assert json.loads(json.dumps(found))["description"]["state"] == "completed"


def test_a_failed_job_raises_its_reason():
    with pytest.raises(NotCompleted, match="job fit is failed: AlgorithmError: exit code 1") as up:
        outcome(ended("failed", name="fit", message="AlgorithmError: exit code 1"))
    assert not isinstance(up.value, Cancelled)


def test_a_time_box_says_where_its_model_is():
    job = ended(
        "failed",
        name="fit",
        cause="max_runtime",
        message="MaxRuntimeExceeded",
        attempts=[attempt(artifact="s3://b/m.tar.gz")],
    )
    with pytest.raises(NotCompleted, match=r"MaxRuntimeExceeded; its model so far: s3://b/m"):
        outcome(job)


@pytest.mark.parametrize("state", ["cancelled", "stopped"])
def test_a_job_that_someone_ended_is_not_brought_back(state):
    with pytest.raises(Cancelled, match=f"job fit is {state}: by grace"):
        outcome(ended(state, name="fit", message="by grace"))


def test_the_request_and_the_settings_of_the_page_are_right(client, queue):
    page = (Path(__file__).parents[3] / "docs" / "airflow.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (dag,) = (block for block in blocks if "SlotqTrainingOperator" in block)
    tree = ast.parse(dag)
    constants = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
    }
    (settings,) = (
        ast.literal_eval(keyword.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "settings"
    )
    request = request_of(with_tags(constants["REQUEST"], settings_tags(**settings)), TRY)
    assert job_of(client, request, TRY).name == TRY.name
    tags = {tag["Key"]: tag["Value"] for tag in queue.requests[TRY.name]["Tags"]}
    assert tags == {"priority": "10", "slotq:project": "vision", TASK_TAG: TRY.key}


def test_what_airflow_reads_names_modules_that_exist_and_needs_no_airflow():
    code = (
        "import sys, slotq.airflow.provider_info, slotq.airflow.task_job;"
        "sys.exit(any(name.split('.')[0] == 'airflow' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    info = get_provider_info()
    assert info["package-name"] == "slotq"
    modules = [
        module
        for kind in ("operators", "sensors", "triggers", "hooks")
        for entry in info[kind]
        for module in entry["python-modules"]
    ]
    import slotq.airflow

    for module in modules:
        assert f"    {module.removeprefix('slotq.airflow.')} " in slotq.airflow.__doc__
