"""Routing of API Gateway's events: the route, its arguments, and errors."""

import base64
from types import SimpleNamespace

import pytest

from slotq_core.api.router import Response, Router


class Base(Exception):
    pass


class Special(Base):
    pass


def router() -> Router:
    made = Router(not_found=lambda _: Response(status=404, body="nothing"))
    made.add("/jobs", ["GET"], lambda: Response(status=200, body="all"))
    made.add("/jobs/<name>", ["GET"], lambda name: Response(status=200, body=name))
    made.add("/jobs/<name>/request", ["GET"], lambda name: Response(status=200, body=f"{name}'s"))
    made.add("/body", ["POST"], lambda: Response(status=200, body=made.request.body))
    made.add("/query", ["GET"], lambda: Response(status=200, body=str(made.request.query)))
    return made


def event(path: str, method: str = "GET", **more):
    return {"path": path, "httpMethod": method, **more}


@pytest.mark.parametrize(
    ("path", "method", "status", "body"),
    [
        ("/jobs", "GET", 200, "all"),
        ("/jobs/", "GET", 200, "all"),
        ("/jobs", "get", 200, "all"),
        ("/jobs/a-1", "GET", 200, "a-1"),
        ("/jobs/a-1/request", "GET", 200, "a-1's"),
        ("/jobs/a/b", "GET", 404, "nothing"),
        ("/jobs/a/b/request", "GET", 404, "nothing"),
        ("/jobs\n", "GET", 404, "nothing"),
        ("/jobs/\ud800", "GET", 404, "nothing"),
        ("/jobs", "POST", 404, "nothing"),
        ("/jobsx", "GET", 404, "nothing"),
        ("", "GET", 404, "nothing"),
    ],
)
def test_a_route_is_found_by_method_and_whole_path(path, method, status, body):
    answer = router().resolve(event(path, method), None)
    assert (answer["statusCode"], answer["body"]) == (status, body)
    assert answer["multiValueHeaders"] == {"Content-Type": ["application/json"]}


def test_a_body_is_read_plain_or_from_base64():
    plain = router().resolve(event("/body", "POST", body="{}"), None)
    coded = base64.b64encode(b"{}").decode()
    packed = router().resolve(event("/body", "POST", body=coded, isBase64Encoded=True), None)
    assert plain["body"] == packed["body"] == "{}"
    assert router().resolve(event("/body", "POST", body=None), None)["body"] == ""


@pytest.mark.parametrize("body", ["/w==", "no base64"])
def test_a_body_that_is_not_text_is_the_callers_error(body):
    made = router()
    made.on_error(ValueError, lambda _: Response(status=400, body="no text"))
    answer = made.resolve(event("/body", "POST", body=body, isBase64Encoded=True), None)
    assert answer["statusCode"] == 400


def test_query_values_come_from_both_forms_of_the_event():
    given = {
        "queryStringParameters": {"a": "1,2", "b": "3"},
        "multiValueQueryStringParameters": {"b": ["3", "4"]},
    }
    answer = router().resolve(event("/query", **given), None)
    assert answer["body"] == str({"a": ["1", "2"], "b": ["3", "4"]})
    assert router().resolve(event("/query", queryStringParameters=None), None)["body"] == "{}"


def test_the_handler_of_the_nearest_error_class_answers():
    made = router()

    def fail(name: str) -> Response:
        raise {"base": Base, "special": Special, "value": ValueError}[name]

    made.add("/fail/<name>", ["GET"], fail)
    made.on_error(Base, lambda _: Response(status=409, body="base"))
    assert made.resolve(event("/fail/special"), None)["body"] == "base"
    made.on_error(Special, lambda _: Response(status=410, body="special"))
    assert made.resolve(event("/fail/special"), None)["body"] == "special"
    assert made.resolve(event("/fail/base"), None)["body"] == "base"
    with pytest.raises(ValueError):  # noqa: PT011 - which no handler was given for
        made.resolve(event("/fail/value"), None)


def test_routes_get_the_invocations_context():
    made = router()
    made.add("/id", ["GET"], lambda: Response(status=200, body=made.request.context.id))
    assert made.resolve(event("/id"), SimpleNamespace(id="r-1"))["body"] == "r-1"
