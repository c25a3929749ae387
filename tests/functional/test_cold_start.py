"""Neither the event path nor the notifier imports at a cold start what only others need."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EVENT_PATH = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import app
from types import SimpleNamespace

class Table:
    "Answers every read with nothing and takes every write."
    def __getattr__(self, operation):
        return lambda **request: {"Items": [], "Responses": {}, "Count": 0, "Attributes": {}}

app.client = lambda service: Table()
app.sagemaker_client = Table
context = SimpleNamespace(aws_request_id="r", get_remaining_time_in_millis=lambda: 60_000)
for event in map(json.loads, sys.stdin):
    app.handler(event, context)
heavy = {"pydantic", "pydantic_core", "slotq_core.api", "slotq",
         "aws_lambda_powertools.event_handler", "yaml"}
light = {"slotq_core.wire.strict_json", "slotq_core.wire.pool_definition",
         "slotq_core.wire.limits_definition", "slotq_core.wire.document",
         "slotq_core.model.sharing", "slotq_core.wire.training",
         "slotq_core.wire.training.field_paths", "slotq_core.wire.training.instance_types",
         "slotq_core.wire.groups", "slotq_core.wire.groups.member_environment",
         "slotq_core.wire.resubmission", "slotq_core.wire.traits"}
print(json.dumps([name for name in sys.modules
                  if name in heavy
                  or name.startswith("slotq_core.wire.") and name not in light]))
"""


NOT_AT_FIRST = (
    "slotq_core.operations.configuring",
    "slotq_core.operations.usage.report",
    "slotq_core.operations.usage.timeline",
    "slotq_core.operations.amend",
    "slotq_core.operations.bulk",
    "slotq_core.api.documents",
    "slotq_core.api.job_changes",
    "slotq_core.api.pools_and_limits",
    "slotq_core.wire.job_changes",
    "slotq_core.wire.configuration",
    "slotq_core.wire.document",
    "slotq_core.wire.submission",
    "slotq_core.wire.training.training_request",
    "slotq_core.wire.views.about",
    "slotq_core.wire.views.pools",
    "slotq_core.wire.views.usage",
)
"""What the API imports with the first request that needs it."""


def test_the_api_imports_only_what_most_requests_need():
    code = "import slotq_core.api.routes, sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in out.stdout.split() if name in NOT_AT_FIRST] == []


def test_the_event_path_imports_neither_pydantic_nor_the_api():
    events = ("tick", "pass", "training-in-progress", "training-completed")
    assert _told_by(EVENT_PATH, "queue_manager", events, SLOTQ_POOLS="main=2@ml.p4d.24xlarge") == []


def _told_by(code: str, function: str, events: tuple[str, ...], **variables: str) -> list:
    """What the code prints after the function has handled the events, in a process of its own."""
    given = [json.loads((ROOT / "events" / f"{name}.json").read_text()) for name in events]
    out = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "functions" / function)],
        input="\n".join(map(json.dumps, given)),
        env={
            "SLOTQ_TABLE": "sagemaker-queue",
            "AWS_LAMBDA_FUNCTION_NAME": f"slotq-{function.replace('_', '-')}",
            "AWS_DEFAULT_REGION": "us-east-1",
            "POWERTOOLS_METRICS_NAMESPACE": "SlotQ",
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    found: list = json.loads(out.stdout.splitlines()[-1])
    return found


NOTIFIER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import notifier
from types import SimpleNamespace

class Table:
    "Answers every read with nothing and takes every write."
    def __getattr__(self, operation):
        return lambda **request: {"Items": [], "Responses": {}, "Count": 0, "Attributes": {}}

notifier.client = lambda service: Table()
imported = set(sys.modules)
context = SimpleNamespace(aws_request_id="r", get_remaining_time_in_millis=lambda: 60_000)
for event in map(json.loads, sys.stdin):
    notifier.handler(event, context)
print(json.dumps([sorted(imported), sorted(set(sys.modules) - imported)]))
"""
NOT_THE_NOTIFIERS = (
    *("pydantic", "pydantic_core", "yaml", "boto3", "slotq", "aws_lambda_powertools.event_handler"),
    *("slotq_core.api", "slotq_core.manager"),
    *("slotq_core.adapters.sagemaker", "slotq_core.adapters.eventbridge"),
    *("slotq_core.policy.actions", "slotq_core.policy.cycle", "slotq_core.policy.state.quotas"),
    *("slotq_core.policy.turn", "slotq_core.wire.document", "slotq_core.wire.submission"),
    "slotq_core.wire.views",
)
"""What starts jobs, decides about them or answers requests."""


def test_the_notifier_imports_nothing_that_starts_jobs_or_answers_requests():
    first, later = _told_by(NOTIFIER, "notifier", ("stream-job-started", "tick"))
    assert [name for name in later if name.startswith("slotq_core")] == []
    found = [*first, *later]
    unwanted = [
        name
        for name in found
        if any(name == each or name.startswith(f"{each}.") for each in NOT_THE_NOTIFIERS)
    ]
    assert unwanted == []
    operations = {name for name in found if name.startswith("slotq_core.operations.")}
    assert operations == {"slotq_core.operations.notices"}
