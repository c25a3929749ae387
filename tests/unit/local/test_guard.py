"""The guard against web pages: the emulator's host names, origins, and CORS."""

from __future__ import annotations

import pytest

from slotq.local.entry.guard import Guard, GuardRefusal, without_grants

LOCAL = Guard(host="127.0.0.1", port=4777)
EVERYWHERE = Guard(host="0.0.0.0", port=4777, names=["host.docker.internal", "box:80"])
BRIDGE = Guard(host="172.17.0.1", port=4777)

NAMES = [
    (LOCAL, "127.0.0.1:4777", True),
    (LOCAL, "localhost:4777", True),
    (LOCAL, "LOCALHOST:4777", True),
    (LOCAL, "[::1]:4777", True),
    (LOCAL, "bucket.localhost:4777", True),
    (LOCAL, "my.bucket.s3.localhost:4777", True),
    (LOCAL, "slotqlocal.execute-api.us-east-1.amazonaws.com", True),
    (LOCAL, "slotqlocal-vpce-1a.execute-api.us-east-1.amazonaws.com:4777", True),
    (LOCAL, "vpce-0123-abc.execute-api.us-east-1.vpce.amazonaws.com", True),
    (LOCAL, "bucket.s3.us-east-1.amazonaws.com", True),
    (LOCAL, "bucket.s3.amazonaws.com", True),
    (LOCAL, "", False),
    (LOCAL, "127.0.0.1", False),
    (LOCAL, "127.0.0.1:4778", False),
    (LOCAL, "0.0.0.0:4777", False),
    (LOCAL, "172.17.0.1:4777", False),
    (LOCAL, "host.docker.internal:4777", False),
    (LOCAL, "evil.example:4777", False),
    (LOCAL, "127.0.0.1.evil.example:4777", False),
    (LOCAL, "localhost.evil.example:4777", False),
    (LOCAL, "slotqlocal.execute-api.evil.example:4777", False),
    (LOCAL, "slotqlocal.execute-api.us-east-1.amazonaws.com.evil.example:4777", False),
    (LOCAL, "slotqlocal.execute-api.us-east-1.amazonaws.com:80", False),
    (LOCAL, "amazonaws.com:4777", False),
    (LOCAL, "evil.example@127.0.0.1:4777", False),
    (LOCAL, "127.0.0.1:4777/x", False),
    (LOCAL, "127.0.0.1:port", False),
    (LOCAL, "[::1:4777", False),
    (EVERYWHERE, "127.0.0.1:4777", True),
    (EVERYWHERE, "172.17.0.1:4777", True),
    (EVERYWHERE, "[fe80::1]:4777", True),
    (EVERYWHERE, "host.docker.internal:4777", True),
    (EVERYWHERE, "box:80", True),
    (EVERYWHERE, "box:4777", False),
    (EVERYWHERE, "evil.example:4777", False),
    (BRIDGE, "172.17.0.1:4777", True),
    (BRIDGE, "localhost:4777", False),
]


@pytest.mark.parametrize(("guard", "host", "known"), NAMES)
def test_an_emulator_answers_only_to_its_names(guard: Guard, host: str, known: bool) -> None:
    assert guard.knows(host) is known


ASKED = [
    ("nothing that a page would add", {}, True),
    ("its own origin", {"HTTP_ORIGIN": "http://127.0.0.1:4777"}, True),
    ("typed into a browser", {"HTTP_SEC_FETCH_SITE": "none"}, True),
    ("a page of another origin", {"HTTP_ORIGIN": "https://evil.example"}, False),
    ("a sandboxed page", {"HTTP_ORIGIN": "null"}, False),
    ("a page of another port", {"HTTP_ORIGIN": "http://127.0.0.1:8888"}, False),
    ("the same by its other name", {"HTTP_ORIGIN": "http://localhost:4777"}, False),
    ("a picture in a page", {"HTTP_SEC_FETCH_SITE": "cross-site"}, False),
    ("a picture in a notebook", {"HTTP_SEC_FETCH_SITE": "same-site"}, False),
    ("a rebound name", {"HTTP_HOST": "evil.example:4777"}, False),
    ("a preflight", {"REQUEST_METHOD": "OPTIONS"}, False),
]


@pytest.mark.parametrize(("who", "more", "welcome"), ASKED, ids=[row[0] for row in ASKED])
def test_only_the_emulators_own_origins_are_admitted(
    who: str, more: dict[str, str], welcome: bool
) -> None:
    environ = {"REQUEST_METHOD": "GET", "HTTP_HOST": "127.0.0.1:4777", **more}
    if welcome:
        LOCAL.check(environ)
    else:
        with pytest.raises(GuardRefusal):
            LOCAL.check(environ)


def test_no_answer_grants_cross_origin_access() -> None:
    heard = []
    start = without_grants(lambda *said: heard.append(said))
    start("200 OK", [("Access-Control-Allow-Origin", "*"), ("ETag", "x")])
    assert heard == [("200 OK", [("ETag", "x"), ("X-Content-Type-Options", "nosniff")])]
