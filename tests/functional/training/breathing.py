"""An elastic gang of real processes: its members start, are asked to suspend, and come back."""

from __future__ import annotations

import re
from pathlib import Path

from tests.functional.training.processes import ROOT, Container

PAGE = (ROOT / "docs" / "elastic-scripts.md").read_text()
PLAIN, TORCH = re.findall(r"^```python\n([^`]*slotq\.world\([^`]*)^```", PAGE, re.MULTILINE)
PACE = "os.path.exists(os.environ['ENOUGH']) or time.sleep(0.3)"
"""Slow until the story is over, however long it takes."""
QUICK = "import slotq_training\nslotq_training._SILENT_SECONDS = 3.0\n"
"""A member counts as gone after three seconds."""
STEPS, SHARDS = 400, 24


def slowly(script: str, work: str) -> str:
    assert work in script
    return script.replace(work, work.replace("time.sleep(0.01)", PACE))


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
    def __init__(
        self, folder: Path, script: str, place: str, python: str | Path, environment: dict[str, str]
    ) -> None:
        self.running, self._folder, self._script, self._python = [], folder, script, python
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
        process = container.start(
            self._script, python=self._python, **self._environment, **environment
        )
        self.running.append(process)
        return process


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
