"""docs/suspendable.md: each Python block is a whole script that is suspended and resumes."""

from __future__ import annotations

import re
import sys

import pytest

from tests.functional.training.processes import ROOT, Container
from tests.functional.training.test_torch import PYTHON

PAGE = (ROOT / "docs" / "suspendable.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


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
