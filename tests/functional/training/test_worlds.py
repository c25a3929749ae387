"""docs/gangs.md, a script that breathes: real processes, each a member of an elastic gang.

The members meet below a prefix of the emulator's S3, or in a folder, and are asked to suspend as
the queue does it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from slotq.demo.environment import with_variables
from slotq.demo.world import settings
from tests import emulators
from tests.functional.training.processes import ROOT, Container, until

PAGE = (ROOT / "docs" / "gangs.md").read_text()
PLAIN, TORCH = re.findall(r"^```python\n([^`]*slotq\.world\([^`]*)^```", PAGE, re.MULTILINE)
PACE = "os.path.exists(os.environ['ENOUGH']) or time.sleep(0.3)"
"""Slow until the story is over, however long it takes."""
STEPS, SHARDS = 400, 24


def slowly(script: str, work: str) -> str:
    assert work in script
    return script.replace(work, work.replace("time.sleep(0.01)", PACE))


def uninterrupted() -> float:
    """The weight that the plain script comes to, in one process."""
    weight = 0.0
    for _ in range(STEPS):
        weight -= 0.01 * sum(weight - shard for shard in range(SHARDS)) / SHARDS
    return weight


class Member:
    """A member of the gang, over its attempts."""

    def __init__(self, number, start, folder):
        self.site, self._start, self._folder = f"ring-{number}", start, folder
        self.attempt, self.said = 0, []

    def start(self, size, **environment):
        self.attempt += 1
        job = self.site + (f"-qstamp-{self.attempt}-abcdef" if self.attempt > 1 else "")
        self.container = Container(self._folder / self.site, job=job)
        self.process = self._start(
            self.container, SLOTQ_SITE=self.site, SLOTQ_GROUP_SIZE=str(size), **environment
        )
        return self

    def reads(self, text):
        """Read on until a line has the text. Returns the line."""
        for line in self.process.stdout:
            self.said.append(line.strip())
            if text in line:
                return line.strip()
        raise AssertionError(f"{self.site} never said {text}: {self.process.stderr.read()}")

    def meets(self, size):
        """The generation that it gets with so many others."""
        return int(re.findall(r"generation=(\d+)", self.reads(f"world_size={size})"))[0])

    def suspends(self):
        self.container.ask()
        return self

    def has_released(self):
        _, errors = self.process.communicate()
        assert self.process.returncode in {1, 75}, errors  # torchrun says 1.
        assert self.container.failure == "slotq-released", errors
        (self.container.ml / "output" / "failure").unlink()

    def ends(self):
        out, errors = self.process.communicate()
        assert self.process.returncode == 0, errors
        return out.splitlines()[-1]


class Gang:
    def __init__(self, folder: Path, script: str, place: str, **environment: str) -> None:
        self.running, self._folder, self._script = [], folder, script
        self.enough = folder / "enough"
        self._environment = {
            "SLOTQ_GROUP": "ring",
            "SLOTQ_ROLE": "member",
            "SLOTQ_RENDEZVOUS": place,
            "ENOUGH": str(self.enough),
            **environment,
        }

    def member(self, number):
        return Member(number, self._start, self._folder)

    def _start(self, container, **environment):
        process = container.start(self._script, **self._environment, **environment)
        self.running.append(process)
        return process


@pytest.fixture
def gang(tmp_path):
    made = []

    def make(script, place=None, **environment):
        gang = Gang(tmp_path, script, place or str(tmp_path / "meet"), **environment)
        made.append(gang)
        return gang

    yield make
    for process in [process for gang in made for process in gang.running]:
        process.kill()
        process.communicate()


def breathe(gang, processes=1):
    """2 members, 4, 1, and 4 again. Returns what all four have after the end."""
    first, second, third, fourth = members = [gang.member(number) for number in (1, 2, 3, 4)]
    for member in (first, second):
        member.start(size=2)
    generations = [{member.meets(2 * processes) for member in (first, second)}]
    for member in (third, fourth):
        member.start(size=4)
    generations.append({member.meets(4 * processes) for member in members})
    for member in (first, third, fourth):
        member.suspends()
    for member in (first, third, fourth):
        member.has_released()
    generations.append({second.meets(1 * processes)})
    for member in (first, third, fourth):
        member.start(size=4)
    generations.append({member.meets(4 * processes) for member in members})
    gang.enough.touch()
    last = [member.ends() for member in members]
    assert all(len(each) == 1 for each in generations), generations
    numbers = [min(each) for each in generations]
    assert numbers == sorted(set(numbers))
    return last


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


QUICK = "import slotq_training\nslotq_training._SILENT_SECONDS = 3.0\n"
"""Three beats of a member that waits."""


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
