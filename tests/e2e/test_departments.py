"""Two departments, four projects and six people share four slots, with the SageMaker SDK v2 itself:
over-quota use, fair shares 3:1, reclaim, and jobs that go on from their checkpoints.

The training script trains until the test creates a file, so that nothing depends on the machine's
speed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sagemaker.estimator", reason="the sagemaker2 extra is not installed")

from sagemaker.estimator import Estimator

from slotq import QueueTrainingJobSession
from slotq.cli.exits import ExitCode
from slotq.demo.play import quiet
from slotq.demo.proof import Evidence
from slotq_core.wire.views.jobs import JobView
from tests.e2e.test_people import Person
from tests.e2e.waiting import in_background, until
from tests.emulators import emulator

RESEARCH, PRODUCT = "AWSReservedSSO_Research_0a1b2c3d", "AWSReservedSSO_Product_4e5f6071"
QUEUE = f"""
pools:
  - {{name: main, capacity: 4, instance_type: ml.m5.large}}
departments:
  - {{name: research, quota: 4}}
  - {{name: product, quota: 0, weight: 1}}
projects:
  - name: vision
    department: research
    quota: 3
    members: ["arn:aws:sts::123456789012:assumed-role/{RESEARCH}/ada",
              "arn:aws:sts::123456789012:assumed-role/{RESEARCH}/bob"]
  - name: speech
    department: research
    quota: 1
    members: ["arn:aws:sts::123456789012:assumed-role/{RESEARCH}/cyd"]
  - name: search
    department: product
    weight: 3
    members: ["arn:aws:sts::123456789012:assumed-role/{PRODUCT}/dan",
              "arn:aws:sts::123456789012:assumed-role/{PRODUCT}/eve"]
  - name: ads
    department: product
    weight: 1
    members: ["arn:aws:sts::123456789012:assumed-role/{PRODUCT}/fay"]
operators: ["arn:aws:iam::123456789012:role/Operator"]
"""
PEOPLE = dict.fromkeys(("ada", "bob", "cyd"), RESEARCH) | dict.fromkeys(
    ("dan", "eve", "fay"), PRODUCT
)


class Cluster:
    """The people at work on one emulator. A job is named after who submits it."""

    def __init__(self, bucket: str, folder: Path) -> None:
        self._bucket, self._folder = bucket, folder
        self.operator = Person("Operator", "ci")
        self.said: dict[str, list[str]] = {name: [] for name in PEOPLE}
        self._sessions = {
            name: QueueTrainingJobSession(
                Person(role, name).boto(), say=self.said[name].append, poll=0.5
            )
            for name, role in PEOPLE.items()
        }
        self._queue = QueueTrainingJobSession(self.operator.boto()).queue
        self.evidence = Evidence("", bucket)

    def configure(self) -> None:
        file = self._folder / "queue.yaml"
        file.write_text(QUEUE)
        applied = self.operator.slotq("config", "apply", str(file))
        assert applied.exit_code == ExitCode.OK, applied.output

    def fit(self, job: str, *, wait: bool = False) -> None:
        """Let the person before the `-` train, until that department is told to finish."""
        who = _who(job)
        estimator = Estimator(
            image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1",
            role="arn:aws:iam::123456789012:role/trainer",
            instance_count=1,
            instance_type="ml.m5.large",
            source_dir=str(Path(__file__).parent / "story"),
            entry_point="train.py",
            hyperparameters={"until": str(self._finish(PEOPLE[who]))},
            checkpoint_s3_uri=f"s3://{self._bucket}/{job}/checkpoints",
            output_path=f"s3://{self._bucket}/models",
            sagemaker_session=self._sessions[who],
        )
        estimator.fit(job_name=job, wait=wait)

    def finish(self, department: str) -> None:
        self._finish(department).touch()

    def _finish(self, department: str) -> Path:
        return self._folder / f"{department}-may-finish"

    def job(self, name: str) -> JobView:
        return self._queue.jobs.view(name)

    def among(self, state: str) -> set[str]:
        """The names of the jobs in this state."""
        return {job.name for job in self._queue.jobs(state)}

    def run(self, amounts: Mapping[str, int]) -> None:
        """Wait until so many jobs of each project run, and no others, and have saved a
        checkpoint."""

        def reached() -> bool:
            return Counter(job.project for job in self._queue.jobs("running")) == amounts

        until(reached, f"{amounts} run")
        for name in self.among("running"):
            self.saves_again(name)

    def saves_again(self, name: str) -> None:
        before = self.step(name)
        until(lambda: self.step(name) > before, f"{name} saves a checkpoint")

    def step(self, name: str) -> int:
        """The step in a job's checkpoint. 0: it has none."""
        return self.evidence.checkpoint(name) or 0

    def began_at(self, name: str) -> list[int]:
        """The step at which each attempt began, by its own log."""
        attempts = self.job(name).attempts
        return [self.evidence.resumed_from(one.training_job) or 0 for one in attempts]

    def steps_of_model(self, name: str) -> float:
        weights = self.evidence.model(self.job(name).attempts[-1].artifact)
        assert weights is not None
        return weights[0]

    def usage_while_all_save(self) -> dict[str, float]:
        """The slot-hours of each project while every job that runs saves another checkpoint."""
        running, begin = self.among("running"), datetime.now(UTC)
        for name in running:
            self.saves_again(name)
        used = self.usage("--from", begin.isoformat(), "--to", datetime.now(UTC).isoformat())
        assert self.among("running") == running
        return {project: line["slot_hours"] for project, line in used.items()}

    def usage(self, *window: str) -> dict[str, dict[str, Any]]:
        """What `slotq usage --by project` tells, by project."""
        told = self.operator.slotq("usage", "--by", "project", *window, "--json")
        assert told.exit_code == ExitCode.OK, told.output
        return {line["group"]["project"]: line for line in json.loads(told.stdout)["lines"]}

    def standing(self, project: str) -> dict[str, int]:
        """What `slotq projects show` tells of a project's slots."""
        told = self.operator.slotq("projects", "show", project, "--json")
        assert told.exit_code == ExitCode.OK, told.output
        (slots,) = json.loads(told.stdout)["standings"]
        return {name: slots[name] for name in ("quota", "share", "held", "over_quota")}


def _who(job: str) -> str:
    return job.partition("-")[0]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with emulator("main=4") as endpoint, quiet():
        yield Cluster(endpoint.bucket, tmp_path_factory.mktemp("cluster"))


def test_departments_share_a_cluster(cluster: Cluster) -> None:
    cluster.configure()

    # Nobody else is there, so search takes all slots, without any quota.
    dans = in_background(lambda: cluster.fit("dan-1", wait=True))
    until(lambda: cluster.among("running"), "dan-1 runs")
    for job in ("dan-2", "eve-1", "eve-2"):
        cluster.fit(job)
    cluster.run({"search": 4})
    assert cluster.standing("search") == {"quota": 0, "share": 4, "held": 4, "over_quota": 4}

    # Ads has a third of search's weight: it reclaims one slot, and its second job waits.
    cluster.fit("fay-1")
    cluster.fit("fay-2")
    cluster.run({"search": 3, "ads": 1})
    (given_up,) = cluster.among("preempted")
    assert cluster.job(given_up).attempts[-1].stopped_for == "fay-1"
    assert cluster.among("pending") == {"fay-2"}
    used = cluster.usage_while_all_save()
    assert used["search"] == pytest.approx(3 * used["ads"])

    # The research department deserves all four slots, and takes them back.
    for job in ("ada-1", "ada-2", "bob-1", "bob-2"):
        cluster.fit(job)
    cluster.run({"vision": 4})
    lent = cluster.among("preempted")
    assert lent == {"dan-1", "dan-2", "eve-1", "eve-2", "fay-1"}
    saved = {name: cluster.step(name) for name in lent}
    assert all(saved.values())

    # Within the department, vision has speech's slot until speech asks for it.
    cluster.fit("cyd-1")
    cluster.fit("cyd-2")
    cluster.run({"vision": 3, "speech": 1})
    lent |= (mine := cluster.among("preempted") - lent)
    saved |= {name: cluster.step(name) for name in mine}
    assert {cluster.job(name).project for name in mine} == {"vision"}
    used = cluster.usage_while_all_save()
    assert used.keys() == {"vision", "speech"}
    assert used["vision"] == pytest.approx(3 * used["speech"])

    # When research is done, product has the slots again, three to one, and trains on.
    cluster.finish(RESEARCH)
    cluster.run({"search": 3, "ads": 1})
    cluster.finish(PRODUCT)
    names = {f"{who}-{number}" for who in PEOPLE for number in (1, 2)}
    until(lambda: cluster.among("completed") == names, "all jobs complete")
    assert dans() is None
    for name in names:
        assert cluster.began_at(name) == ([0, saved[name]] if name in lent else [0]), name
        assert cluster.steps_of_model(name) >= saved.get(name, 0), name
    told = "\n".join(cluster.said["dan"])
    assert f"goes on from step {saved['dan-1']}" in told
    assert "dan-1: completed after 2 attempts, evicted 1 time" in told

    every = cluster.usage()
    given = {name: line["evictions_given"] for name, line in every.items()}
    taken = {name: line["evictions_taken"] for name, line in every.items()}
    assert given == {"search": 4, "ads": 1, "vision": 1, "speech": 0}
    assert taken == {"search": 0, "ads": 1, "vision": 4, "speech": 1}
    assert sum(line["jobs"] for line in every.values()) == 12
    people = cluster.operator.slotq("usage", "--by", "project,submitter", "--csv").stdout
    assert [len(re.findall(rf"/{name},", people)) for name in PEOPLE] == [1] * 6
