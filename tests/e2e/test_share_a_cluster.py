"""docs/share-a-cluster.md, command by command, by the people that it names."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotq.cli.exits import Exit
from slotq.demo.world import emulator
from tests.e2e.test_people import Person
from tests.e2e.waiting import until

PAGE = (Path(__file__).parents[2] / "docs" / "share-a-cluster.md").read_text()


@pytest.fixture(scope="module", autouse=True)
def _aws() -> Iterator[None]:
    with emulator("main=2"):
        yield


def block(kind: str) -> str:
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def steps() -> Iterator[tuple[str, list[str]]]:
    """Who enters which command."""
    for text in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        first, *commands = text.splitlines()
        for command in commands:
            yield first.removeprefix("# as "), shlex.split(command)[1:]


def state(name: str) -> str:
    """As its team sees it: nobody else does."""
    team = "Speech" if name == "words" else "Vision"
    shown = Person(team, "session").slotq("show", name, "--json")
    return str(json.loads(shown.stdout)["state"])


def is_there(name: str, wanted: str) -> None:
    until(lambda: state(name) == wanted, f"{name} is {wanted}")


def test_two_teams_share_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("queue.yaml").write_text(block("yaml"))
    Path("job.json").write_text(block("json"))
    said: dict[str, str] = {}
    for who, words in steps():
        done = Person(who, "session").slotq(*words)
        differs = words[:2] == ["config", "diff"]
        assert done.exit_code == (Exit.NO if differs else Exit.OK), done.output
        said[" ".join(words)] = done.output
        match words:
            case ["submit", *_, ("cats" | "dogs")]:
                is_there(words[-1], "running")
            case ["submit", *_, "words"]:
                is_there("words", "running")
                is_there("dogs", "preempted")
    shown = [line.split() for line in said["projects"].splitlines()]
    wanted = [line.split() for line in PAGE.splitlines() if line.startswith("    ")]
    assert [line for line in wanted if line[0] in {"PROJECT", "vision", "speech"}] == shown[:3]
    assert "evicted for words" in said["show dogs"]
    is_there("dogs", "running")
    assert state("cats") == "running"
    for name in ("cats", "dogs"):
        assert Person("Vision", "session").slotq("cancel", name).exit_code == Exit.OK
