"""docs/suspendable.md: each Python block is a whole script that is suspended and resumes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.functional.training.processes import ROOT, Container
from tests.functional.training.test_torch import PYTHON

PAGE = (ROOT / "docs" / "suspendable.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def oldest() -> str | None:
    """A Python 3.8, where this machine has one."""
    found = shutil.which("python3.8")
    if found is None:
        return None
    tried = subprocess.run([found, "-c", "import ssl"], capture_output=True, check=False)
    return found if tried.returncode == 0 else None


OLDEST = oldest()


@pytest.mark.skipif(OLDEST is None, reason="no python3.8")
@pytest.mark.parametrize("block", [block for block in BLOCKS if "import torch" not in block])
def test_a_block_works_with_the_oldest_python(tmp_path, block):
    container = Container(tmp_path)
    container.environment |= {
        name: value for name, value in os.environ.items() if name.startswith("PYENV")
    }
    container.ask()
    assert OLDEST is not None
    code, _, err = container.run(block, python=OLDEST)
    assert code == 75, err


@pytest.mark.parametrize("block", BLOCKS, ids=[str(n) for n in range(len(BLOCKS))])
def test_a_block_is_suspended_and_goes_on(tmp_path, block):
    with_torch = "import torch" in block
    if with_torch and not PYTHON.exists():
        pytest.skip("no torch: make test-torch")
    python = str(PYTHON) if with_torch else sys.executable
    container = Container(tmp_path)
    container.ask()
    code, _, err = container.run(block, python=python)
    assert code == 75, err
    assert container.failure == "slotq-released"
    again = Container(tmp_path, job="job1-qstamp-2-abcdef")
    code, _, err = again.run(block, python=python)
    assert code == 0, err
    assert "resumes after step" in err or "state.json" in block


def test_the_page_names_every_word():
    import slotq_training

    for word in slotq_training.__all__:
        assert word in PAGE
