"""Scripts in the form of HFAI's examples run with only the import changed."""

from __future__ import annotations

import pytest

from tests.functional.training.processes import PATIENCE, Container

# The form of "graceful suspend": the first process of the first node saves and goes.
GRACEFUL = """
import json, os, time
from pathlib import Path
from slotq_training import checkpoint_dir, hfai

SAVED = Path(checkpoint_dir()) / "latest.json"

def main(gpu_id, steps):
    start = json.loads(SAVED.read_text())["step"] if SAVED.exists() else 0
    for step in range(start, steps):
        time.sleep(0.02)
        if step == start + 3 and gpu_id == 0:
            print("from", start, os.environ["WORLD_SIZE"], os.environ["MASTER_PORT"], flush=True)
        if hfai.distributed.get_rank() == 0 and gpu_id == 0:
            if hfai.client.receive_suspend_command():
                SAVED.write_text(json.dumps({"step": step + 1}))
                hfai.client.set_whole_life_state(hfai.client.get_whole_life_state() + 1)
                hfai.client.go_suspend()
    if gpu_id == 0:
        print("done", hfai.client.get_whole_life_state(), flush=True)

if __name__ == "__main__":
    hfai.multiprocessing.spawn(main, args=(STEPS,), nprocs=2, bind_numa=True)
"""

# The form of `hfai.checkpoint`: every process calls try_save after each step.
CHECKPOINT = """
import os, time
from slotq_training import hfai

def say(line):
    os.write(1, (line + chr(10)).encode())  # At once: two processes write to one pipe.

class Model:
    def __init__(self):
        self.seen = []
    def state_dict(self):
        return {"seen": list(self.seen)}
    def load_state_dict(self, state):
        self.seen = list(state["seen"])

def main(gpu_id, epochs):
    model, optimizer = Model(), {"rate": 0.01}
    start_epoch, start_step, others = hfai.checkpoint.init(model, optimizer, ckpt_path="latest.pt")
    say(f"{gpu_id} from {start_epoch} {start_step} {others}")
    for epoch in range(start_epoch, epochs):
        for step in range(10):
            if step < start_step:
                continue
            time.sleep(0.01)
            model.seen.append((epoch, step))
            model.try_save(epoch, step, others={"best": epoch})
        start_step = 0
    whole = [(epoch, step) for epoch in range(epochs) for step in range(10)]
    say(f"{gpu_id} whole {model.seen == whole}")

if __name__ == "__main__":
    hfai.multiprocessing.spawn(main, args=(EPOCHS,), nprocs=2)
"""


def test_a_script_of_the_graceful_form(tmp_path):
    container = Container(tmp_path)
    process = container.start(GRACEFUL.replace("STEPS", "100000"))
    assert process.stdout.readline() == "from 0 1 2222\n"
    container.ask()
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, err
    assert container.failure == "slotq-released"
    again = Container(tmp_path, job="job1-qstamp-2-abcdef")
    code, out, err = again.run(GRACEFUL.replace("STEPS", "100"))
    assert code == 0, err
    first, last = out.splitlines()
    assert int(first.split()[1]) > 3
    assert last == "done 1"


def test_a_script_of_the_checkpoint_form(tmp_path):
    container = Container(tmp_path)
    process = container.start(CHECKPOINT.replace("EPOCHS", "100000"))
    for _ in range(2):
        assert process.stdout.readline().endswith("from 0 0 None\n")
    container.ask()
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, err
    again = Container(tmp_path, job="job1-qstamp-2-abcdef")
    code, out, err = again.run(CHECKPOINT.replace("EPOCHS", "20"))
    assert code == 0, err
    said = sorted(out.splitlines())
    begins = [line.split(" ", 1)[1] for line in said if "from" in line]
    assert begins[0] == begins[1] != "from 0 0 None", "both ranks saved after the same step"
    assert [line for line in said if "whole" in line] == ["0 whole True", "1 whole True"]


def test_a_process_that_fails_ends_the_others(tmp_path):
    script = """
import time
from slotq_training import hfai

def main(gpu_id):
    assert gpu_id == 0
    time.sleep(60)

if __name__ == "__main__":
    hfai.multiprocessing.spawn(main, nprocs=2)
"""
    code, _, err = Container(tmp_path).run(script)
    assert code == 1
    assert "RuntimeError" in err


@pytest.mark.parametrize(("part", "cpus"), [("0", [0]), ("4-6", [4, 5, 6])])
def test_numa_lists_are_read_as_linux_writes_them(part, cpus):
    import slotq_training

    assert list(slotq_training._cpus(part)) == cpus


@pytest.mark.parametrize("script", [GRACEFUL, CHECKPOINT], ids=["graceful", "checkpoint"])
def test_a_script_runs_with_its_own_import(tmp_path, script):
    own = script.replace("from slotq_training import checkpoint_dir, hfai", "import hfai")
    own = own.replace("from slotq_training import hfai", "import hfai")
    own = own.replace("Path(checkpoint_dir())", f"Path({str(tmp_path)!r})")
    assert "slotq" not in own
    code, out, err = Container(tmp_path).run(own.replace("STEPS", "5").replace("EPOCHS", "2"))
    assert code == 0, err
    assert "done 0" in out or "whole True" in out


IMPORTS = """
import sys
import hfai
import hfai.client as client
from hfai.distributed import get_rank, get_world_size
from hfai.multiprocessing import spawn
from hfai import checkpoint

client.set_priority(30)
print(get_rank(), get_world_size(), client.get_whole_life_state(), checkpoint.init.__name__)
try:
    client.set_watchdog
except AttributeError as error:
    print(error)
try:
    import hfai.datasets
except ModuleNotFoundError as error:
    print(error)
"""


def test_every_way_to_import_a_part(tmp_path):
    code, out, err = Container(tmp_path, hosts=("algo-1", "algo-2"), host="algo-2").run(IMPORTS)
    assert code == 0, err
    first, unknown, missing = out.splitlines()
    assert first == "1 2 0 _init"
    assert "hfai.client.set_watchdog is not among the names that SlotQ knows" in unknown
    assert missing.startswith("No module named 'hfai.datasets'")
    assert "set_priority(30) has no effect here" in err


@pytest.mark.parametrize("form", ["hfai.py", "hfai/__init__.py"])
def test_an_hfai_of_the_image_takes_its_place(tmp_path, form):
    image = tmp_path / "site-packages"
    (image / form).parent.mkdir(parents=True)
    (image / form).write_text("REAL = True\n")
    container = Container(tmp_path)
    path = f"{container.environment['PYTHONPATH']}:{image}"
    script = "import hfai\nfrom hfai import REAL\nprint(hfai.REAL, hfai.__file__)"
    code, out, err = container.run(script, PYTHONPATH=path)
    assert code == 0, err
    assert out.split() == ["True", str(image / form)]
