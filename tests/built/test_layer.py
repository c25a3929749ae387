"""The core layer as `sam build` makes it, for both processors."""

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MACHINES = {"x86_64": 62, "arm64": 183}  # e_machine of the ELF header: EM_X86_64, EM_AARCH64

pytestmark = pytest.mark.built


def layer(architecture: str) -> Path:
    return ROOT / ".aws-sam" / architecture / "CoreLayer" / "python"


def machine(shared_object: Path) -> int:
    with shared_object.open("rb") as file:
        header = file.read(20)
    assert header[:4] == b"\x7fELF", f"{shared_object} is no shared object of Linux"
    return int(struct.unpack("<H", header[18:20])[0])


@pytest.mark.parametrize("architecture", sorted(MACHINES))
def test_every_shared_object_is_for_the_architecture(architecture):
    found = sorted(layer(architecture).rglob("*.so*"))
    assert any("pydantic_core" in path.name for path in found)
    assert {path.name: machine(path) for path in found} == {
        path.name: MACHINES[architecture] for path in found
    }


def test_the_handler_imports_from_the_layer_alone():
    """As in Lambda: the layer and the function's code, and nothing of this machine's packages."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import app, pydantic, aws_xray_sdk, boto3, slotq_core.api\n"
        "import json; print(json.dumps([m.__file__ for m in "
        "(app, pydantic, aws_xray_sdk, boto3, slotq_core)]))"
    )
    built = ROOT / ".aws-sam" / "x86_64"
    paths = [str(built / "QueueManager"), str(built / "CoreLayer" / "python")]
    environment = {
        "PATH": os.environ["PATH"],
        "LAMBDA_TASK_ROOT": paths[0],
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    out = subprocess.run(
        [os.environ["SLOTQ_LAMBDA_PYTHON"], "-S", "-E", "-s", "-c", code, *paths],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
    )
    files = json.loads(out.stdout.splitlines()[-1])
    assert all(file.startswith(str(built)) for file in files)


def test_the_layer_fits():
    """Lambda allows 250 MB for function and layers, unpacked."""
    size = sum(path.stat().st_size for path in layer("x86_64").rglob("*") if path.is_file())
    assert size < 100_000_000
