"""A script is told to go, in each of the ways, and goes as the queue expects."""

from __future__ import annotations

import signal
import time

import pytest

from tests.functional.training.processes import PATIENCE, Container, until

LOOP = """
import time
import slotq_training as slotq

slotq.should_suspend()
print("attempt", slotq.attempt(), flush=True)
for step in range(100000):
    slotq.report(step + 1, of=100000, loss=1 / (step + 1))
    if slotq.should_suspend():
        print("saves", flush=True)
        slotq.suspend()
        print("never", flush=True)
    time.sleep(0.01)
"""


def started(container, script=LOOP, **environment):
    process = container.start(script, **environment)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("attempt")
    return process


def test_asked_by_the_marker_it_releases(tmp_path):
    container = Container(tmp_path)
    process = started(container)
    container.ask()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, err
    assert out == "saves\n"
    assert container.failure == "slotq-released"
    assert err.rstrip().endswith("slotq-released")


def test_the_report_tells_of_steps_and_of_the_suspend(tmp_path):
    container = Container(tmp_path)
    process = started(container)
    until(lambda: container.report, "a report")
    container.ask()
    process.communicate(timeout=PATIENCE)
    report = container.report
    assert report["training_job"] == "job1"
    assert report["of"] == 100000
    assert report["step"] > 1
    assert report["metrics"] == {"loss": pytest.approx(1 / report["step"])}
    assert report["first"]["step"] == 1
    assert report["reported_at"] - report["first"]["at"] >= 0
    suspend = report["suspend"]
    assert suspend["via"] == "marker"
    assert suspend["asked_at"] <= suspend["acknowledged_at"] <= suspend["released_at"]


def test_after_sigterm_it_saves_and_waits_to_be_killed(tmp_path):
    container = Container(tmp_path)
    process = started(container)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "saves\n"
    time.sleep(1.0)  # Nothing may happen in it.
    assert process.poll() is None
    process.kill()
    process.wait()
    assert container.failure == ""
    assert container.report["suspend"]["released_at"] is None


def test_a_stop_that_follows_the_marker_is_waited_for(tmp_path):
    script = LOOP.replace('print("saves", flush=True)', 'print("saves", flush=True); time.sleep(2)')
    container = Container(tmp_path)
    process = started(container, script)
    container.ask()
    assert process.stdout.readline() == "saves\n"
    process.send_signal(signal.SIGTERM)
    time.sleep(3.0)
    assert process.poll() is None
    process.kill()
    process.wait()


def test_a_script_may_release_by_itself(tmp_path):
    script = 'print("attempt")\nimport slotq_training\nslotq_training.suspend()'
    container = Container(tmp_path)
    assert container.run(script)[0] == 75
    assert container.failure == "slotq-released"


def test_a_callback_is_called_without_a_loop(tmp_path):
    script = """
import time
import slotq_training as slotq

def save():
    print("saves", flush=True)
    slotq.suspend()

slotq.on_suspend(lambda: 1 / 0)
slotq.on_suspend(save)
print("attempt", flush=True)
time.sleep(60)
"""
    container = Container(tmp_path)
    process = started(container, script)
    container.ask()
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (75, "saves\n")
    assert "ZeroDivisionError" in err


def test_a_callback_comes_at_once_if_the_suspend_is_known(tmp_path):
    script = """
import time
import slotq_training as slotq

print("attempt", flush=True)
while not slotq.should_suspend():
    time.sleep(0.01)
slotq.on_suspend(slotq.suspend)
time.sleep(60)
"""
    container = Container(tmp_path)
    process = started(container, script)
    container.ask()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 75


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes_learn_of_it(tmp_path, method):
    script = f"""
import multiprocessing, time
import slotq_training as slotq

def child():
    while not slotq.should_suspend():
        time.sleep(0.01)
    print("child knows", flush=True)

if __name__ == "__main__":
    slotq.should_suspend()
    print("attempt", flush=True)
    process = multiprocessing.get_context("{method}").Process(target=child)
    process.start()
    process.join()
    slotq.suspend()
"""
    container = Container(tmp_path)
    process = started(container, script)
    container.ask()
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (75, "child knows\n")


def test_forked_workers_still_die_of_sigterm(tmp_path):
    script = """
import multiprocessing, time
import slotq_training as slotq

if __name__ == "__main__":
    slotq.should_suspend()
    print("attempt", flush=True)
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    worker.start()
    worker.terminate()
    worker.join(120)
    print(worker.exitcode)
"""
    container = Container(tmp_path)
    process = started(container, script)
    assert process.communicate(timeout=PATIENCE)[0] == "-15\n"


def test_the_scripts_own_handler_of_sigterm_is_called_too(tmp_path):
    script = (
        """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("own", flush=True))
"""
        + LOOP
    )
    container = Container(tmp_path)
    process = started(container, script)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "own\n"
    assert process.stdout.readline() == "saves\n"
    process.kill()
    process.wait()


def test_an_earlier_attempts_marker_is_no_news(tmp_path):
    container = Container(tmp_path, job="job1-qstamp-2-abcdef")
    container.job = "job1"
    container.ask()
    script = LOOP.replace("100000", "100")
    code, out, _ = container.run(script)
    assert (code, out) == (0, "attempt 2\n")


def test_off_sagemaker_sigterm_ends_the_script(tmp_path):
    container = Container(tmp_path)
    del container.environment["TRAINING_JOB_NAME"]
    process = started(container)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    code, out, _ = container.run(LOOP.replace("100000", "100"))
    assert (code, out) == (0, "attempt 1\n"), "the next run is not asked again"


def test_a_script_that_only_reports_still_dies_of_sigterm(tmp_path):
    script = """
import time
import slotq_training as slotq

slotq.report(1)
print("attempt", flush=True)
time.sleep(60)
"""
    container = Container(tmp_path)
    process = started(container, script)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGTERM
