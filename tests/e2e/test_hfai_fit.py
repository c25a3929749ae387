"""A script written for HFAI under `estimator.fit()`, unchanged: `import hfai`, MASTER_IP and the
others, two nodes, evicted and resumed."""

from __future__ import annotations

import json

import boto3
import pytest

pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")

from sagemaker.estimator import Estimator

from slotq import QueueClient, QueueTrainingJobSession
from slotq.demo.play import quiet
from tests.e2e.waiting import until
from tests.emulators import emulator

BUCKET = "hfai"
NAMES = ("MASTER_IP", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
TRAIN = """
import os, time
from pathlib import Path

print("nodes", *(os.environ.get(name) for name in NAMES), flush=True)

import hfai
import hfai.client
from hfai.distributed import get_rank

SAVED = Path(os.environ["SM_OUTPUT_DIR"], "../checkpoints/latest.txt")

def main(gpu_id):
    first = SAVED.exists()
    start = int(SAVED.read_text()) if first else 0
    print("from", start, hfai.client.get_whole_life_state(), flush=True)
    for step in range(start, start + 10 if first else 100_000):
        time.sleep(0.05)
        if get_rank() == 0 and gpu_id == 0 and hfai.client.receive_suspend_command():
            SAVED.write_text(str(step + 1))
            hfai.client.set_whole_life_state(hfai.client.get_whole_life_state() + 1)
            hfai.client.go_suspend()
    print("done", flush=True)

if __name__ == "__main__":
    hfai.multiprocessing.spawn(main, args=(), nprocs=1, bind_numa=True)
""".replace("NAMES", repr(NAMES))
OTHER = "import os\nprint(*(os.environ.get(name) for name in NAMES), flush=True)".replace(
    "NAMES", repr(NAMES)
)


@pytest.fixture(scope="module", autouse=True)
def _aws():
    with quiet(), emulator("two=2@ml.p5.48xlarge"):
        boto3.Session().client("s3").create_bucket(Bucket=BUCKET)
        QueueClient().pools.set("two", {"suspend_grace": 60})
        yield


def fit(folder, name, priority, **settings):
    session = QueueTrainingJobSession(
        boto3.Session(), ship_training=True, say=lambda _: None, default_bucket=BUCKET
    )
    made = Estimator(
        sagemaker_session=session,
        image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1",
        role="arn:aws:iam::123456789012:role/trainer",
        instance_count=2,
        instance_type="ml.p5.48xlarge",
        entry_point="train.py",
        source_dir=str(folder),
        checkpoint_s3_uri=f"s3://{BUCKET}/{name}/checkpoints",
        output_path=f"s3://{BUCKET}/models",
        tags=[{"Key": "priority", "Value": str(priority)}],
        **settings,
    )
    made.fit(job_name=name, wait=False)


def lines(training_job):
    """What each node of a training job has printed, by its stream; empty: nothing yet."""
    logs = boto3.Session().client("logs")
    group = "/aws/sagemaker/TrainingJobs"
    prefix = f"{training_job}/"
    try:
        found = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=prefix)
    except logs.exceptions.ResourceNotFoundException:
        return []  # No job has written yet.
    streams = sorted(stream["logStreamName"] for stream in found["logStreams"])
    return [
        [
            event["message"]
            for event in logs.get_log_events(logGroupName=group, logStreamName=stream)["events"]
        ]
        for stream in streams
    ]


def test_a_script_for_hfai_is_evicted_and_resumes(tmp_path):
    queue = QueueClient()
    for name, script in (("low", TRAIN), ("high", OTHER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(script)
    fit(tmp_path / "low", "low", 1)

    def both_begin():
        said = lines("low") if queue.jobs.view("low").state == "running" else []
        return len(said) == 2 and all(any("from 0 0" in line for line in node) for node in said)

    until(both_begin, "low has not begun on two nodes")
    fit(tmp_path / "high", "high", 5)
    until(lambda: queue.jobs.view("high").state == "completed", "high has not completed")
    until(lambda: queue.jobs.view("low").state == "completed", "low has not completed")

    attempts = queue.jobs.view("low").attempts
    assert [attempt.outcome for attempt in attempts] == ["evicted", "completed"]
    for attempt in attempts:
        nodes = [
            next(line.split()[1:] for line in node if line.startswith("nodes"))
            for node in lines(attempt.training_job)
        ]
        assert [node[0] for node in nodes] == ["127.0.0.1"] * 2
        assert len({node[2] for node in nodes}) == 1, "one port for both"
        assert [(node[3], node[4]) for node in nodes] == [("2", "0"), ("2", "1")]
    resumed, *_ = lines(attempts[1].training_job)
    (begun,) = (line.split() for line in resumed if line.startswith("from"))
    assert int(begun[1]) > 0
    assert begun[2] == "1", "the whole life's state comes with it"


def test_an_hfai_of_the_users_own_is_not_shadowed(tmp_path):
    (tmp_path / "hfai").mkdir()
    (tmp_path / "hfai/__init__.py").write_text("mine = True\n")
    (tmp_path / "train.py").write_text("import hfai\nprint(hfai.mine, flush=True)\n")
    queue = QueueClient()
    fit(tmp_path, "own", 1)
    until(lambda: queue.jobs.view("own").state == "completed", "it has not completed")
    assert all("True" in node for node in lines("own"))
    assert json.dumps(queue.jobs.request("own"))  # The request names the archive that was shipped.
