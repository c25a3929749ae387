"""A job that names a spot pool, then one on demand, on the emulator: interrupted, resumed, sent on,
and paid for by kind."""

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
PRICE = 36.0
LONGEST = 40
"""The MaxRuntimeInSeconds of the job. It waits no longer for spot."""
SCRIPT = """
import pathlib, time

saved = pathlib.Path("/opt/ml/checkpoints/step")
step = int(saved.read_text()) if saved.exists() else 0
print("from", step, flush=True)
saved.write_text(str(step + 5))
if step < 10:
    time.sleep(3600)
"""
"""Saves five steps at each start, and ends at the third."""


@pytest.fixture
def endpoint():
    with quiet(), emulator(f"dear=1@{TYPE}") as found:
        yield found


def knobs(endpoint, **values):
    headers = {TOKEN_HEADER: endpoint.keys.token}
    body = json.dumps(values).encode()
    with urlopen(Request(f"{endpoint.url}/_slotq/knobs", body, headers)) as answer:
        assert answer.status == 200


def slotq(*words):
    found = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_a_job_goes_from_spot_to_on_demand(endpoint, tmp_path):
    queue = QueueClient()
    spot = {"slots": 1, "instance_type": TYPE, "capacity_kind": "spot", "spot_wait": 0}
    queue.pools.set("cheap", spot)
    knobs(endpoint, grace_seconds=1, interrupt_spot=2, interrupt_after=8, spot_price=0.25)
    wanted = request("job", "python3", "-c", SCRIPT)
    wanted["StoppingCondition"] = {"MaxRuntimeInSeconds": LONGEST}
    wanted["CheckpointConfig"] = {"S3Uri": "s3://sagemaker-us-east-1-123456789012/saved"}
    wanted["Tags"] = [{"Key": "slotq:pools", "Value": "cheap,dear"}]
    queue.submit(wanted)
    until(lambda: _attempts()[0].interruptions == 1, "it is not interrupted")
    until(lambda: "from 5" in slotq("logs", "job"), "it does not resume")
    knobs(endpoint, stick_spot=1)
    until(lambda: _job().state == "completed", "it does not complete")
    first, second = _attempts()
    assert (first.pool, first.capacity_kind, first.outcome) == ("cheap", "spot", "no_capacity")
    assert first.interruptions == 2
    assert (second.pool, second.capacity_kind, second.outcome) == ("dear", "on_demand", "completed")
    begins = [line for line in slotq("logs", "job").splitlines() if "from " in line]
    assert [line.rsplit(None, 1)[-1] for line in begins] == ["0", "5", "10"]
    history = slotq("history", "job")
    assert "% saved" in history and "SageMaker interrupted it 2 times" in history

    prices = tmp_path / "prices.toml"
    prices.write_text(f'[usd_per_hour]\n"{TYPE}" = {PRICE}\n')
    used = json.loads(slotq("usage", "--by", "kind", "--prices", str(prices), "--json"))
    kinds = {line["group"]["kind"]: line for line in used["lines"]}
    assert {*kinds} == {"spot", "on_demand"}
    of_spot, dear = kinds["spot"], kinds["on_demand"]
    full = of_spot["instance_hours"] * PRICE
    assert of_spot["usd"] + of_spot["saved_usd"] == pytest.approx(full)
    assert of_spot["usd"] == pytest.approx(first.billed / 3600 * PRICE)
    assert dear["usd"] == pytest.approx(dear["instance_hours"] * PRICE)
    assert used["total"]["usd"] == pytest.approx(of_spot["usd"] + dear["usd"])
    ran = sum(_seconds(attempt) for attempt in (first, second))
    assert used["total"]["instance_hours"] * 3600 == pytest.approx(ran, abs=0.01)


def _job():
    return JobView.model_validate_json(slotq("show", "job", "--json"))


def _attempts():
    return _job().attempts


def _seconds(attempt):
    return (from_iso(attempt.ended_at) - from_iso(attempt.running_since)) / 1000
