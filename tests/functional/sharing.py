"""A queue shared by two projects, and its people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import app
from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.projects import EVERYWHERE, Prescription, Project
from slotq_core.model.sharing import Sharing
from tests.functional.account import NOW, Account, add_job, sample

ROLE = "arn:aws:sts::123456789012:assumed-role"
NOBODY = "arn:aws:iam::123456789012:user/nobody"
VIEWER = f"{ROLE}/Auditor/vera"
OTHER = f"{ROLE}/Speech/otto"
"""A member of the other project."""
OWNERS = f"{ROLE}/Vision"
OWNER = f"{OWNERS}/ada"
MEMBER = "arn:aws:iam::123456789012:user/mia"
ADMIN = "arn:aws:iam::123456789012:user/leads/anna"
OPERATOR = f"{ROLE}/Operators/olga"

PEOPLE = {
    "nobody": NOBODY,
    "viewer": VIEWER,
    "other": OTHER,
    "owner": OWNER,
    "member": MEMBER,
    "admin": ADMIN,
    "operator": OPERATOR,
}
VISION = Project(
    name="vision",
    quota={EVERYWHERE: Demand(slots=1)},
    access=Access(
        viewers=("arn:aws:iam::123456789012:role/Auditor",),
        members=(f"{ROLE}/Vision/*", MEMBER),
        admins=("arn:aws:iam::*:user/leads/*",),
    ),
    requests=Prescription(max_priority=10),
)
SPEECH = Project(name="speech", access=Access(members=(f"{ROLE}/Speech",)))
SHARING = Sharing(
    projects=(VISION, SPEECH), operators=("arn:aws:iam::123456789012:role/Operators",)
)


def share(sharing: Sharing = SHARING) -> None:
    app.manager()._store.configuration.change(sharing=sharing, who="test", now=NOW)


def request(
    method: str,
    path: str,
    *,
    by: str | None,
    body: Any = None,
    query: Mapping[str, list[str]] | None = None,
) -> dict[str, Any]:
    """A request as API Gateway hands it over."""
    event = sample("list-pools")
    event |= {
        "httpMethod": method,
        "path": path,
        "resource": "/{proxy+}",
        "body": None if body is None else json.dumps(body),
        "multiValueQueryStringParameters": query,
        "queryStringParameters": None,
    }
    event["requestContext"]["identity"]["userArn"] = by
    return event


def submission(name: str, project: str | None = None, **tags: str) -> dict[str, Any]:
    """A body of POST /add-job."""
    body: dict[str, Any] = json.loads(add_job(TrainingJobName=name)["body"])
    given = {**({} if project is None else {"slotq:project": project}), **tags}
    return {**body, "Tags": [{"Key": key, "Value": value} for key, value in given.items()]}


def submit(
    account: Account, name: str, project: str | None = None, *, by: str, **tags: str
) -> tuple[int, dict[str, Any]]:
    return account.call(request("POST", "/add-job", by=by, body=submission(name, project, **tags)))


def listed(account: Account, by: str, **query: str) -> list[str]:
    """The names of the jobs that the caller is shown."""
    given = {key: [value] for key, value in query.items()}
    status, view = account.call(request("GET", "/jobs", by=by, query=given))
    assert status == 200, view
    return sorted(job["name"] for job in view["jobs"])


def amend(account: Account, name: str, *, by: str, **body: Any) -> tuple[int, dict[str, Any]]:
    return account.call(request("PATCH", f"/jobs/{name}", by=by, body=body))
