"""docs/elastic-scripts.md: real processes, each a member of an elastic gang.

The members meet below a prefix of the emulator's S3, or in a folder, and are asked to suspend as
the queue does it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from slotq.demo.environment import with_variables
from slotq.demo.world import settings
from tests import emulators
from tests.functional.training.breathing import PLAIN, QUICK, SHARDS, STEPS, breathe, slowly
from tests.functional.training.processes import until


def uninterrupted() -> float:
    """The weight that the plain script comes to, in one process."""
    weight = 0.0
    for _ in range(STEPS):
        weight -= 0.01 * sum(weight - shard for shard in range(SHARDS)) / SHARDS
    return weight


def test_two_four_one_and_four_processes_end_as_one_that_nothing_has_interrupted(tmp_path, gang):
    with emulators.held(tmp_path / "aws", "--pool", "main=1") as account:
        variables = settings(account.endpoint, tmp_path / "aws")
        with with_variables(variables, instead_of=("AWS_", "SLOTQ_")):
            aws = {name: text for name, text in os.environ.items() if name.startswith("AWS_")}
        place = f"s3://{account.bucket}/out/slotq-groups/ring/1"
        last = breathe(gang(slowly(PLAIN, "time.sleep(0.01)  # your training"), place, **aws))
        keys = [
            each["Key"].rpartition("/1/")[2]
            for each in account.s3.list_objects_v2(Bucket=account.bucket, Prefix="out/")["Contents"]
        ]
    states = [json.loads(line) for line in last]
    assert states == states[:1] * 4
    assert states[0]["seen"] == STEPS * SHARDS, "each shard once in each step"
    assert states[0]["weight"] == pytest.approx(uninterrupted(), rel=1e-9)
    entries = [f"ring-{n}/000{a}.json" for n in (1, 2, 3, 4) for a in (1, 2) if (n, a) != (2, 2)]
    assert keys == ["_slotq/generation.json", *entries]


def rings(gang, count=3):
    """A gang in its first generation, whose members count as gone after three seconds."""
    made = gang(QUICK + slowly(PLAIN, "time.sleep(0.01)  # your training"))
    members = [made.member(number).start(size=count) for number in range(1, count + 1)]
    for member in members:
        assert member.meets(count) == 1
    return made, members


@pytest.mark.parametrize("victim", [0, 2], ids=["rank 0", "another"])
def test_a_member_that_is_killed_is_missed_and_loses_no_step(gang, victim):
    made, members = rings(gang)
    members.pop(victim).process.kill()
    for member in members:
        assert member.meets(2) > 1
    made.enough.touch()
    for member in members:
        state = json.loads(member.ends())
        assert (state["step"], state["seen"]) == (STEPS, STEPS * SHARDS)
        assert state["weight"] == pytest.approx(uninterrupted(), rel=1e-9)


def test_a_member_asked_to_suspend_while_it_waits_goes(tmp_path, gang):
    made = gang(PLAIN.replace("step=state[", "minimum=2, step=state["))
    alone = made.member(1).start(size=1)
    entry = tmp_path / "meet" / "ring-1" / "0001.json"
    until(entry.is_file, "its entry")
    alone.suspends().has_released()
    assert json.loads(entry.read_text())["state"] == "left"


def saved(member) -> Path:
    path: Path = member.container.checkpoints / "state.json"
    return path


def step_of(member) -> int:
    return int(json.loads(saved(member).read_text())["step"])


def test_a_gang_that_is_suspended_as_a_whole_goes_on_from_the_newest_state(gang):
    made, members = rings(gang, count=2)
    for member in members:
        member.suspends()
    for member in members:
        member.has_released()
    newest = max(members, key=step_of)  # Who hears of it later may do a step more, alone.
    for member in members:
        if member is not newest:
            saved(member).unlink()  # Its copy to S3 was late.
        member.start(size=2)
    for member in members:
        assert f"rank={int(member is not newest)}" in member.reads("generation=")
    made.enough.touch()
    for member in members:
        assert json.loads(member.ends())["seen"] == STEPS * SHARDS


def test_a_member_that_sagemaker_stops_leaves_and_waits_for_its_end(tmp_path, gang):
    made, members = rings(gang)
    stopped = members.pop()
    stopped.process.terminate()
    for member in members:
        assert member.meets(2) == 2
    entry = tmp_path / "meet" / stopped.site / "0001.json"
    until(lambda: json.loads(entry.read_text())["state"] == "left", "its last word")
    assert stopped.process.poll() is None, "a script that ends by itself would end its job"
    assert step_of(stopped) > 0
    made.enough.touch()
    for member in members:
        assert json.loads(member.ends())["seen"] == STEPS * SHARDS


def test_it_runs_on_the_oldest_python(gang):
    oldest = sorted(Path.home().glob(".pyenv/versions/3.8*/bin/python"))
    if not oldest:
        pytest.skip("no Python 3.8 here")
    made = gang(PLAIN, python=oldest[0])
    members = [made.member(number).start(size=2) for number in (1, 2)]
    for member in members:
        assert member.meets(2) == 1
    assert {json.loads(member.ends())["seen"] for member in members} == {STEPS * SHARDS}
