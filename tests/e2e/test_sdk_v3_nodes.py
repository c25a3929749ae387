"""`ModelTrainer.train()` of the SageMaker SDK v3 with the tag `slotq:gpus`: its own driver scripts,
which name /opt/ml, on a node of the emulator.

Run by `make test-sagemaker3`, in an environment of its own: both majors are one distribution.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

pytest.importorskip("sagemaker.train", reason="the sagemaker3 extra is not installed")

from sagemaker.core.shapes import OutputDataConfig, Tag
from sagemaker.core.training.configs import Compute, InputData, SourceCode
from sagemaker.core.utils.exceptions import FailedStatusError
from sagemaker.train import ModelTrainer

from slotq import QueueClient, QueueTrainingJobSession
from slotq.demo.environment import with_variables
from slotq.demo.world import settings
from tests import emulators
from tests.e2e.test_sdk_v3 import no_telemetry, submitted
from tests.functional.local.account import Account
from tests.functional.local.test_nodes import image

__all__ = ["no_telemetry"]

TRAIN = """
import json, os, sys
from pathlib import Path

model = Path({model})
data = Path(os.environ["SM_CHANNEL_DATA"], "numbers.txt").read_text()
found = {{
    "arguments": sys.argv[1:],
    "data": data,
    "gpus": os.environ["CUDA_VISIBLE_DEVICES"],
    "steps": json.loads(os.environ["SM_HPS"])["steps"],
}}
(model / "found.json").write_text(json.dumps(found))
print("it has GPU", found["gpus"])
"""
BY_VARIABLE, LITERAL = 'os.environ["SM_MODEL_DIR"]', '"/opt/ml/model"'


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    folder = tmp_path_factory.mktemp("nodes")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)  # Jobs' users run the Python below.
    pool = ("--pool", "one=1@ml.p5.48xlarge;nodes=keep:600")
    options = (*pool, "--python", image(folder / "python"), "--tick", "5")
    with emulators.held(folder / "state", *options) as account:
        variables = settings(account.endpoint, folder / "state")
        with with_variables(variables, instead_of=("AWS_", "SLOTQ_")):
            yield account


Train = Callable[..., ModelTrainer]


@pytest.fixture
def train(aws: Account, tmp_path: Path) -> Train:
    session = QueueTrainingJobSession(boto3.Session())
    (tmp_path / "data").mkdir()
    (tmp_path / "data/numbers.txt").write_text("1 2 3")

    def train(name: str, model: str, **tags: str) -> ModelTrainer:
        (tmp_path / "source").mkdir()
        (tmp_path / "source/train.py").write_text(TRAIN.format(model=model))
        tags = {"slotq:gpus": "1", **tags}
        trainer = ModelTrainer(
            training_image="123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1",
            sagemaker_session=session,
            base_job_name=name,
            role="arn:aws:iam::123456789012:role/slotq-local",
            compute=Compute(instance_type="ml.p5.48xlarge", instance_count=1),
            source_code=SourceCode(source_dir=str(tmp_path / "source"), entry_script="train.py"),
            hyperparameters={"steps": 3},
            output_data_config=OutputDataConfig(s3_output_path=f"s3://{aws.bucket}/models"),
            input_data_config=[InputData(channel_name="data", data_source=str(tmp_path / "data"))],
            tags=[Tag(key=key, value=value) for key, value in tags.items()],
        )
        trainer.train()
        return trainer

    return train


def found(aws: Account, trainer: ModelTrainer) -> Any:
    """What the script has left as its model."""
    job: Any = trainer._latest_training_job
    assert job.training_job_status == "Completed"
    key = job.model_artifacts.s3_model_artifacts.removeprefix(f"s3://{aws.bucket}/")
    return json.loads(aws.unpacked(key)["found.json"])


def test_the_drivers_of_the_sdk_run_on_a_node(aws: Account, train: Train) -> None:
    trainer = train("by-variable", BY_VARIABLE)
    assert found(aws, trainer) == {
        "arguments": ["--steps", "3"],
        "data": "1 2 3",
        "gpus": "0",
        "steps": 3,
    }
    (attempt,) = QueueClient().jobs.view(submitted("by-variable")).attempts
    assert (attempt.node, attempt.gpu_ids) == ("node-1", [0])


def test_a_script_that_names_opt_ml_fails_with_a_sentence(train: Train) -> None:
    with pytest.raises(FailedStatusError, match="use SM_CHECKPOINT_DIR"):
        train("names-it", LITERAL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives each job a user of its own")
def test_with_literal_paths_the_same_script_completes(aws: Account, train: Train) -> None:
    trainer = train("literal", LITERAL, **{"slotq:literal-paths": "true"})
    assert found(aws, trainer)["gpus"] == "0"
