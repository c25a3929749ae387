"""The page's server: whom it answers, what it sends along, and what it passes on to the queue."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slotq.configuration.settings import Config
from slotq.errors import CannotReach, NoSuchJob, NotConfigured
from slotq.ui.built_page import BuiltPage
from slotq.ui.gate import Gate, Kept
from slotq.ui.logs import FIRST_LINES, MOST_LINES, Logs
from slotq.ui.own_calls import OwnCalls
from slotq.ui.page_server import HEADERS, PageServer
from slotq.ui.relay import LONGEST_BODY, PageRelay
from slotq_core.wire.scenario.views import ScenarioView
from slotq_core.wire.views.jobs import JobView
from tests.malformed_requests import MALFORMED, first_line
from tests.unit.client.fake_aws import FakeLogs, refused
from tests.unit.client.fake_queue import running, waiting
from tests.unit.client.fake_scenario import fake_scenario


@dataclass
class Said:
    status_code: int = 200
    content: bytes = b'{"version": 1, "jobs": []}'
    headers: dict[str, str] = field(default_factory=dict)


class Jobs(dict[str, JobView]):
    """What the client knows of the queue's jobs."""

    config = Config()

    @property
    def service(self) -> Jobs:
        return self

    def scenario(self) -> ScenarioView:
        return fake_scenario()

    def view(self, name: str) -> JobView:
        if name not in self:
            raise NoSuchJob(name)
        return self[name]


class Queue:
    """Keeps the calls that reach the queue."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any, bytes | None]] = []
        self.known: list[str] = []
        """The tags that came with each."""
        self.failure: Exception | None = None
        self.said = Said()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, object] | None,
        body: bytes | None,
        known: str,
    ) -> Said:
        self.calls.append((method, path, query, body))
        self.known.append(known)
        if self.failure is not None:
            raise self.failure
        return self.said


@dataclass
class Browser:
    server: PageServer

    def __call__(
        self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=120)
        sent = {"Host": f"127.0.0.1:{self.server.server_port}", **(headers or {})}
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        if body and "Content-Length" not in sent:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        try:
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    @property
    def key(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.server.gate.token}"}


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def jobs() -> Jobs:
    return Jobs(job1=running(2), job2=waiting(1, name="job2"))


@pytest.fixture
def cloudwatch() -> FakeLogs:
    return FakeLogs({"job1": ["step 1", "<b>"], "job1-qstamp-2-abcdef": ["again"]})


@pytest.fixture
def page(tmp_path: Path) -> Path:
    built = tmp_path / "built"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text("<!doctype html>the page")
    (built / "assets" / "index-1a2b.js").write_text("go()")
    (tmp_path / "secret.txt").write_text("secret")
    return built


@pytest.fixture
def browser(queue: Queue, page: Path, jobs: Jobs, cloudwatch: FakeLogs) -> Iterator[Browser]:
    server = PageServer(
        port=0,
        page=BuiltPage(page),
        relay=PageRelay(queue),
        logs=Logs(jobs, lambda: cloudwatch),
        own=OwnCalls(jobs),
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Browser(server)
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_view_s_address_gives_the_page(browser: Browser) -> None:
    for address in ("/", "/jobs/train-7?search=a", "/jobs/%3Cscript%3E"):
        status, headers, content = browser("GET", address)
        assert (status, content) == (200, b"<!doctype html>the page")
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert headers["Cache-Control"] == "no-store"


def test_a_file_named_after_its_content_may_be_kept(browser: Browser) -> None:
    status, headers, content = browser("GET", "/assets/index-1a2b.js")
    assert (status, content) == (200, b"go()")
    assert headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert "immutable" in headers["Cache-Control"]


@pytest.mark.parametrize(
    "target", ["/assets/../../secret.txt", "/assets/%2e%2e/%2e%2e/secret.txt", "/../secret.txt"]
)
def test_nothing_but_the_page_s_files_is_served(browser: Browser, target: str) -> None:
    assert b"secret" not in browser("GET", target)[2]


@pytest.mark.parametrize("target", ["/", "/assets/none.js", "/api/jobs", "/api/../x"])
def test_every_answer_forbids_what_the_page_does_not_need(browser: Browser, target: str) -> None:
    headers = browser("GET", target)[1]
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in headers


def test_a_call_reaches_the_queue_as_it_is(browser: Browser, queue: Queue) -> None:
    status, _, content = browser("GET", "/api/jobs?state=pending&state=held&limit=5", browser.key)
    assert (status, content) == (200, queue.said.content)
    json_key = {**browser.key, "Content-Type": "application/json"}
    browser("PATCH", "/api/jobs/a%20b", json_key, b'{"held": true}')
    assert queue.calls == [
        ("GET", "/jobs", {"state": ["pending", "held"], "limit": ["5"]}, None),
        ("PATCH", "/jobs/a%20b", None, b'{"held": true}'),
    ]


def test_a_refusal_of_the_queue_is_passed_on(browser: Browser, queue: Queue) -> None:
    queue.said = Said(status_code=409, content=b'{"code": "too_late"}')
    assert browser("DELETE", "/api/jobs/a", browser.key)[::2] == (409, b'{"code": "too_late"}')


@pytest.mark.parametrize("failure", [CannotReach("no way there"), NotConfigured("no way there")])
def test_no_way_to_the_queue_is_said(browser: Browser, queue: Queue, failure: Exception) -> None:
    queue.failure = failure
    status, _, content = browser("GET", "/api/jobs", browser.key)
    assert status == 502
    assert json.loads(content)["message"] == "no way there"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer \xff"},
        {"Cookie": "token={token}"},
    ],
)
def test_without_the_token_the_queue_is_not_asked(
    browser: Browser, queue: Queue, headers: dict[str, str]
) -> None:
    sent = {
        name: value.replace("{token}", browser.server.gate.token) for name, value in headers.items()
    }
    status, _, content = browser("GET", "/api/jobs", sent)
    assert status == 401
    assert "slotq ui" in json.loads(content)["message"]
    assert queue.calls == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},  # DNS rebinding
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": ""},
        {"Origin": "http://evil.example"},  # A drive-by request
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_strangers_are_refused_even_with_the_token(
    browser: Browser, queue: Queue, headers: dict[str, str]
) -> None:
    port = str(browser.server.server_port)
    sent = {name: value.replace("{port}", port) for name, value in headers.items()}
    assert browser("GET", "/api/jobs", {**browser.key, **sent})[0] == 403
    assert queue.calls == []


def test_its_own_names_and_origin_are_let_in(browser: Browser, queue: Queue) -> None:
    port = browser.server.server_port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        sent = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert browser("GET", "/api/jobs", {**browser.key, **sent})[0] == 200


def test_a_browser_leaves_out_the_port_of_http() -> None:
    at_80, elsewhere = Gate(port=80), Gate(port=8080)
    at_80.check_host({"Host": "localhost", "Origin": "http://localhost"})
    for gate, host in ((elsewhere, "localhost"), (at_80, "evil.example")):
        with pytest.raises(Kept, match="does not answer to that host"):
            gate.check_host({"Host": host})


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/api", 404),
        ("/api/", 404),
        ("/api/../admin", 404),
        ("/api/jobs/%2e%2e/limits", 404),
        ("/api/jobs%2f..", 404),
        ("/api/jobs\\x", 404),
        ("/api//evil.example/x", 404),
        ("/api/" + "a" * 9000, 404),
        ("/api/jobs/train-7/request", 200),
    ],
)
def test_only_addresses_of_the_api_are_signed(
    browser: Browser, queue: Queue, target: str, status: int
) -> None:
    assert browser("GET", target, browser.key)[0] == status
    assert all(path.startswith("/") for _, path, _, _ in queue.calls)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json", "Content-Length": str(LONGEST_BODY + 1)}, 413),
        ({"Content-Type": "application/json", "Content-Length": "-1"}, 413),
        ({"Content-Type": "application/json", "Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_a_body_that_is_no_json_of_bounded_length_is_refused(
    browser: Browser, queue: Queue, headers: dict[str, str], status: int
) -> None:
    assert browser("POST", "/api/add-job", {**browser.key, **headers}, b"{}")[0] == status
    assert queue.calls == []


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_every_malformed_request_gets_an_answer(browser: Browser, text: str) -> None:
    """Also one that comes with the token. After it, the next request gets its own."""
    port = browser.server.server_port
    head = f"Host: 127.0.0.1:{port}\r\nAuthorization: {browser.key['Authorization']}\r\n"
    assert first_line(port, text, api="/api", head=head).startswith("HTTP/1.1 ")
    assert browser("GET", "/")[0] == 200


def test_a_refusal_of_the_server_itself_is_in_the_form_of_the_api(browser: Browser) -> None:
    status, headers, content = browser("BREW", "/api/jobs", browser.key)
    assert (status, json.loads(content)["code"]) == (501, "malformed")
    assert headers["X-Frame-Options"] == "DENY"


def test_the_page_itself_takes_no_writes(browser: Browser) -> None:
    assert browser("POST", "/")[0] == 405


def test_the_link_has_the_token_where_no_server_sees_it(browser: Browser) -> None:
    gate = browser.server.gate
    assert gate.link("/jobs") == f"{gate.address}/jobs#token={gate.token}"
    assert gate.token not in repr(gate)


def test_an_installation_without_the_page_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match=r"`make ui` in /\S+ builds it"):
        BuiltPage(tmp_path)


def lines(browser: Browser, target: str) -> dict[str, Any]:
    status, _, content = browser("GET", f"/own/logs/{target}", browser.key)
    assert status == 200
    said: dict[str, Any] = json.loads(content)
    return said


def test_logs_begin_with_the_first_attempt_and_go_on_from_the_cursor(
    browser: Browser, cloudwatch: FakeLogs
) -> None:
    first = lines(browser, "job1")
    assert [line["message"] for line in first["lines"]] == ["step 1", "<b>", "again"]
    cursor = first["cursor"]
    assert lines(browser, f"job1?cursor={cursor}")["lines"] == []
    cloudwatch.lines["job1-qstamp-2-abcdef"].append("more")
    new = {"training_job": "job1-qstamp-2-abcdef", "message": "more"}
    assert lines(browser, f"job1?cursor={cursor}")["lines"] == [new]


def test_an_unknown_cursor_begins_anew(browser: Browser) -> None:
    assert len(lines(browser, "job1?cursor=gone")["lines"]) == 3
    other = lines(browser, "job2")["cursor"]
    assert len(lines(browser, f"job1?cursor={other}")["lines"]) == 3


def test_of_long_logs_the_last_lines_come_with_few_reads(
    browser: Browser, cloudwatch: FakeLogs
) -> None:
    cloudwatch.lines["job1"] = [str(n) for n in range(1_000_000)]
    said = lines(browser, "job1")
    assert (len(said["lines"]), said["earlier"]) == (FIRST_LINES + 1, True)
    assert [line["message"] for line in said["lines"][-2:]] == ["999999", "again"]
    assert cloudwatch.reads <= 8
    assert lines(browser, "job1?cursor=" + said["cursor"])["lines"] == []


def test_all_of_short_logs_come(browser: Browser) -> None:
    said = lines(browser, "job1")
    assert (len(said["lines"]), said["earlier"]) == (3, False)


def test_of_many_attempts_the_last_ones_come(
    browser: Browser, jobs: Jobs, cloudwatch: FakeLogs
) -> None:
    job = jobs.view("job1")
    first = job.attempts[-1]
    more = [
        first.model_copy(update={"number": n, "training_job": f"job1-{n}"}) for n in range(3, 9)
    ]
    jobs["job1"] = job.model_copy(update={"attempts": [*job.attempts, *more]})
    cloudwatch.lines |= {f"job1-{n}": [f"attempt {n}"] for n in range(3, 9)}
    said = lines(browser, "job1")
    found = [line["message"] for line in said["lines"]]
    assert (found, said["earlier"]) == ([f"attempt {n}" for n in range(4, 9)], True)
    cloudwatch.lines["job1-9"] = ["attempt 9"]
    last = first.model_copy(update={"number": 9, "training_job": "job1-9"})
    jobs["job1"] = job.model_copy(update={"attempts": [*job.attempts, *more, last]})
    said = lines(browser, "job1?cursor=" + said["cursor"])
    assert [line["message"] for line in said["lines"]] == ["attempt 9"]


def test_lines_beyond_those_of_an_answer_are_counted(
    browser: Browser, cloudwatch: FakeLogs
) -> None:
    cursor = lines(browser, "job1")["cursor"]
    cloudwatch.lines["job1-qstamp-2-abcdef"] += [str(n) for n in range(MOST_LINES + 2)]
    said = lines(browser, f"job1?cursor={cursor}")
    assert (len(said["lines"]), said["left_out"]) == (MOST_LINES, 2)


def test_logs_that_may_not_be_read_say_why(browser: Browser, cloudwatch: FakeLogs) -> None:
    cloudwatch.trouble = refused("DescribeLogStreams")
    assert "AccessDenied" in lines(browser, "job1")["trouble"]


def test_logs_need_the_token_and_a_job(browser: Browser) -> None:
    assert browser("GET", "/own/logs/job1")[0] == 401
    assert browser("GET", "/own/logs/job1", {**browser.key, "Host": "evil.example"})[0] == 403
    assert browser("POST", "/own/logs/job1", browser.key)[0] == 405
    assert browser("GET", "/own/logs/nobody", browser.key)[0] == 404


def test_a_browser_that_leaves_before_its_answer_is_no_news(
    browser: Browser, queue: Queue, capfd: pytest.CaptureFixture[str]
) -> None:
    queue.said = Said(content=b"x" * 20_000_000)  # More than any socket holds.
    with socket.create_connection(("127.0.0.1", browser.server.server_port)) as left:
        lines = ("GET /api/jobs HTTP/1.1", f"Host: 127.0.0.1:{browser.server.server_port}")
        key = f"Authorization: {browser.key['Authorization']}"
        left.sendall("\r\n".join((*lines, key, "", "")).encode())
        assert left.recv(10).startswith(b"HTTP/1.1")
    browser.server.shutdown()
    browser.server.server_close()
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(120)
    assert "Traceback" not in capfd.readouterr().err


def asked_what_if(browser: Browser, body: Any, **headers: str) -> tuple[int, Any]:
    sent = {**browser.key, "Content-Type": "application/json", **headers}
    status, _, content = browser("POST", "/own/whatif", sent, json.dumps(body).encode())
    return status, json.loads(content)


def test_a_confirmation_says_who_would_be_evicted(browser: Browser, queue: Queue) -> None:
    status, answer = asked_what_if(browser, {"priorities": {"whisper": "9"}})
    assert status == 200
    now = {row["job"]: row["after"]["what"] for row in answer["now"]}
    assert now == {"llama": "evicted", "whisper": "waits"}
    assert not queue.calls, "and nothing is changed"


def test_settings_and_slots_for_a_time_are_asked(browser: Browser, queue: Queue) -> None:
    status, answer = asked_what_if(browser, {"more": {"p5": "2:1w"}})
    assert status == 200
    assert {row["job"] for row in answer["now"] if row["after"]["what"] == "starts"}
    status, answer = asked_what_if(browser, {"settings": {"pools.p5.reserve_after": "1h"}})
    assert status == 200
    assert "+reserve_after: 3600" in answer["diff"]
    status, answer = asked_what_if(browser, {"settings": {"pools.p5.reserve_after": ""}})
    assert (status, answer["diff"]) == (200, "")
    assert not queue.calls


def test_slots_for_a_time_are_not_put_into_force(browser: Browser, queue: Queue) -> None:
    sent = json.dumps({"more": {"p5": "2:1w"}, "revision": 7}).encode()
    headers = {**browser.key, "Content-Type": "application/json"}
    status, _, content = browser("POST", "/own/whatif/apply", headers, sent)
    assert status == 400
    assert "only asked" in json.loads(content)["message"]
    assert not queue.calls


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"more": {"p5": "2"}}, 400, "p5=2: give slots and for how long, such as 2:1w"),
        ({"more": {"p6": "2:1w"}}, 404, "there is no pool 'p6'"),
        ({"settings": {"fair_shar.half_life": "7d"}}, 400, "no section 'fair_shar'"),
        ({"settings": {"fair_share.half_life": "*x"}}, 400, "give a value as in the configuration"),
        ({"cancels": ["nobody"]}, 404, "there is no job 'nobody'"),
        ({"holds": ["vit"]}, 409, "only a waiting job can be held"),
        ({"capacity": {}}, 400, "Extra inputs"),
        ({"priorities": {"whisper": "no such class"}}, 400, "names no class"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    browser: Browser, body: Any, status: int, said: str
) -> None:
    answered, answer = asked_what_if(browser, body)
    assert answered == status
    assert said in answer["message"]


def test_nobody_without_the_token_asks_what_if(browser: Browser) -> None:
    assert asked_what_if(browser, {}, Authorization="Bearer no")[0] == 401


def test_the_pages_tags_reach_the_queue_and_come_back(browser: Browser, queue: Queue) -> None:
    queue.said = Said(headers={"ETag": 'W/"5-60-a"'})
    status, headers, body = browser("GET", "/api/jobs", browser.key)
    assert (status, headers["ETag"]) == (200, 'W/"5-60-a"')
    queue.said = Said(status_code=304, content=b"", headers={"ETag": 'W/"5-60-a"'})
    known = {**browser.key, "If-None-Match": 'W/"5-60-a"'}
    status, headers, body = browser("GET", "/api/jobs", known)
    assert (status, headers["ETag"], body) == (304, 'W/"5-60-a"', b"")
    assert headers["Content-Length"] is None
    assert headers["Content-Type"] is None
    assert headers["Cache-Control"] == "no-store", "the page itself keeps what it has"
    browser("DELETE", "/api/jobs/job1", known)
    browser("GET", "/api/jobs", {**browser.key, "If-None-Match": "x" * 9_000})
    assert queue.known == ["", 'W/"5-60-a"', "", "x" * 8_000]
