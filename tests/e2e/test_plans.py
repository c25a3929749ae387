"""A job that names a training plan, then a pool on demand, then spot, on the emulator: it moves on
at the plan's end, resumes each time, and is paid for by kind."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from slotq import QueueClient
from slotq.cli.main import cli
from slotq.demo.play import quiet
from slotq.local.keys import TOKEN_HEADER
from slotq_core.timestamps import from_iso
from slotq_core.wire.views.jobs import JobView
from tests.e2e.test_commands import request
from tests.e2e.waiting import until
from tests.emulators import emulator

TYPE = "ml.p5.48xlarge"
PRICE, PLAN_PRICE = 36.0, 20.0
PRICES = f"""
[usd_per_hour]
"{TYPE}" = {PRICE}
[plan_usd_per_hour]
"{TYPE}" = {PLAN_PRICE}
"""
PLANS = f"""
plans:
  - name: june
    instance_type: {TYPE}
    windows: [{{from: 2026-01-01T00:00:00Z, to: 2100-01-01T00:00:00Z, instances: 1}}]
"""
SOON = 1805
"""Seconds until the plan ends, once the job runs: SageMaker takes its instances 1,800 seconds
earlier, and the job is asked to suspend two seconds before that."""
QUEUE = f"""
pools:
  - name: june
    capacity: 1
    instance_type: {TYPE}
    capacity_kind: plan
    plan_arn: arn:aws:sagemaker:us-east-1:123456789012:training-plan/june
    suspend_grace: 2
  - {{name: main, capacity: 1, instance_type: {TYPE}}}
  - {{name: cheap, capacity: 1, instance_type: {TYPE}, capacity_kind: spot, checkpoints: provide}}
"""
ENDS = "4102444800000"
"""The end of the plan's window, as the job's container knows it."""
SCRIPT = """
import os, pathlib, time

saved = pathlib.Path("/opt/ml/checkpoints/step")
step = int(saved.read_text()) if saved.exists() else 0
ends = os.environ.get("SAGEMAKER_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP", "never")
print("from", step, "until", ends, flush=True)
saved.write_text(str(step + 5))
if step < 10:
    time.sleep(3600)
"""
"""Saves five steps at each start, and ends at the third."""
RUN = "import os; exec(os.environ['SCRIPT'])"


@pytest.fixture
def endpoint(tmp_path):
    plans = tmp_path / "plans.yaml"
    plans.write_text(PLANS)
    with quiet(), emulator(f"main=1@{TYPE}", "--plans", str(plans), "--tick", "1") as found:
        yield found


def end_the_plan_soon(endpoint):
    windows = [{"from": -3600, "to": SOON, "instances": 1}]
    plan = {"name": "june", "instance_type": TYPE, "windows": windows}
    headers = {TOKEN_HEADER: endpoint.keys.token}
    body = json.dumps({"plans": [plan]}).encode()
    with urlopen(Request(f"{endpoint.url}/_slotq/plans", body, headers)) as answer:
        assert answer.status == 200


def slotq(*words):
    found = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_a_job_goes_from_its_plan_to_on_demand_to_spot(endpoint, tmp_path):
    document = tmp_path / "queue.yaml"
    document.write_text(QUEUE)
    slotq("config", "apply", str(document))
    queue = QueueClient()
    until(lambda: _size("june") == 1, "its plan is not read")
    job = _wanted("job", "june,main,cheap", "python3", "-c", RUN)
    queue.submit({**job, "Environment": {"SCRIPT": SCRIPT}})
    until(lambda: _began() == ["0"], "it does not start")
    assert _job().pool == "june"
    end_the_plan_soon(endpoint)
    until(lambda: _began() == ["0", "5"], "it does not go on after the plan")
    urgent = _wanted("urgent", "main", "sleep", "600")
    urgent["Tags"].append({"Key": "priority", "Value": "9"})
    queue.submit(urgent)
    until(lambda: _job().state == "completed", "it does not complete")

    attempts = _attempts()
    assert [(attempt.pool, attempt.capacity_kind) for attempt in attempts] == [
        ("june", "plan"),
        ("main", "on_demand"),
        ("cheap", "spot"),
    ]
    assert [attempt.outcome for attempt in attempts] == ["evicted", "evicted", "completed"]
    assert _began() == ["0", "5", "10"]
    assert [line.split()[-1] for line in _begins()] == [ENDS, "never", "never"]
    history = slotq("history", "job")
    assert "evicted, as june closed" in history
    assert "evicted for urgent" in history

    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    slotq("cancel", "urgent")
    until(lambda: _job("urgent").state == "cancelled", "it is not cancelled")
    used = json.loads(slotq("usage", "--by", "kind", "--prices", str(prices), "--json"))
    kinds = {line["group"]["kind"]: line for line in used["lines"]}
    assert {*kinds} == {"plan", "on_demand", "spot"}
    for kind, line in kinds.items():
        ran = [it for it in (*attempts, *_attempts("urgent")) if it.capacity_kind == kind]
        assert line["instance_hours"] * 3600 == pytest.approx(sum(map(_seconds, ran)), abs=0.01)
    for kind, price in (("plan", PLAN_PRICE), ("on_demand", PRICE)):
        assert kinds[kind]["usd"] == pytest.approx(kinds[kind]["instance_hours"] * price)
    for line in kinds.values():
        full = line["usd"] + (line["saved_usd"] or 0)
        assert full == pytest.approx(line["instance_hours"] * PRICE)
    assert used["total"]["usd"] == pytest.approx(sum(line["usd"] for line in kinds.values()))


def _size(name):
    (pool,) = (it for it in json.loads(slotq("pools", "--json"))["pools"] if it["name"] == name)
    return pool["size"].get("slots", 0)


def _wanted(name, pools, *command):
    wanted = request(name, *command)
    wanted["CheckpointConfig"] = {"S3Uri": f"s3://sagemaker-us-east-1-123456789012/{name}"}
    wanted["Tags"] = [{"Key": "slotq:pools", "Value": pools}]
    return wanted


def _job(name="job"):
    return JobView.model_validate_json(slotq("show", name, "--json"))


def _attempts(name="job"):
    return _job(name).attempts


def _begins():
    return [line for line in slotq("logs", "job").splitlines() if "from " in line]


def _began():
    return [line.split("from ")[1].split()[0] for line in _begins()]


def _seconds(attempt):
    return (from_iso(attempt.ended_at) - from_iso(attempt.running_since)) / 1000
