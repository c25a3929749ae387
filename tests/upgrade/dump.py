"""A queue in the middle of its work, as the version that this runs with has written it.

    python -m tests.upgrade.dump                this version's, into tests/upgrade/tables/
    python tests/upgrade/dump.py FILE           that of the checkout that PYTHONPATH names

Each release adds its own (`make table-dump`), once; what is there is never written anew, for it is
what a team has in its table. The first ones were made from the repository's history, each in a
worktree of its own:

    git worktree add --detach OLD COMMIT
    PYTHONPATH=OLD/layers/core/python:OLD/client_sdk/src:OLD/functions/queue_manager:OLD \
        python tests/upgrade/dump.py tests/upgrade/tables/DATE-COMMIT.json

So this file leans on nothing but what all of these have: the handler, the samples in events/, and
`tests.functional.account`. Times are of the account's own clock.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from slotq_core import names

POOLS = (
    "main=2@ml.p4d.24xlarge,small=1@ml.g5.2xlarge;reserve_after=600,spare=4@ml.g5.xlarge,"
    "scarce=1@ml.p5.48xlarge,grids=1@ml.c5.xlarge"
)
MINUTE = 60_000
TOKEN = "a-token-of-a-state-machine"
SETTINGS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_LAMBDA_FUNCTION_NAME": "slotq-queue-manager",
    "SLOTQ_DEAD_LETTERS": "https://sqs.us-east-1.amazonaws.com/123456789012/dead-letters",
    "POWERTOOLS_TRACE_DISABLED": "1",
    "POWERTOOLS_METRICS_DISABLED": "1",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    "SLOTQ_TABLE": "sagemaker-queue",
    "SLOTQ_CALLBACKS": "task",
}


class Recorder:
    """SageMaker as the queue calls it: what was asked for, when; `deaf`: its answer is lost."""

    def __init__(self, client: Any, clock: Any) -> None:
        self._client, self._clock = client, clock
        self.calls: list[dict[str, Any]] = []
        self.deaf = False

    def __getattr__(self, operation: str) -> Any:
        ask = getattr(self._client, operation)
        return lambda **request: self._asked(operation, ask, request)

    def _asked(self, operation: str, ask: Any, request: dict[str, Any]) -> Any:
        answer = ask(**request)
        if operation in {"create_training_job", "stop_training_job"}:
            self.note(operation, request)
            if self.deaf:
                raise ConnectionError
        return answer

    def note(self, operation: str, request: dict[str, Any]) -> None:
        self.calls.append({"at": self._clock.now(), "call": operation, "request": request})


class Story:
    """What happens in the queue before it is updated."""

    def __init__(self, account: Any, recorder: Recorder, module: Any) -> None:
        self.its, self.recorder, self._module = account, recorder, module

    def has(self, sample: str) -> bool:
        """Whether this version knows that request."""
        return bool((self._module.EVENTS / f"{sample}.json").exists())

    def later(self, minutes: int = 1) -> None:
        self.its.clock.set(self.its.clock.now() + minutes * MINUTE)

    def submit(self, name: str, priority: int, *, slots: int = 1, **tags: str) -> None:
        status, _ = self.its.call(self._module.add_job(**body_of(name, priority, slots, tags)))
        assert status == 202, (name, status)

    def wait_for(self, name: str, priority: int, **tags: str) -> None:
        """A state machine waits for a job that is there already."""
        body = body_of(name, priority, 1, tags)
        event = self._module.add_job(**body, **{"slotq:callback": {"task_token": TOKEN}})
        status, said = self.its.call(event)
        assert status == 202, said

    def sweep(self, name: str, *members: str) -> None:
        """One of them runs, and the others wait for it."""
        jobs = [
            json.loads(self._module.add_job(**body_of(each, 1, 1, {"pools": "grids"}))["body"])
            for each in members
        ]
        event = self._module.sample("submit-group")
        event["body"] = json.dumps({"name": name, "max_parallel": 1, "members": jobs})
        status, said = self.its.call(event)
        assert status == 202, said
        self.its.settle()

    def runs(self, name: str, priority: int, **tags: str) -> None:
        self.submit(name, priority, **tags)
        self.its.settle()
        self.later()

    def ask(self, sample: str, path: str, body: dict[str, Any] | None = None) -> None:
        event = {**self._module.sample(sample), "path": path}
        if body is not None:
            event["body"] = json.dumps(body)
        status, said = self.its.call(event)
        assert status in {200, 202}, said
        self.its.settle()

    def ends(self, name: str, sample: str, reason: str = "") -> None:
        """As SageMaker tells it."""
        event = self._module.sample(sample)
        detail = event["detail"]
        for field in ("Tags", "HyperParameters", "InputDataConfig"):
            detail.pop(field, None)
        detail["TrainingJobName"] = name
        detail["FailureReason"] = reason or detail.get("FailureReason")
        self.its.plane.job(name).status = detail["TrainingJobStatus"]
        self.recorder.note("ended", {"name": name, "status": detail["TrainingJobStatus"]})
        self.its.send(event)
        self.its.settle()

    def passes(self) -> None:
        """Those that were asked for, and no news of what they started and stopped."""
        while self.its.lambda_.events:
            self.its.send(self.its.lambda_.events.pop(0))

    def run(self) -> None:
        self.past()
        self.present()
        self.in_flight()

    def past(self) -> None:
        """What has ended, and what an operator has changed."""
        self.runs("completed", 1, pools="main")
        self.ends("completed", "training-completed")
        self.runs("failed", 1, pools="main")
        self.ends("failed", "training-failed")
        self.submit("cancelled", 1, pools="main")
        self.ask("cancel-job", "/jobs/cancelled")
        if self.has("set-pool"):
            self.ask("set-pool", "/pools/spare", {"slots": 5})

    def present(self) -> None:
        """In `main` the evicted one waits behind those that run; others wait for two slots, or
        until they are released; in `spare` is one of somebody else's, in `grids` a sweep."""
        self.runs("evicted", 1, pools="main")
        self.runs("running", 5, pools="main")
        if hasattr(names, "CALLBACK"):
            self.wait_for("running", 5, pools="main")
        self.runs("urgent", 9, pools="main")
        self.runs("faulty", 3, pools="spare")
        self.submit("two-slots", 2, slots=2, pools="main")
        for name, priority in (("low", 0), ("older", 4), ("younger", 4)):
            self.later()
            self.submit(name, priority, pools="main")
        if self.has("amend-job"):
            self.submit("held", 8, pools="main")
            self.ask("amend-job", "/jobs/held", {"held": True})
        if self.has("submit-group"):
            self.sweep("grid", "grid-1", "grid-2")
        self.recorder.create_training_job(**somebody_elses())
        self.its.settle()
        self.later(10)
        self.its.send("tick")
        self.its.settle()
        self.later()

    def in_flight(self) -> None:
        """What the update comes between: back-offs, a cancel, an eviction that is sent, a start of
        which no event has told yet, and one of which not even SageMaker's answer has arrived."""
        self.runs("giving-way", 1, pools="small")
        self.runs("no-capacity", 1, pools="scarce")
        self.ends("faulty", "training-failed", "InternalServerError: We encountered an error")
        self.ends("no-capacity", "training-failed-capacity")
        self.submit("withdrawn", 1, pools="main")
        self.ask("cancel-job", "/jobs/withdrawn")
        self.submit("claims", 7, pools="small,main")
        self.submit("starting", 3, pools="spare")
        self.passes()
        self.recorder.deaf = True
        self.submit("unanswered", 3, pools="spare")
        self.passes()
        self.recorder.deaf = False


def body_of(name: str, priority: int, slots: int, tags: dict[str, str]) -> dict[str, Any]:
    """What differs from the sample of a submission. `tags`: by their name behind `slotq:`."""
    settings = {"priority": str(priority)} | {f"slotq:{key}": its for key, its in tags.items()}
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "ResourceConfig": {
            "InstanceType": "ml.p4d.24xlarge", "InstanceCount": slots, "VolumeSizeInGB": 100
        },
        "HyperParameters": {"epochs": "3"},
        "InputDataConfig": None,
        "Tags": [{"Key": key, "Value": value} for key, value in settings.items()],
    }  # fmt: skip


def somebody_elses() -> dict[str, Any]:
    """A training job beside the queue, on the instances of `spare`."""
    return {
        "TrainingJobName": "somebody-elses",
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/SageMakerTraining",
        "OutputDataConfig": {"S3OutputPath": "s3://sagemaker-us-east-1-123456789012/"},
        "ResourceConfig": {
            "InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 100
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 86_400},
    }  # fmt: skip


IDENTITY = {
    "AWS::DynamoDB::Table": (
        "TableName", "KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes",
        "LocalSecondaryIndexes",
    ),
    "AWS::IAM::Role": ("RoleName", "Path"),
    "AWS::Logs::LogGroup": ("LogGroupName",),
    "AWS::SNS::Topic": ("TopicName", "FifoTopic"),
    "AWS::SQS::Queue": ("QueueName", "FifoQueue"),
    "AWS::SSM::Parameter": ("Name", "Type"),
    "AWS::Serverless::Api": ("StageName",),
    "AWS::Serverless::Function": ("FunctionName",),
}  # fmt: skip
"""What others know by its address or what holds something; and the properties of each that
CloudFormation cannot change without another in its place."""


def deployed(root: Path) -> dict[str, Any]:
    """What a stack of this template has, and was told by whoever deployed it."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads CloudFormation's short forms as {name: value}."""

    def short_form(loader: Any, name: str, node: Any) -> dict[str, Any]:
        plain = isinstance(node, yaml.ScalarNode)
        return {name: (loader.construct_scalar if plain else loader.construct_sequence)(node)}

    Loader.add_multi_constructor("!", short_form)
    template = yaml.load((root / "template.yaml").read_text(), Loader)
    config = tomllib.loads((root / "samconfig.toml").read_text())
    environments = {name: its for name, its in config.items() if name != "version"}
    told = {name: its.get("deploy", {}).get("parameters") for name, its in environments.items()}
    return {
        "parameters": {
            name: {key: its[key] for key in ("Type", "Default") if key in its}
            for name, its in template["Parameters"].items()
        },
        "resources": {
            name: {"Type": its["Type"], **_identity(its)}
            for name, its in template["Resources"].items()
            if its["Type"] in IDENTITY
        },
        "outputs": sorted(template["Outputs"]),
        "samconfig": {
            name: its["parameter_overrides"]
            for name, its in told.items()
            if its and "parameter_overrides" in its
        },
    }


def _identity(resource: dict[str, Any]) -> dict[str, Any]:
    properties = resource.get("Properties", {})
    return {key: properties[key] for key in IDENTITY[resource["Type"]] if key in properties}


def dump() -> dict[str, Any]:
    """The table as it is at last; SageMaker as the queue has made it; the news on its way."""
    os.environ.update(SETTINGS)
    import app
    from slotq.local.services.training_service import PlaneClient
    from tests.functional import account

    its = account.Account()
    counts = (account.EVENTS / "list-pools.json").exists()
    pools = POOLS.replace("g5.xlarge", "g5.xlarge;count_foreign=true") if counts else POOLS
    os.environ["SLOTQ_POOLS"] = pools
    recorder = Recorder(PlaneClient(its.plane), its.clock)
    account.forget()
    parts = {"client": its.client, "clock": its.clock, "sagemaker_client": lambda: recorder}
    for name, part in parts.items():
        setattr(app, name, part)
    story = Story(its, recorder, account)
    story.run()
    its.plane.advance()
    table = its.dynamodb.describe_table(TableName=account.TABLE)["Table"]
    states = story.its.call("list-jobs")[1]["jobs"]
    return {
        "stack": deployed(Path(account.__file__).parents[2]),
        "pools": pools,
        "now": its.clock.now(),
        "states": {job["name"]: job["state"] for job in states},
        "keys": {key: table[key] for key in ("KeySchema", "AttributeDefinitions")},
        "indexes": [
            {key: index[key] for key in ("IndexName", "KeySchema", "Projection")}
            for index in table["GlobalSecondaryIndexes"]
        ],
        "items": _sorted(its.items()),
        "sagemaker": recorder.calls,
        "news": its.emitted,
    }


def _sorted(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(items, key=lambda item: (item["pk"]["S"], item["sk"]["S"]))


def as_text(dumped: dict[str, Any]) -> str:
    """One item a line; bytes in base64 under their type, as in the backup's files."""

    def coded(value: object) -> str:
        assert isinstance(value, bytes)
        return base64.b64encode(value).decode()

    def line(value: object) -> str:
        return json.dumps(value, default=coded, sort_keys=True)

    parts = []
    for key, value in dumped.items():
        if isinstance(value, list):
            rows = ",\n  ".join(map(line, value))
            parts.append(f'"{key}": [\n  {rows}\n ]')
        else:
            parts.append(f'"{key}": {line(value)}')
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def main(words: list[str]) -> None:
    if words:
        path = Path(words[0])
    else:
        from slotq_core import __version__

        path = Path(__file__).with_name("tables") / f"{__version__}.json"
    if path.exists():
        raise SystemExit(f"{path.name} is there already: what a version wrote stays as it was")
    text = as_text(dump())
    path.write_text(text)
    print(f"{path}: {text.count(chr(10))} lines")


if __name__ == "__main__":
    main(sys.argv[1:])
