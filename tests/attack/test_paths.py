"""Paths, methods and headers that different parties could read differently."""

from __future__ import annotations

from typing import Any

import pytest

from tests.functional.account import Account, sample

HOSTILE = {
    "X-Http-Method-Override": "DELETE",
    "X-Original-Url": "/jobs/job1/request",
    "X-Rewrite-Url": "/doctor",
    "X-Forwarded-For": "127.0.0.1",
    "X-Amzn-Trace-Id": "Root=1; " * 400,
    "userArn": "arn:aws:iam::123456789012:root",
    "X-Amz-Security-Token": "\0\r\nSet-Cookie: a=b",
    "Content-Length": "-1",
    "Transfer-Encoding": "chunked",
    "Cookie": "a=" + "b" * 8000,
    "Authorization": "Bearer none",
    "\u0130": "\u0130",
}


def looking(path: str, *, resource: str = "/jobs/{name}", method: str = "GET") -> dict[str, Any]:
    return {**sample("get-job"), "path": path, "resource": resource, "httpMethod": method}


@pytest.mark.parametrize(
    "name",
    [
        "n" * 64,
        "n" * 3000,
        "n" + "-" * 3000 + "n",
        "\U0001f600" * 700,
        "job1\0",
        "job1%00",
        "job1%2e%2e",
        "job1%2Frequest",
        "..",
        "j\u043eb1",
        "job1 ",
        "job1;a=b",
        "job1+",
        "JOB#job1",
        "-",
        "__proto__",
        "${jndi:ldap://a}",
        "' or 1=1",
    ],
)
@pytest.mark.parametrize("event", ["get-job", "cancel-job", "amend-job", "get-request"])
def test_an_impossible_job_name_is_not_found(account: Account, event: str, name: str):
    """No such job, whatever the database would make of this key."""
    account.call("add-job")
    before = account.items()
    tail = "/request" if event == "get-request" else ""
    status, error = account.call({**sample(event), "path": f"/jobs/{name}{tail}"})
    assert (status, error["code"]) in {(404, "no_such_job"), (404, "no_such_route")}
    assert len(error["message"]) < 400
    assert account.items() == before


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/job1/request",
        "/jobs/job1//request",
        "/jobs/job1/request/",
        "/jobs/../doctor",
        "/jobs/./job1",
        "//jobs/job1",
        "/jobs",
    ],
)
def test_only_routes_that_api_gateway_has_matched_are_answered(account: Account, path: str):
    """API Gateway matches, and IAM judges, the raw path; the function gets it decoded. So
    `/jobs/job1%2Frequest`, a job's name to IAM, must not be the request of a job to the
    function."""
    account.call("add-job")
    status, error = account.call(looking(path))
    assert (status, error["code"]) == (404, "no_such_route")


def test_behind_one_proxy_resource_only_the_path_counts(account: Account):
    """As in the emulator, and behind a user's own gateway."""
    account.call("add-job")
    assert account.call(looking("/jobs/job1/request", resource="/{proxy+}"))[0] == 200
    assert account.call(looking("/jobs/job1"))[0] == 200


@pytest.mark.parametrize("path", ["", "/", "/%2e%2e/jobs", "/jobs\n", "/\0", "/" + "a/" * 4000])
def test_an_unknown_path_is_refused(account: Account, path: str):
    status, error = account.call(looking(path, resource="/{proxy+}"))
    assert status == 404
    assert 0 < len(error["message"]) < 400


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PROPFIND", "get", "", "GET\0", "G" * 9000])
def test_an_unknown_method_is_refused(account: Account, method: str):
    status, error = account.call(looking("/jobs/job1", method=method))
    assert (status, error["code"]) == (405, "no_such_method")
    assert 0 < len(error["message"]) < 400


def test_headers_are_ignored(account: Account):
    account.call("add-job")
    plain = account.call("get-job")
    event = sample("get-job")
    event["headers"] = {**event["headers"], **HOSTILE}
    event["multiValueHeaders"] = {
        **event["multiValueHeaders"],
        **{key: [value, value] for key, value in HOSTILE.items()},
    }
    answer = account.send(event)
    assert (answer["statusCode"], account.call(event)[1]) == plain
    unhostile = account.send(sample("get-job"))["multiValueHeaders"]
    assert answer["multiValueHeaders"].keys() == unhostile.keys()
    assert account.state("job1") == "pending"


@pytest.mark.parametrize("headers", [None, {}, {"Accept": None}])
def test_a_request_needs_no_headers(account: Account, headers: Any):
    event = {**sample("list-jobs"), "headers": headers, "multiValueHeaders": None}
    assert account.call(event)[0] == 200


@pytest.mark.parametrize(
    "query",
    [
        {"state": ["running\0"]},
        {"state": ["r" * 9000]},
        {"limit": ["1e3"]},
        {"limit": ["0x10"]},
        {"limit": ["1_000"]},
        {"limit": [""]},
        {"limit": ["-0"]},
        {"\0": [""]},
        {"k" * 9000: ["v"]},
    ],
)
def test_an_unknown_query_is_refused(account: Account, query: Any):
    event = {**sample("list-jobs"), "multiValueQueryStringParameters": query}
    status, error = account.call(event)
    assert status == 400
    assert 0 < len(error["message"]) < 400
    assert len(error["field"]) <= 200
