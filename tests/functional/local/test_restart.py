"""An emulator continues where it was after a restart."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from slotq.local.state import GOES_ON
from tests.functional.local.account import Account, gone
from tests.functional.local.conftest import slotq, start
from tests.functional.local.test_queue import call, state, wait_for

EARLIER = Path(__file__).parents[2] / "upgrade/emulators/2026-11-27-8e31d68.json"
COUNTS = """
import pathlib, time
file = pathlib.Path("/opt/ml/checkpoints/step")
step = int(file.read_text()) if file.exists() else 0
print("from", step, flush=True)
file.write_text(str(step + 1))
time.sleep(0 if step else 100)
"""


def submit(account: Account, name: str, source: str, **more: object) -> None:
    status, said = call(account, "POST", "/add-job", account.request(name, source, **more))
    assert status == 202, said


def test_a_restarted_emulator_continues_where_it_was(tmp_path: Path) -> None:
    before = start(tmp_path, "--pool", "main=1", "--no-isolation", "--tick", "1")
    source = COUNTS.replace("/opt/ml", "{root}").replace(
        '"{root}/checkpoints/step"', 'os.environ["SM_MODEL_DIR"] + "/../checkpoints/step"'
    )
    config = {"S3Uri": f"s3://{before.bucket}/ckpt"}
    submit(before, "done", "print('said')")
    wait_for(before, done="completed")
    submit(before, "runs", f"import os\n{source}", CheckpointConfig=config)
    submit(before, "waits", "print('at last')")
    before.wait_for_line("runs", "from 0")
    before.s3.put_object(
        Bucket=before.bucket, Key="a/../b \u2603", Body=b"\0\1", Metadata={"m": "1"}
    )
    before.s3.create_bucket(Bucket="mine")
    said = slotq("local", "stop", folder=tmp_path).stdout
    assert GOES_ON in said

    after = start(tmp_path, "--pool", "main=1", "--no-isolation", "--tick", "1")
    try:
        assert after.running.keys == before.running.keys
        assert state(after, "done") == "completed"
        assert after.said("done") == ["said"]
        assert "done/output/model.tar.gz" in str(after.describe("done")["ModelArtifacts"])
        assert after.keys("out/done/output")
        found = after.s3.get_object(Bucket=after.bucket, Key="a/../b \u2603")
        assert (found["Body"].read(), found["Metadata"]) == (b"\0\1", {"m": "1"})
        assert {"mine"} <= {one["Name"] for one in after.s3.list_buckets()["Buckets"]}
        assert "The emulator ended" in str(call(after, "GET", "/jobs/runs")[1]["attempts"])
        after.until(lambda: state(after, "runs") != "backoff", "its next attempt")
        wait_for(after, runs="completed", waits="completed")
        job = call(after, "GET", "/jobs/runs")[1]
        assert after.said(job["attempts"][-1]["training_job"]) == ["from 1"]
    finally:
        slotq("local", "stop", folder=tmp_path)


def test_the_folder_of_an_earlier_emulator_continues(tmp_path: Path) -> None:
    """Of one that kept its table in moto: one job has ended; of an array one runs, one waits."""
    (tmp_path / "kept").mkdir()
    shutil.copy(EARLIER, tmp_path / "kept/state.json")
    later = start(tmp_path, "--pool", "main=1", "--no-isolation", "--tick", "1")
    try:
        assert state(later, "done") == "completed"
        assert {state(later, "old-1"), state(later, "old-2")} <= {"backoff", "pending", "running"}
        wait_for(later, **{"old-2": "running"})
        assert state(later, "old-1") in {"backoff", "pending"}
    finally:
        slotq("local", "stop", folder=tmp_path)


def test_fresh_starts_from_nothing_and_another_region_is_refused(tmp_path: Path) -> None:
    first = start(tmp_path)
    first.s3.put_object(Bucket=first.bucket, Key="k", Body=b"x")
    slotq("local", "stop", folder=tmp_path)
    other = ("local", "start", "--detach", "--port", "0", "--region", "eu-west-1")
    refused = slotq(*other, folder=tmp_path, check=False)
    assert refused.returncode == 1
    assert "--region us-east-1" in refused.stderr
    assert "--fresh" in refused.stderr
    slotq(*other, "--fresh", folder=tmp_path)
    fresh = Account(tmp_path)
    try:
        assert fresh.keys("") == []
        assert fresh.bucket.startswith("sagemaker-eu-west-1")
    finally:
        slotq("local", "stop", folder=tmp_path)


def test_a_crash_leaves_the_last_complete_save(tmp_path: Path) -> None:
    """An incomplete save does not count; the one before does."""
    first = start(tmp_path)
    first.s3.put_object(Bucket=first.bucket, Key="k", Body=b"x")
    slotq("local", "stop", folder=tmp_path)
    second = start(tmp_path)
    second.s3.put_object(Bucket=second.bucket, Key="later", Body=b"y")
    os.kill(second.running.pid, signal.SIGKILL)
    second.until(lambda: gone(second.running.pid), "the end of the emulator")
    (tmp_path / "kept/state.json.new").write_text("half")
    third = start(tmp_path)
    try:
        assert third.keys("") == ["k"]
    finally:
        slotq("local", "stop", folder=tmp_path)


def test_an_output_of_many_long_lines_survives_whole(tmp_path: Path) -> None:
    first = start(tmp_path, "--no-isolation")
    first.create("long", "for _ in range(600): print('\u2603' * 9_000)")
    first.ended("long")
    assert len(first.said("long")) == 600
    slotq("local", "stop", folder=tmp_path)
    second = start(tmp_path)
    try:
        assert second.said("long") == ["\u2603" * 9_000] * 600
    finally:
        slotq("local", "stop", folder=tmp_path)


def test_an_unreadable_save_is_reported(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/state.json").write_text("half")
    refused = slotq("local", "start", "--port", "0", folder=tmp_path, check=False)
    assert refused.returncode == 1
    assert "start afresh with --fresh" in refused.stderr
    assert (tmp_path / "kept/state.json").read_text() == "half"
