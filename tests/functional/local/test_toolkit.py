"""Script mode by SageMaker's own training toolkit, and the emulator's beside it.

The toolkit has an environment of its own (`make test-toolkit`); without it, the emulator's script
mode alone is tested.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotq.packaging.training_file import beside
from tests.functional.local.account import Account
from tests.functional.local.conftest import slotq, start
from tests.functional.local.wheels import wheel

ROOT = Path(__file__).parents[3]
PYTHON = Path(os.environ.get("SLOTQ_TOOLKIT_PYTHON", ROOT / ".venv" / "toolkit" / "bin" / "python"))
TOOLKIT = pytest.mark.skipif(not PYTHON.exists(), reason="no toolkit: make test-toolkit")


@pytest.fixture(scope="module", params=["own", pytest.param("toolkit", marks=TOOLKIT)])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def runs(mode: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An emulator with that script mode."""
    folder = tmp_path_factory.mktemp(mode)
    python = ["--python", str(PYTHON)] if mode == "toolkit" else []
    account = start(folder, "--pool", "main=2", "--grace", "1.5", *python)
    assert account.control("health")["toolkit"] == (mode == "toolkit")
    yield account
    log = (folder / "emulator.log").read_text()
    slotq("local", "stop", folder=folder)
    assert "Traceback" not in log, log


TELLS = """
import json, os, sys
print("tells", json.dumps({"arguments": sys.argv[1:], "variables": {
    name: value for name, value in os.environ.items() if name.startswith("SM_")
}}), flush=True)
"""
PARAMETERS = {
    "batch-size": 32,
    "epochs": 3,
    "flag": True,
    "layers": [1, 2],
    "lr": 0.1,
    "map": {"b": 1, "a": "x y"},
    "name": 'it\'s a "name"',
    "none": None,
    "n": 1,
    "sagemaker_job_name": "job",
    "sagemaker_mpi_enabled": False,
}
VARIES = {"SM_TRAINING_ENV", "SM_MODULE_DIR", "SM_DISTRIBUTION_INSTANCE_GROUPS"}
"""Variables that only the toolkit has, or that name the job."""


def channel(account: Account, name: str) -> dict[str, Any]:
    account.s3.put_object(Bucket=account.bucket, Key=f"data/{name}/a.txt", Body=b"A")
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{account.bucket}/data/{name}/"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def told(account: Account, name: str, host: str = "algo-1") -> Any:
    line = next(line for line in account.said(name, host) if line.startswith("tells "))
    return json.loads(line.removeprefix("tells "))


_TOLD: dict[str, Any] = {}


def test_arguments_and_variables(runs: Account, mode: str) -> None:
    """As the toolkit makes them. Compared with what the toolkit made, where it has run."""
    channels = [channel(runs, name) for name in ("train-set", "more")]
    runs.create("tells", TELLS, parameters=PARAMETERS, instances=2, InputDataConfig=channels)
    shown = runs.ended("tells")
    assert shown["TrainingJobStatus"] == "Completed", (shown, runs.said("tells"))
    found = told(runs, "tells", "algo-2")
    assert found["arguments"] == [
        *("--batch-size", "32", "--epochs", "3", "--flag", "True", "--layers", "[1, 2]"),
        *("--lr", "0.1", "--map", "a=x y,b=1", "-n", "1"),
        *("--name", 'it\'s a "name"', "--none", ""),
    ]
    variables = found["variables"]
    assert variables["SM_HP_BATCH-SIZE"] == "32"
    assert variables["SM_HP_FLAG"] == "true"
    assert variables["SM_CHANNEL_TRAIN-SET"].endswith("/input/data/train-set")
    assert json.loads(variables["SM_HOSTS"]) == ["algo-1", "algo-2"]
    assert variables["SM_CURRENT_HOST"] == "algo-2"
    _TOLD[mode] = {name: value for name, value in variables.items() if name not in VARIES}
    isolated = runs.control("health")["isolated"]  # Else the paths are the emulators' own.
    if isolated and {"own", "toolkit"} <= set(_TOLD):
        assert _TOLD["own"] == _TOLD["toolkit"]


NODES = """
import os, sys
print("node", *(os.environ.get(name) for name in ("MASTER_IP", "WORLD_SIZE", "RANK")))
import hfai
print("hfai", hfai.distributed.get_rank(), "torch" in sys.modules, flush=True)
"""


def test_a_script_with_the_shipped_files_knows_its_node(runs: Account, mode: str) -> None:
    """The code's folder is on PYTHONPATH, so `sitecustomize.py` runs before the script."""
    shipped = {name: text.decode() for name, text in beside([], script_mode=True).items()}
    parameters = {
        "sagemaker_program": "train.py",
        "sagemaker_submit_directory": runs.upload_source(
            "nodes-files", {"train.py": NODES, **shipped}
        ),
    }
    runs.create("nodes", parameters=parameters, instances=2)
    shown = runs.ended("nodes")
    assert shown["TrainingJobStatus"] == "Completed", (shown, runs.said("nodes"))
    for rank in (0, 1):
        lines = runs.said("nodes", f"algo-{rank + 1}")
        assert f"node 127.0.0.1 2 {rank}" in lines
        assert f"hfai {rank} False" in lines


COMMANDS = {
    "run.sh": ({"run.sh": '#!/bin/sh\necho "ran $1 $2"\n'}, "ran --name x y"),
    "train.py": ({"train.py": 'import sys; print("ran", *sys.argv[1:])'}, "ran --name x y"),
}


@pytest.mark.parametrize("program", COMMANDS)
def test_programs(runs: Account, program: str) -> None:
    files, line = COMMANDS[program]
    name = program.replace(".", "-")
    parameters = {
        "name": "x y",
        "sagemaker_program": program,
        "sagemaker_submit_directory": runs.upload_source(f"{name}-files", files),
    }
    runs.create(name, parameters=parameters)
    shown = runs.ended(name)
    assert shown["TrainingJobStatus"] == "Completed", (shown, runs.said(name))
    assert line in runs.said(name)


def test_requirements_are_installed_for_this_job_alone(runs: Account) -> None:
    files: dict[str, str | bytes] = {
        "train.py": "import slotq_tiny; print(slotq_tiny.WORD)",
        "requirements.txt": "--no-index\n./slotq_tiny-1.0-py3-none-any.whl\n",
        "slotq_tiny-1.0-py3-none-any.whl": wheel("slotq_tiny", "WORD = 'tiny'"),
    }
    parameters = {
        "sagemaker_program": "train.py",
        "sagemaker_submit_directory": runs.upload_source("needs-files", files),
    }
    runs.create("needs", parameters=parameters)
    shown = runs.ended("needs")
    assert shown["TrainingJobStatus"] == "Completed", (shown, runs.said("needs"))
    assert "tiny" in runs.said("needs")
    runs.create("needs-not", "import slotq_tiny")
    assert runs.ended("needs-not")["TrainingJobStatus"] == "Failed"


def test_requirements_that_cannot_be_installed_fail_the_job(runs: Account) -> None:
    files = {"train.py": "print('ran')", "requirements.txt": "--no-index\nno-such-package\n"}
    parameters = {
        "sagemaker_program": "train.py",
        "sagemaker_submit_directory": runs.upload_source("needs-more-files", files),
    }
    runs.create("needs-more", parameters=parameters)
    assert runs.ended("needs-more")["TrainingJobStatus"] == "Failed"
    assert "ran" not in runs.said("needs-more")


FAILS = "import sys; sys.exit({code})"
WRITES = """
import os, pathlib, sys
pathlib.Path(os.environ["SM_OUTPUT_DIR"], "failure").write_text("slotq-released")
sys.exit(75)
"""


def test_a_failing_script(runs: Account) -> None:
    """The toolkit tells the script's exit code in its text, and exits with 1."""
    runs.create("fails", FAILS.format(code=42))
    shown = runs.ended("fails")
    assert shown["TrainingJobStatus"] == "Failed"
    assert shown["FailureReason"].startswith(
        "AlgorithmError: ExecuteUserScriptError:\nExitCode 42\n"
    )
    assert shown["FailureReason"].endswith(", exit code: 1")


def test_a_failure_file_of_the_scripts_own_stays(runs: Account) -> None:
    runs.create("releases", WRITES)
    assert runs.ended("releases")["FailureReason"] == "AlgorithmError: slotq-released, exit code: 1"


HEARS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("heard", flush=True), sys.exit(0)))
print("ready", flush=True)
time.sleep(100)
"""


def test_a_script_that_sigterm_ends_was_stopped(runs: Account) -> None:
    source = "import time; print('ready', flush=True); time.sleep(100)"
    runs.create("ends", source, Environment={"SLOTQ_PASSES_SIGTERM": "1"})
    runs.wait_for_line("ends", "ready")
    runs.knobs({"grace_seconds": 60})
    runs.sagemaker.stop_training_job(TrainingJobName="ends")
    assert runs.ended("ends")["TrainingJobStatus"] == "Stopped"
    runs.knobs({"grace_seconds": 1.5})


@pytest.mark.parametrize("passes", ["0", "1"])
def test_sigterm_reaches_the_script_only_where_asked(runs: Account, passes: str) -> None:
    name = f"hears-{passes}"
    runs.create(name, HEARS, Environment={"SLOTQ_PASSES_SIGTERM": passes})
    runs.wait_for_line(name, "ready")
    runs.sagemaker.stop_training_job(TrainingJobName=name)
    shown = runs.ended(name)
    assert shown["TrainingJobStatus"] == ("Completed" if passes == "1" else "Stopped")
    assert ("heard" in runs.said(name)) == (passes == "1")
