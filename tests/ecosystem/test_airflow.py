"""SlotQ's operator and sensor in Airflow itself."""

from __future__ import annotations

import json
import signal

import pytest

from slotq import QueueClient
from slotq.jobs.job_logs import LogTail
from tests.e2e.test_boto3 import ENDLESS, STOPPED_ONCE, request
from tests.e2e.waiting import until

OPERATOR = "slotq.airflow.operators.SlotqTrainingOperator"
SENSOR = "slotq.airflow.sensors.SlotqJobSensor"
QUICKLY = {"aws_conn_id": "queue", "poll_interval": 1}
FAILS_FIRST = """
cd /opt/ml/checkpoints
[ -e tried ] || { touch tried; echo "no luck" > /opt/ml/output/failure; exit 3; }
echo "step 1"; echo ok > /opt/ml/model/result
"""

pytestmark = pytest.mark.ecosystem


@pytest.fixture
def queue():
    return QueueClient()


def script(aws, name, text, **changes):
    wanted = request(aws, name, 1, **changes)
    wanted["AlgorithmSpecification"]["ContainerEntrypoint"] = ["sh", "-c", text]
    return wanted


def lines_of(aws, queue, name):
    """What the attempts of the job have logged, in CloudWatch Logs."""
    found = []
    tail = LogTail(aws.client("logs"), say=found.append, line=lambda _, line: found.append(line))
    tail.show(queue.jobs.view(name))
    return found


def running(queue, name):
    until(lambda: name in {job.name for job in queue.jobs("running")}, f"{name} does not run")


def evicted_once(aws, queue, name):
    """Let another job evict this one, and end."""
    running(queue, name)
    until(lambda: lines_of(aws, queue, name)[1:], f"{name} does nothing")
    high = f"{name}-high"
    queue.with_settings(priority=50).submit(request(aws, high, ENDLESS))
    until(lambda: queue.jobs.view(name).evictions, f"{name} was not evicted")
    running(queue, high)
    queue.jobs.cancel(high)


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_task_survives_an_eviction_and_prints_each_line_once(aws, airflow, queue, deferrable):
    name = f"low-{airflow.name}-{deferrable}".lower()
    begun = airflow.begin(
        OPERATOR,
        config=request(aws, name, STOPPED_ONCE),
        settings={"priority": 3},
        deferrable=deferrable,
        **QUICKLY,
    )
    evicted_once(aws, queue, name)
    ran = airflow.ended(begun)
    job = queue.jobs.view(name)
    assert (job.state, job.priority, job.evictions) == ("completed", 3, 1), ran.printed
    assert ran.result["model"] == job.attempts[-1].artifact
    assert (ran.result["evictions"], ran.result["description"]["state"]) == (1, "completed")
    assert ran.lines == lines_of(aws, queue, name)
    assert "evicted for" in ran.printed


def test_a_failure_has_the_jobs_reason_and_a_retry_is_another_job(aws, airflow, queue):
    name = f"fails-{airflow.name}"
    ran = airflow.test(OPERATOR, config=script(aws, name, FAILS_FIRST), retries=1, **QUICKLY)
    first, second = (queue.jobs.view(job) for job in (name, f"{name}-t2"))
    assert (first.state, second.state) == ("failed", "completed"), ran.printed
    assert f"job {name} is failed: {first.message}" in ran.printed
    assert "no luck" in first.message
    assert ran.result["job"] == f"{name}-t2"


def test_a_retry_waits_for_the_job_of_a_worker_that_died(aws, airflow, queue):
    name = f"died-{airflow.name}"
    wanted = {"config": request(aws, name, 60), **QUICKLY}
    first = airflow.begin_script("one_try.py", "try", json.dumps(wanted), "1", "1")
    running(queue, name)
    first.kill()
    first.wait()
    assert airflow.script("one_try.py", "try", json.dumps(wanted), "2", "1")["job"] == name
    assert airflow.script("one_try.py", "try", json.dumps(wanted), "2", "1")["job"] == name


def test_a_task_that_was_cleared_after_the_end_trains_anew(aws, airflow, queue):
    name = f"cleared-{airflow.name}"
    wanted = {"config": request(aws, name, 1), **QUICKLY}
    assert airflow.script("one_try.py", "try", json.dumps(wanted), "1", "1")["job"] == name
    again = airflow.script("one_try.py", "try", json.dumps(wanted), "2", "2")
    assert again["job"] == f"{name}-t2"


def test_the_trigger_waits_in_threads_and_cancels_when_its_task_is_ended(aws, airflow, queue):
    name = f"deferred-{airflow.name}"
    queue.submit(request(aws, name, ENDLESS))
    running(queue, name)
    wanted = json.dumps({"job_name": name, "cancels": True, **QUICKLY})
    waits = airflow.begin_script("one_try.py", "wait", wanted)
    airflow.script("one_try.py", "kill", wanted)
    until(lambda: queue.jobs.view(name).state == "cancelled", "it was not cancelled")
    said = airflow.returned(waits)
    assert said == {"event": {"job": name}, "in_the_loop": [False]}


def test_ending_the_task_cancels_the_job(aws, airflow, queue):
    name = f"ended-{airflow.name}"
    begun = airflow.begin(OPERATOR, config=request(aws, name, ENDLESS), **QUICKLY)
    running(queue, name)
    begun.send_signal(signal.SIGTERM)
    ran = airflow.ended(begun)
    until(lambda: queue.jobs.view(name).state == "cancelled", ran.printed)
    assert ran.result is None


@pytest.mark.parametrize("deferrable", [False, True])
def test_cancelling_the_job_fails_the_task_without_a_retry(aws, airflow, queue, deferrable):
    name = f"gone-{airflow.name}-{deferrable}".lower()
    config = request(aws, name, ENDLESS)
    begun = airflow.begin(OPERATOR, config=config, retries=3, deferrable=deferrable, **QUICKLY)
    running(queue, name)
    queue.jobs.cancel(name)
    ran = airflow.ended(begun)
    assert f"job {name} is cancelled" in ran.printed
    assert ran.result is None
    assert not [job for job in queue.jobs() if job.name.startswith(f"{name}-t")]


def test_a_refusal_fails_the_task_with_the_queues_words(aws, airflow):
    config = request(aws, "refused", 1, ResourceConfig={})
    ran = airflow.test(OPERATOR, config=config, retries=3, **QUICKLY)
    assert "ResourceConfig" in ran.printed
    assert ran.printed.count("[DAG TEST] starting task_id=fit") == 1


@pytest.mark.parametrize("deferrable", [False, True])
def test_the_sensor_waits_for_a_job_that_is_not_there_yet(aws, airflow, queue, deferrable):
    name = f"later-{airflow.name}-{deferrable}".lower()
    begun = airflow.begin(
        SENSOR, job_name=name, deferrable=deferrable, aws_conn_id="queue", poke_interval=1
    )
    until(lambda: begun.stdout.readline().count("retrieved from login"), "it does not look")
    queue.submit(request(aws, name, 2))
    ran = airflow.ended(begun)
    assert ran.result["model"].endswith(f"{name}/output/model.tar.gz"), ran.printed


def test_the_provider_is_listed(airflow):
    assert "slotq" in airflow.run("providers", "list")
