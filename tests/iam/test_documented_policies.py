"""The policies in docs/permissions.md and docs/network.md admit exactly the principals that they
name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from slotq.remote_shell.ssm_session import PORT_DOCUMENT
from slotq_core.api.routes import METHODS
from tests.iam.evaluator import Verdict, call, judge

DOCS = Path(__file__).parents[2] / "docs"
API = "arn:aws:execute-api:eu-west-1:123456789012:a1b2c3d4e5/prod"
TABLE = "arn:aws:dynamodb:eu-west-1:123456789012:table/sagemaker-queue"
CALLS = {
    f"{method} {path}": f"{API}/{method}{re.sub('<[a-z]+>', 'job1', path)}"
    for path, methods in METHODS.items()
    for method in methods
}
LOOKS = {
    "GET /jobs",
    "GET /jobs/<name>",
    "GET /groups",
    "GET /groups/<name>",
    "GET /pools",
    "GET /nodes",
    "GET /projects",
    "GET /quota",
    "GET /configuration",
    "GET /changes",
    "GET /version",
    "GET /me",
    "GET /limits",
    "GET /usage",
    "GET /attempts",
    "GET /scenario",
}
SUBMITS = LOOKS | {
    "POST /add-job",
    "POST /jobs",
    "POST /groups",
    "DELETE /jobs/<name>",
    "PATCH /jobs",
    "PATCH /jobs/<name>",
    "GET /jobs/<name>/request",
}
MAY = {
    "Who looks": LOOKS,
    "Who submits": SUBMITS,
    "Who operates": set(CALLS),
    "What a node's role may": {"POST /nodes/<pool>/<name>/report"},
}


def statements(page: str, heading: str) -> list[dict[str, Any]]:
    text = (DOCS / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    found: list[dict[str, Any]] = json.loads(block)["Statement"]
    return found


@pytest.mark.parametrize("who", MAY)
def test_each_principal_has_the_documented_rights(who: str):
    granted = statements("permissions.md", who)
    allowed = {
        name
        for name, arn in CALLS.items()
        if judge(granted, call("execute-api:Invoke", arn)) is Verdict.ALLOWED
    }
    assert allowed == MAY[who]


@pytest.mark.parametrize("who", MAY)
def test_nobody_may_call_another_api_or_the_function(who: str):
    granted = statements("permissions.md", who)
    other = API.replace("a1b2c3d4e5", "f6g7h8i9j0") + "/GET/jobs"
    function = "arn:aws:lambda:eu-west-1:123456789012:function:slotq-queue-manager"
    for asked in (
        call("execute-api:Invoke", other),
        call("lambda:InvokeFunction", function),
        call("iam:PassRole", "arn:aws:iam::123456789012:role/trainer"),
        call("sagemaker:CreateTrainingJob", "arn:aws:sagemaker:eu-west-1:123456789012:x/y"),
        call("dynamodb:DeleteTable", TABLE),
    ):
        assert judge(granted, asked) is Verdict.DENIED


def test_operators_may_do_what_a_backup_needs():
    """And nobody else may."""
    for who in MAY:
        granted = statements("permissions.md", who)
        for action in ("BatchWriteItem", "DescribeTable", "GetItem", "Scan"):
            for table in (TABLE, f"{TABLE}-restored"):
                verdict = judge(granted, call(f"dynamodb:{action}", table))
                assert (verdict is Verdict.ALLOWED) == (who == "Who operates")


SSM = "arn:aws:ssm:eu-west-1:123456789012"
JOB = "arn:aws:sagemaker:eu-west-1:123456789012:training-job"


@pytest.mark.parametrize(
    ("action", "resource", "target", "verdict"),
    [
        ("StartSession", f"{JOB}/vision-1", "vision-1_algo-1", Verdict.ALLOWED),
        ("StartSession", f"{JOB}/x", "vision-1-qstamp-2-abcdef_algo-2", Verdict.ALLOWED),
        ("TerminateSession", f"{SSM}:session/ada-1", "vision-1_algo-1", Verdict.ALLOWED),
        ("StartSession", f"{JOB}/speech-1", "speech-1_algo-1", Verdict.DENIED),
        ("SendCommand", f"{JOB}/vision-1", "vision-1_algo-1", Verdict.DENIED),
        ("StartSession", "arn:aws:ec2:eu-west-1:123456789012:instance/i-0a", "", Verdict.DENIED),
        ("StartSession", f"{SSM}:document/SSM-SessionManagerRunShell", "", Verdict.ALLOWED),
        ("StartSession", f"arn:aws:ssm:eu-west-1::document/{PORT_DOCUMENT}", "", Verdict.ALLOWED),
        (
            "StartSession",
            f"arn:aws:ssm:eu-west-1::document/{PORT_DOCUMENT}ToRemoteHost",
            "",
            Verdict.DENIED,
        ),
    ],
)
def test_shells_open_in_the_teams_training_jobs_by_two_documents(action, resource, target, verdict):
    key = "ssm:resourceTag/aws:ssmmessages:target-id"
    context = {key: f"sagemaker-training-job:{target}"} if target else {}
    granted = statements("permissions.md", "Who opens shells")
    assert judge(granted, call(f"ssm:{action}", resource, context)) is verdict


@pytest.mark.parametrize(
    ("account", "api", "verdict"),
    [
        ("123456789012", API, Verdict.ALLOWED),
        ("210987654321", API, Verdict.DENIED),
        ("123456789012", API.replace("a1b2c3d4e5", "f6g7h8i9j0"), Verdict.DENIED),
    ],
)
def test_the_endpoint_policy_admits_one_account_to_one_queue(account, api, verdict):
    (statement,) = statements("network.md", "The endpoint's own policy")
    assert statement.pop("Principal") == "*"
    asked = call("execute-api:Invoke", f"{api}/GET/jobs", {"aws:PrincipalAccount": account})
    assert judge([statement], asked) is verdict
