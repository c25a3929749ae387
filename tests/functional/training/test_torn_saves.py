"""A save is killed at each of its lines: a torn checkpoint is never loaded, and little is lost."""

from __future__ import annotations

import json

import pytest

from tests.functional.training.processes import PATIENCE, Container

COUNTED = """
import os, signal, sys, threading
import slotq_training as slotq

class Lines:
    "Counts the lines of slotq_training that run, and kills this process at one of them."
    def __init__(self, kill_at):
        self.count, self._kill_at = 0, kill_at
    def trace(self, frame, event, _):
        if frame.f_code.co_filename != slotq.__file__:
            return None
        if event == "line":
            self.count += 1
            if self.count == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.trace
"""

ONE_RANK = (
    COUNTED
    + """
import json
from pathlib import Path

root, way = Path(slotq.checkpoint_dir()), sys.argv[1]

def manager(n):
    os.environ["SLOTQ_CHECKPOINT_DIR"] = str(root / str(n))
    model = {"step": 0, "weights": [0.0] * 4}
    return model, slotq.checkpoint.manager(
        model, keep=1, every_steps=1, background=way == "background"
    )

def train(n, kill_at):
    "Three saves; the third is killed at a line. Returns how many lines it has."
    model, ckpt = manager(n)
    lines = Lines(kill_at)
    def ends(code):
        (root / "count").write_text(str(lines.count))
        leave(code)
    leave, os._exit = os._exit, ends  # A suspend never returns.
    for step in range(3):
        model["step"] = step + 1
        model["weights"] = [float(step + 1)] * 4
        if step == 2:
            if way == "suspend":
                slotq._watch._learn({"via": "marker", "grace": None, "stopping": False})
            if way == "background":
                threading.settrace(lines.trace)  # The other thread only copies.
            else:
                sys.settrace(lines.trace)
        ckpt.after_step(0, step)
    sys.settrace(None)
    ckpt._wait()

def ended(n, kill_at):
    child = os.fork()
    if child == 0:
        train(n, kill_at)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

code = ended("whole", 0)
count = int((root / "count").read_text())
found = []
for n in range(1, count + 1):
    killed = ended(n, n)
    if killed == 75:  # The thread has written the report first: some lines fewer.
        found.append(3)
        continue
    assert killed == -signal.SIGKILL, n
    if os.fork() == 0:  # As the next attempt: a process that knows nothing yet.
        model, ckpt = manager(n)
        assert model["weights"] == [float(model["step"])] * 4, model
        assert ckpt.start_step == model["step"]
        os._exit(model["step"])
    found.append(os.waitstatus_to_exitcode(os.wait()[1]))
print(json.dumps({"code": code, "lines": count, "found": found}))
"""
)

EVERY_LINE = (
    COUNTED
    + """
import contextlib, json
from pathlib import Path

LOADED = 100  # An exit code of its own: an exception ends a process with 1.
root, kills = Path(slotq.checkpoint_dir()), int(sys.argv[1])

def train(rank, kill_at):
    "Two saves; in the second a rank is killed at a line. Returns how many lines that rank has."
    model = {"step": 0, "large": bytearray(1 << 17)}
    ckpt = slotq.checkpoint.manager(model, keep=1, parallel_above=1)
    lines = Lines(kill_at if rank == kills else 0)
    for step in range(2):
        model["step"] = step + 1
        ckpt.start_step = step + 1
        if step == 1:
            sys.settrace(lines.trace)
        ckpt.save()
    sys.settrace(None)
    if rank == kills:
        (root / "count").write_text(str(lines.count))
    return 0

def resume(rank, _):
    model = {}
    ckpt = slotq.checkpoint.manager(model, keep=1)
    assert len(model["large"]) == 1 << 17 and ckpt.start_step == model["step"]
    with contextlib.suppress(OSError):  # Rank 0 answers the others: it must not end before them.
        ckpt._saves.watch.group.gather("has resumed", 0)
    return LOADED + ckpt.start_step

def ended(n, job, work, kill_at):
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            os.environ["SLOTQ_CHECKPOINT_DIR"] = str(root / str(n))
            os.environ["TRAINING_JOB_NAME"] = job
            slotq._spawned, slotq._forked = (rank, 2), False  # As hfai.multiprocessing.spawn.
            os._exit(work(rank, kill_at))
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

assert ended("whole", "first", train, 0) == [0, 0]
count, killed = int((root / "count").read_text()), 0
found = []
for n in range(1, count + 1):
    codes = ended(n, "first", train, n)
    assert codes[1 - kills] == 0, (n, codes)
    if codes[kills] == 0:  # It waited a shorter time for the other rank: it has fewer lines.
        assert int((root / "count").read_text()) < n
    else:
        assert codes[kills] == -signal.SIGKILL, (n, codes)
        killed += 1
    found.append(ended(n, "second", resume, 0))
print(json.dumps({"lines": count, "killed": killed, "found": found}))
"""
)

TWO_RANKS = """
import slotq_training as slotq

model = {"step": 0, "large": bytearray(1)}
ckpt = slotq.checkpoint.manager(model, keep=1)
first = ckpt.start_step
for step in range(first, first + 2):
    model["step"] = step + 1
    ckpt.start_step = step + 1
    ckpt.save()
print(first, flush=True)
"""


@pytest.mark.parametrize(("way", "code"), [("save", 0), ("background", 0), ("suspend", 75)])
def test_a_save_killed_at_any_line_is_whole_or_not_there(tmp_path, way, code):
    """From the step's end on, until the save has ended, or the process at a suspend."""
    process = Container(tmp_path).start(ONE_RANK, way, patience=550)
    out, err = process.communicate()
    assert process.returncode == 0, err[-2000:]
    found = json.loads(out.splitlines()[-1])
    assert found["code"] == code
    assert found["lines"] > 50
    steps = found["found"]
    assert set(steps) == {2, 3}, "the interval before the killed save, or the save itself"
    assert steps == sorted(steps), "from one line on it is there"


def ranks(container, script):
    processes = [
        container.start(script, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
        for rank in range(2)
    ]
    return [process.communicate(timeout=PATIENCE) for process in processes]


@pytest.mark.parametrize("kills", [0, 1])
def test_a_rank_killed_at_any_line_of_a_save_leaves_a_whole_one(tmp_path, kills):
    """Both ranks then resume from the same one, of which each has written a part."""
    process = Container(tmp_path).start(EVERY_LINE, str(kills), patience=550)
    out, err = process.communicate()
    assert process.returncode == 0, err[-2000:]
    found = json.loads(out.splitlines()[-1])
    assert found["lines"] > 50
    assert found["killed"] >= 0.9 * found["lines"], "waiting may take some lines fewer"
    assert {tuple(steps) for steps in found["found"]} == {(101, 101), (102, 102)}


def test_a_fast_rank_waits_until_the_slow_one_has_loaded(tmp_path):
    """Else it would write over what the slow one is about to load."""
    container = Container(tmp_path)
    ranks(container, TWO_RANKS)
    waits = "import os, time\ntime.sleep(1.5 * (1 - int(os.environ['RANK'])))\n"
    said = ranks(container, TWO_RANKS.replace("model =", f"{waits}model =", 1))
    assert [out.split()[0] for out, _ in said] == ["2", "2"], said
