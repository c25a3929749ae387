"""Several ranks agree on the step at which they stop; nothing is sent while nothing is asked."""

from __future__ import annotations

from tests.functional.training.processes import PATIENCE, Container

RANK = """
import os, random, sys, time
import slotq_training as slotq

rank = int(os.environ["RANK"])
for step in range(100000):
    if slotq.should_suspend():
        print("stops at", step, flush=True)
        time.sleep(rank * 0.3)  # The last one still saves while the first is ready.
        print("saved", flush=True)
        slotq.suspend()
    if step == 5:
        print("runs", flush=True)
    time.sleep(random.random() * 0.02 * (rank + 1))
"""


def start(container, rank, world, script=RANK):
    names = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    return container.start(script, **names)


def lines(processes):
    return [process.communicate(timeout=PATIENCE)[0].splitlines() for process in processes]


def test_all_ranks_of_a_node_stop_at_the_same_step(tmp_path):
    container = Container(tmp_path)
    processes = [start(container, rank, 3) for rank in range(3)]
    for process in processes:
        assert process.stdout.readline() == "runs\n"
    container.ask()
    said = lines(processes)
    assert len({tuple(each) for each in said}) == 1, said
    assert said[0][1] == "saved", "nobody ends before all have saved"
    assert {process.returncode for process in processes} == {75}


def test_ranks_of_two_nodes_stop_at_the_same_step(tmp_path):
    hosts = ("algo-1", "algo-2")
    nodes = [Container(tmp_path, hosts=hosts, host=host) for host in hosts]
    script = RANK.replace('os.environ["RANK"]', 'slotq.distributed_env()["RANK"]')
    processes = [node.start(script, SLOTQ_PORT="22231") for node in nodes]
    for process in processes:
        assert process.stdout.readline() == "runs\n"
    nodes[1].ask()  # Any rank may be the one that learns of it.
    said = lines(processes)
    assert said[0] == said[1] and said[0][0].startswith("stops at"), said


def test_a_suspend_before_the_ranks_have_met_stops_them_together(tmp_path):
    container = Container(tmp_path)
    container.ask()
    late = RANK.replace("import os,", "import time; time.sleep(1.5)\nimport os,")
    processes = [start(container, 0, 2), start(container, 1, 2, late)]
    said = lines(processes)
    assert said[0] == said[1] and said[0][-1] == "saved", said


def test_ranks_that_are_many_steps_apart_stop_at_the_step_of_the_first(tmp_path):
    """As with a GPU's queue of work: one rank runs ahead of the other."""
    container = Container(tmp_path)
    script = RANK.replace(
        "time.sleep(random.random() * 0.02 * (rank + 1))", "time.sleep(0.002 + rank * 0.02)"
    )
    processes = [start(container, rank, 2, script) for rank in range(2)]
    for process in processes:
        assert process.stdout.readline() == "runs\n"
    container.ask()
    said = lines(processes)
    assert said[0] == said[1], said


def test_a_helper_process_of_a_rank_does_not_take_part(tmp_path):
    """It asks much more often than once a step."""
    container = Container(tmp_path)
    helper = """
import multiprocessing, os, time
import slotq_training as slotq

def helper():
    while not slotq.should_suspend():
        time.sleep(0.001)

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=helper)
    process.start()
"""
    body = "".join(f"    {line}\n" for line in RANK.splitlines() if line)
    processes = [start(container, 0, 2, helper + body), None]
    other = Container(tmp_path / "other", job="job1")
    other.environment.update(container.environment)
    processes[1] = start(other, 1, 2)
    for process in processes:
        assert process.stdout.readline() == "runs\n"
    container.ask()
    said = lines(processes)
    assert said[0] == said[1], said


def test_a_program_that_a_rank_starts_does_not_wait_for_the_ranks(tmp_path):
    """It inherits the rank's name, which rank 0 knows already."""
    evaluates = """
import os, signal, subprocess, sys
import slotq_training as slotq

slotq.should_suspend()
if os.environ["RANK"] == "0":
    signal.pause()
elif len(sys.argv) == 1:
    program = subprocess.run([sys.executable, __file__, "program"], capture_output=True, text=True)
    print(program.stderr, end="")
"""
    container = Container(tmp_path)
    first, second = [start(container, rank, 2, evaluates) for rank in range(2)]
    try:
        assert lines([second]) == [
            ["slotq: this rank decides alone when it stops: rank 0 does not answer"]
        ]
    finally:
        first.kill()
        first.communicate()


def test_hfais_way_asks_rank_0_alone(tmp_path):
    """Only the first process asks; nobody waits for the others."""
    script = """
import os, time
from slotq_training import hfai
print("runs", flush=True)
while True:
    if os.environ["RANK"] == "0" and hfai.client.receive_suspend_command():
        print("saved", flush=True)
        hfai.client.go_suspend()
    time.sleep(0.01)
"""
    container = Container(tmp_path)
    processes = [start(container, rank, 2, script) for rank in range(2)]
    for process in processes:
        assert process.stdout.readline() == "runs\n"
    container.ask()
    assert processes[0].communicate(timeout=PATIENCE)[0] == "saved\n"
    assert processes[0].returncode == 75
    processes[1].kill()
    processes[1].communicate()


def test_nothing_is_sent_while_nothing_is_asked(tmp_path):
    script = """
import os, time
import slotq_training as slotq
slotq.should_suspend()
watched = slotq._watch.group._line
count = [0]
send = watched.send
watched.send = lambda message: (count.__setitem__(0, count[0] + 1), send(message))
for _ in range(200):
    slotq.should_suspend()
    time.sleep(0.005)
print(count[0], flush=True)
"""
    container = Container(tmp_path)
    processes = [start(container, rank, 2, script) for rank in range(2)]
    assert lines(processes) == [["0"], ["0"]]
