"""The files that `slotq local sam` writes, and what it refuses."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from slotq.local.keys import EmulatorKeys
from slotq.local.sam_local import NotBuilt, OutOfReach, write
from slotq.local.state import Running
from tests.unit.test_template import LOCAL

BUILT = """\
Globals:
  Function:
    Environment:
      Variables:
        SLOTQ_TABLE: queue
Resources:
  Door:
    Properties:
      Environment:
        Variables:
          SLOTQ_SERVES: door
"""


@pytest.fixture
def running() -> Iterator[Running]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        keys = EmulatorKeys(access_key="AKIA", secret_key="secret", token="token")
        yield Running(run="r", pid=1, url=url, region="us-east-1", pools="main=2", keys=keys)


@pytest.fixture
def build(tmp_path: Path) -> Path:
    (tmp_path / "template.yaml").write_text(BUILT)
    return tmp_path


def test_each_function_gets_the_local_variables_and_the_file_gives_their_values(running, build):
    written = write(running, build=build, host="127.0.0.1")
    template = yaml.safe_load(written.template.read_text())
    everywhere = template["Globals"]["Function"]["Environment"]["Variables"]
    values = json.loads(written.values.read_text())["Parameters"]
    assert set(everywhere) == {*LOCAL, "AWS_ENDPOINT_URL", "SLOTQ_TABLE"}
    assert {name: values[name] for name in everywhere} == {
        "AWS_ENDPOINT_URL": running.url,
        "SLOTQ_INLINE_PASS": "1",
        "SLOTQ_LOCAL_CALLER": "arn:aws:iam::123456789012:user/testing",
        "SLOTQ_TABLE": "sagemaker-queue",
    }
    assert "secret" not in written.values.read_text()


def test_what_is_not_built_is_refused(running, tmp_path: Path):
    with pytest.raises(NotBuilt, match="run `sam build` first"):
        write(running, build=tmp_path, host="127.0.0.1")


def test_an_emulator_that_containers_cannot_reach_is_refused(running, build):
    with pytest.raises(OutOfReach, match=r"local start --host 0\.0\.0\.0"):
        write(running, build=build, host="127.9.9.9")
