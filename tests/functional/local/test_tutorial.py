"""docs/tutorial.md, from its first block to its last, in one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.local.conftest import slotq

PAGE = (Path(__file__).parents[3] / "docs" / "tutorial.md").read_text()
FILES = re.findall(r"^Write `([\w.]+)`:\n\n```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SAVES = "slotq logs long\n"
URGENT = "python submit.py urgent 10 5 --wait\n"
PATIENT = "until slotq logs long | grep -q 'saved step 10'; do sleep 0.2; done\n"
"""What a reader does who looks at the log until the training has saved something."""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "state"
    yield folder
    if folder.exists():
        slotq("local", "stop", folder=folder, check=False)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The page's files. The training does not outrun the eviction, and takes no minute."""
    folder = tmp_path / "work"
    folder.mkdir()
    step = f"while state['step'] == 12 and not os.path.exists('{folder}/evicted'): time.sleep(0.1)"
    for name, text in FILES:
        (folder / name).write_text(text.replace("time.sleep(1)", step))
    return folder


def test_the_tutorial_can_be_followed(work: Path, state: Path) -> None:
    assert [name for name, _ in FILES] == ["train.py", "submit.py"]
    story = "".join(BLOCKS)
    for theirs, ours in {
        "start --pool": "start --port 0 --pool",
        SAVES: PATIENT,
        URGENT: f"{URGENT}touch evicted\n",
    }.items():
        assert story.count(theirs) == 1, theirs
        story = story.replace(theirs, ours)
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    ran = subprocess.run(
        ["bash", "-ec", story],
        cwd=work,
        env={**kept, "PATH": path, "SLOTQ_LOCAL_DIR": str(state)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    begun = re.findall(r"begins after step (\d+)|(done after step 60)", ran.stdout)
    assert begun == [("0", ""), ("10", ""), ("", "done after step 60")]
    assert "evicted for urgent" in ran.stdout
    assert "urgent: completed" in ran.stdout + ran.stderr
