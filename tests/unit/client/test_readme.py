"""The README's notebook example, run against a queue at a local address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from moto import mock_aws

from tests.unit.client.fake_aws import make_default_bucket
from tests.unit.client.fake_queue import FakeQueue, ended, served

pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")

README = Path(__file__).parents[3] / "README.md"


class QuickQueue(FakeQueue):
    """A queue whose jobs have completed at the first look."""

    def taken(self, name, priority):
        return ended(name=name, priority=priority)


@pytest.fixture
def notebook(tmp_path, monkeypatch, no_telemetry):
    """An empty folder with the training script, and AWS without a network."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('trained')\n")
    with mock_aws():
        make_default_bucket()
        yield


def test_the_notebook_example_runs(notebook, monkeypatch, capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    queue = QuickQueue()
    with served(queue) as endpoint:
        monkeypatch.setenv("SLOTQ_ENDPOINT", endpoint)
        exec(compile(example, "README.md", "exec"), {})
    (request,) = queue.requests.values()
    assert request["ResourceConfig"]["InstanceCount"] == 2
    assert {"Key": "priority", "Value": "10"} in request["Tags"]
    assert request["CheckpointConfig"]["S3Uri"] == "s3://my-bucket/my-job/checkpoints"
    assert "completed after 1 attempt" in capsys.readouterr().out
