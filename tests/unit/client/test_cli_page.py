"""Every command line of the pages of `slotq`, run in order against a fake queue."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from slotq.cli.exits import ExitCode
from slotq.cli.main import COMMANDS
from slotq.configuration.settings import Config
from tests.least_request import least_request
from tests.unit.client.fake_aws import FakeLogs, FakeServices
from tests.unit.client.fake_queue import (
    ENDPOINT,
    FakeQueue,
    client_of,
    ended,
    pool_view,
    running,
    waiting,
)

DOCS = Path(__file__).parents[3] / "docs"
PAGES = "".join(
    (DOCS / f"{name}.md").read_text()
    for name in ("cli", "cli-tools", "cli-operators", "dependencies")
)
LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGES, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
ELSEWHERE = {
    "simulate": "tests/unit/simulate",
    "local": "tests/functional/local",
    "backup": "tests/functional/test_backup.py",
    "notify": "tests/unit/client/test_notify_command.py",
    "deploy": "tests/unit/client/test_cli_deploy.py",
    "demo": "tests/unit/client/test_demo.py",
    "top": "tests/unit/client/test_top.py",
    "exec": "tests/unit/client/test_relay.py, tests/e2e/test_aws_cli.py",
    "ui": "tests/functional/local/test_ui_page.py, tests/browser",
    "shell": "tests/unit/client/test_shell.py, tests/functional/local/test_shell.py",
}
"""Commands whose lines need more than a queue, with the tests that run them."""
ENDLESS = {"slotq watch", "slotq ls --watch --every 2", "slotq sweep sweep.yaml --wait"}
REQUEST = least_request("job1")


def ablations():
    return [waiting(n, name=f"ablation-{n}", project="vision") for n in (1, 2, 3)]


class QuickQueue(FakeQueue):
    """A queue in which awaited jobs have completed at the first look."""

    def taken(self, name, priority):
        if name in {"quick", "third"}:
            return ended(name=name, priority=priority)
        return super().taken(name, priority)


@pytest.fixture
def queue():
    jobs = running(), waiting(1, name="job2"), ended("failed", name="job9"), *ablations()
    queue = QuickQueue(*jobs)
    queue.requests["job9"] = REQUEST | {"TrainingJobName": "job9"}
    queue.pools = [pool_view("p5"), pool_view("main")]
    return queue


@pytest.fixture
def world(http, clock):
    config = Config(
        endpoint=ENDPOINT,
        region="eu-west-1",
        image="train:1",
        role=REQUEST["RoleArn"],
        output="s3://my-bucket/runs",
    )

    def enough():
        if clock.now > 20:
            raise KeyboardInterrupt

    clock.after_sleep = enough
    return {
        "connect": lambda _: client_of(http, clock=clock, config=config),
        "clock": clock,
        "aws": FakeServices(FakeLogs({"job1": ["step 1"]})),
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("train.py", "run-all.sh"):
        (folder / name).write_text("exit\n")
    (folder / "job.json").write_text(json.dumps(REQUEST | {"TrainingJobName": "train-7"}))
    for name in ("seed-1", "seed-2"):
        (folder / f"{name}.json").write_text(json.dumps(REQUEST | {"TrainingJobName": name}))
    (folder / "job.yaml").write_text(json.dumps(REQUEST))
    sweep = {"name": "grid", "max_parallel": 1, "template": REQUEST, "space": {"lr": [1, 2]}}
    (folder / "sweep.yaml").write_text(json.dumps(sweep))
    gang = [REQUEST | {"TrainingJobName": f"ring-{n}"} for n in (1, 2)]
    (folder / "gang.yaml").write_text(json.dumps({"name": "ring", "members": gang}))
    (folder / "contract.toml").write_text('[usd_per_hour]\n"ml.p5.48xlarge" = 40.0\n')
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("charset", ["utf-8", "ascii"])
def test_every_command_of_the_pages_runs(slotq, folder, world, queue, charset):
    """`ascii`: as in a pipe or a cron job with LANG=C."""
    ran = set()
    for line in LINES:
        words = shlex.split(line, comments=True)
        text = None
        if "<" in words:
            *words, _, name = words
            text = (folder / name).read_text()
        assert words[0] == "slotq", line
        world["clock"].now = 0.0
        command = next((word for word in words[1:] if word in COMMANDS), None)
        if command in ELSEWHERE:
            continue
        result = slotq(*words[1:], world=world, input=text, charset=charset)
        expected = ExitCode.INTERRUPTED if line in ENDLESS else ExitCode.OK
        assert result.exit_code == expected, f"{line}: {result.output}{result.exception!r}"
        assert result.output, line
        ran.add(command)
    assert ran >= set(COMMANDS) - set(ELSEWHERE)
    assert queue.jobs["job1"].state == "stopping"
    assert {"job9-r2", "once-more", "job10", "job-2-r2", "first"} <= set(queue.jobs)
    for name in ("job2", "ablation-1", "ablation-2", "ablation-3"):
        assert queue.jobs[name].state == "cancelled"


def test_the_page_lists_every_column():
    from slotq.output.columns import COLUMNS

    (said,) = re.findall(r"`--columns` are of (.*?);", PAGES, re.DOTALL)
    assert re.split(r",\s+|\s+and\s+", said) == list(COLUMNS)


def test_the_page_lists_every_check_of_the_doctor():
    from slotq.checkup import CHECKS

    part = PAGES.partition("## doctor")[2].partition("## ")[0]
    assert re.findall(r"^\| (\w+) \|", part, re.MULTILINE)[1:] == list(CHECKS)
