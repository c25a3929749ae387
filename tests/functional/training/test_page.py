"""docs/suspendable.md: each Python block is a whole script that is suspended and resumes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.functional.training.processes import ROOT, Container
from tests.functional.training.test_libraries import there
from tests.functional.training.test_torch import PYTHON

PAGE = (ROOT / "docs" / "suspendable.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"^import (torch|lightning|transformers)$", re.MULTILINE)


def oldest() -> str | None:
    """A Python 3.8, where this machine has one; pyenv gives it only to who asks for it."""
    found = shutil.which("python3.8")
    if found is None:
        return None
    ask = [found, "-c", "import ssl, sys; print(sys.executable)"]
    tried = subprocess.run(
        ask, env={**os.environ, "PYENV_VERSION": "3.8"}, capture_output=True, text=True, check=False
    )
    return tried.stdout.strip() if tried.returncode == 0 else None


OLDEST = oldest()


@pytest.mark.skipif(OLDEST is None, reason="no python3.8")
@pytest.mark.parametrize("block", [block for block in BLOCKS if not NEEDS.search(block)])
def test_a_block_works_with_the_oldest_python(tmp_path, block):
    container = Container(tmp_path)
    container.ask()
    assert OLDEST is not None
    code, _, err = container.run(block, python=OLDEST)
    assert code == 75, err


@pytest.mark.parametrize("block", BLOCKS, ids=[str(n) for n in range(len(BLOCKS))])
def test_a_block_is_suspended_and_goes_on(tmp_path, block):
    needed = NEEDS.findall(block)
    if not all(there(package) for package in needed):
        pytest.skip(f"no {', '.join(needed)}: make test-torch")
    python = str(PYTHON) if needed else sys.executable
    patience = 300.0 if needed else 40.0  # Their imports alone take long where much else runs.
    container = Container(tmp_path)
    container.ask()
    code, _, err = container.run(block, python=python, patience=patience)
    assert code == 75, err
    assert container.failure == "slotq-released"
    again = Container(tmp_path, job="job1-qstamp-2-abcdef")
    code, _, err = again.run(block, python=python, patience=patience)
    assert code == 0, err
    assert "resumes after step" in err or "state.json" in block or "suspend.latest()" in block


def test_the_page_names_every_word():
    import slotq_training

    for word in slotq_training.__all__:
        assert word in PAGE
