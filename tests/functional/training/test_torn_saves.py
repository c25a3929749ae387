"""A save is killed at each of its lines: a torn checkpoint is never loaded, and little is lost."""

from __future__ import annotations

import json

from tests.functional.training.processes import Container

ONE_RANK = """
import json, os, signal, sys
from pathlib import Path
import slotq_training as slotq

root = Path(slotq.checkpoint_dir())
FILE = slotq.__file__

def manager(n):
    os.environ["SLOTQ_CHECKPOINT_DIR"] = str(root / str(n))
    model = {"step": 0, "weights": [0.0] * 4}
    return model, slotq.checkpoint.manager(model, keep=1)

def train(n, kill_at):
    '''Three saves; the third is killed at a line. Returns how many lines it has.'''
    model, ckpt = manager(n)
    lines = 0
    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename != FILE:
            return None
        if event == "line":
            lines += 1
            if lines == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    for step in range(3):
        model["step"] = step + 1
        model["weights"] = [float(step + 1)] * 4
        ckpt.start_step = step + 1
        if step == 2:
            sys.settrace(trace)
        ckpt.save()
    sys.settrace(None)
    return lines

found = {}
if os.fork() == 0:
    (root / "count").write_text(str(train("whole", 0)))
    os._exit(0)
os.wait()
count = int((root / "count").read_text())
for n in range(1, count + 1):
    child = os.fork()
    if child == 0:
        train(n, n)
        os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), (n, status)
    model, ckpt = manager(n)
    assert model["weights"] == [float(model["step"])] * 4, model
    assert ckpt.start_step == model["step"]
    found[n] = model["step"]
print(json.dumps({"lines": count, "steps": sorted(found.values()), "last": found[count]}))
"""

TWO_RANKS = """
import os, signal, sys
import slotq_training as slotq

rank, kill_at, kills = int(os.environ["RANK"]), int(sys.argv[1]), int(sys.argv[2])
model = {"step": 0, "large": bytearray(1)}
ckpt = slotq.checkpoint.manager(model, keep=1)
lines = 0
def trace(frame, event, _):
    global lines
    if frame.f_code.co_filename != slotq.__file__:
        return None
    if event == "line":
        lines += 1
        if lines == kill_at and rank == kills:
            os.kill(os.getpid(), signal.SIGKILL)
    return trace
first = ckpt.start_step
for step in range(first, first + 2):
    model["step"] = step + 1
    ckpt.start_step = step + 1
    if step == first + 1:
        sys.settrace(trace)
    ckpt.save()
sys.settrace(None)
print(first, lines, flush=True)
"""


def test_a_save_killed_at_any_line_is_whole_or_not_there(tmp_path):
    code, out, err = Container(tmp_path).run(ONE_RANK)
    assert code == 0, err
    found = json.loads(out.splitlines()[-1])
    assert found["lines"] > 40
    assert set(found["steps"]) == {2, 3}, "the interval before the killed save, or the save itself"
    assert found["last"] == 3


def ranks(container, kill_at, kills):
    processes = [
        container.start(
            TWO_RANKS, str(kill_at), str(kills),
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
        )
        for rank in range(2)
    ]  # fmt: skip
    return [process.communicate(timeout=20) for process in processes]


def test_a_rank_killed_in_a_save_leaves_the_last_whole_one(tmp_path):
    container = Container(tmp_path)
    whole = ranks(container, 0, 0)
    lines = [int(out.split()[1]) for out, _ in whole]
    step = 2
    for kills in (0, 1):
        for kill_at in range(1, lines[kills] + 1, max(1, lines[kills] // 6)):
            said = ranks(container, kill_at, kills)
            assert {int(out.split()[0]) for out, _ in said if out} == {step}, (kills, kill_at)
            began = {int(out.split()[0]) for out, _ in ranks(container, 0, 0)}
            assert began in ({step + 1}, {step + 2}), (kills, kill_at)  # Both ranks, the same.
            step = began.pop() + 2


def test_a_fast_rank_waits_until_the_slow_one_has_loaded(tmp_path):
    """Else it would write over what the slow one is about to load."""
    container = Container(tmp_path)
    ranks(container, 0, 0)
    slow = TWO_RANKS.replace("model =", "__import__('time').sleep(1.5 * (1 - rank))\nmodel =")
    processes = [
        container.start(slow, "0", "0", RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
        for rank in range(2)
    ]
    said = [process.communicate(timeout=20) for process in processes]
    assert [out.split()[0] for out, _ in said] == ["2", "2"], said
