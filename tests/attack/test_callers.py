"""The caller is the identity that API Gateway has verified, whatever the request claims."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.account import Account, sample

SIGNER = "arn:aws:sts::123456789012:assumed-role/DataScientist/ada"
FORGED = "arn:aws:sts::123456789012:assumed-role/Admin/mallory"
NAMES = (
    *("userArn", "user-arn", "X-User-Arn", "caller", "X-Caller", "X-Amzn-Caller", "X-Amz-User"),
    *("submitter", "principal", "Authorization", "From", "X-Forwarded-User", "user", "identity"),
)


class Claims(dict[str, Any]):
    """Claims with another caller, whatever key is read."""

    def __init__(self, answer: Any) -> None:
        super().__init__(dict.fromkeys(NAMES, answer))
        self._answer = answer

    def __missing__(self, _: str) -> Any:
        return self._answer

    def __contains__(self, _: object) -> bool:
        return True

    def get(self, _: str, __: Any = None) -> Any:
        return self._answer

    def __deepcopy__(self, _: Any) -> Claims:
        return self


def forged(name: str, *, signer: str | None = SIGNER, query: bool = False) -> dict[str, Any]:
    """The sample, in which all that a caller can write says FORGED, and all of the signature's
    identity that API Gateway does not fill in for IAM."""
    event = sample(name)
    event |= {"headers": Claims(FORGED), "multiValueHeaders": Claims([FORGED])}
    if query:  # A route with a query refuses unknown keys.
        event["queryStringParameters"] = dict.fromkeys(NAMES, FORGED)
        event["multiValueQueryStringParameters"] = {key: [FORGED] for key in NAMES}
    identity = dict.fromkeys(("user", "caller", "apiKey", "userAgent", "accessKey"), FORGED)
    event["requestContext"]["identity"] = {**identity, "userArn": signer}
    event["requestContext"] |= {"authorizer": Claims(FORGED), "stage": FORGED}
    return event


def test_the_submitter_is_the_signer(account: Account):
    event = forged("add-job")
    event["body"] = json.dumps({**json.loads(event["body"]), **dict.fromkeys(NAMES, FORGED)})
    status, job = account.call(event)
    assert (status, job["submitter"]) == (202, SIGNER)


def test_the_submitter_of_a_batch_is_the_signer_whatever_its_jobs_say(account: Account):
    event = forged("submit-jobs")
    jobs = json.loads(event["body"])["jobs"]
    event["body"] = json.dumps(
        {
            **json.loads(event["body"]),
            "jobs": [{**job, **dict.fromkeys(NAMES, FORGED)} for job in jobs],
        }
    )
    outcomes = account.call(event)[1]["outcomes"]
    assert {outcome["job"]["submitter"] for outcome in outcomes} == {SIGNER}


@pytest.mark.parametrize(
    "name", ["add-job", "submit-jobs", "amend-job", "cancel-job", "change-jobs", "set-pool"]
)
def test_a_change_with_a_forged_query_is_refused(account: Account, name: str):
    assert account.call(forged(name, query=True))[0] == 400


def test_version_shows_the_signer(account: Account):
    assert account.call(forged("get-version", query=True))[1]["caller"] == SIGNER


def test_the_person_is_the_signer(account: Account):
    me = account.call(forged("get-me", query=True))[1]
    assert (me["caller"], me["person"]) == (SIGNER, SIGNER.removesuffix("/ada"))
    assert "mallory" not in str(me)


def test_cancels_and_holds_are_by_the_signer(account: Account):
    account.call("add-job")
    event = {**forged("amend-job"), "body": json.dumps({"held": True})}
    assert SIGNER in account.call(event)[1]["message"]
    assert SIGNER in account.call(forged("cancel-job"))[1]["message"]


def test_changes_of_pools_are_by_the_signer(account: Account):
    account.call(forged("set-pool"))
    (change, *_) = account.call("list-changes")[1]["changes"]
    assert change["who"] == SIGNER


def test_a_request_is_withheld_from_other_signers(account: Account):
    """FORGED has submitted the job."""
    event = sample("add-job")
    event["requestContext"]["identity"]["userArn"] = FORGED
    account.call(event)
    assert account.call(forged("get-request", query=True))[1]["withheld"]


def test_who_retries(account: Account):
    """FORGED has submitted it, and may read it; whoever signs as another may not run it."""
    for name in ("add-job", "cancel-job"):
        event = sample(name)
        event["requestContext"]["identity"]["userArn"] = FORGED
        account.call(event)
    event = forged("change-jobs")
    event["body"] = json.dumps({"changes": [{"name": "job1", "retry": True}]})
    (outcome,) = account.call(event)[1]["outcomes"]
    assert (outcome["job"], outcome["error"]["code"]) == (None, "request_withheld")
    event["requestContext"]["identity"]["userArn"] = FORGED
    (outcome,) = account.call(event)[1]["outcomes"]
    assert outcome["job"]["submitter"] == FORGED


NAMING = (
    *("add-job", "amend-job", "cancel-job", "change-jobs", "get-request", "set-pool"),
    *("remove-pool", "get-version", "get-me", "mend", "apply-configuration", "submit-jobs"),
    *("set-project", "remove-project"),
)
"""The samples of all routes that use the caller."""


@pytest.mark.parametrize("name", NAMING)
@pytest.mark.parametrize("signer", [None, ""])
def test_a_caller_without_a_signature_is_refused(account: Account, name: str, signer: str | None):
    account.call("add-job")
    before = account.items()
    status, error = account.call(forged(name, signer=signer))
    assert (status, error["code"]) == (403, "not_signed")
    assert account.items() == before
