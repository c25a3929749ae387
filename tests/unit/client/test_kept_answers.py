"""What has not changed is not sent again, and what is sent is compressed: the client's side."""

from __future__ import annotations

import gzip
import threading
from typing import Any

import pytest

from slotq.errors import UnexpectedAnswer
from slotq.jobs.follow import LONGEST, Pace, pause_after
from slotq.jobs.rendering import JobList
from slotq.transport.signed_http import MOST_KEPT
from slotq_core.wire.views.jobs import queue_view
from tests.unit.client.fake_queue import (
    FakeAnswer,
    FakeHttp,
    FakeQueue,
    client_of,
    running,
    waiting,
)


class Tagged(FakeHttp):
    """A queue whose answers have tags, which end with a change of the body."""

    def __init__(self, queue: FakeQueue) -> None:
        super().__init__(queue)
        self.statuses: list[int] = []
        self.packs = False

    def send(self, request: Any) -> FakeAnswer:
        answer = super().send(request)
        tag = f'W/"{hash(answer.content)}"'
        if request.headers.get("If-None-Match") == tag:
            answer = FakeAnswer(304, b"", {"ETag": tag})
        elif self.packs:
            headers = {"ETag": tag, "Content-Encoding": "gzip"}
            answer = FakeAnswer(answer.status_code, gzip.compress(answer.content), headers)
        else:
            answer.headers["ETag"] = tag
        self.statuses.append(answer.status_code)
        return answer


@pytest.fixture
def http() -> Tagged:
    return Tagged(FakeQueue(running(name="job1"), waiting(1, name="job2")))


@pytest.mark.parametrize("packs", [False, True])
def test_what_has_not_changed_is_taken_from_the_answer_before(http: Tagged, packs: bool) -> None:
    http.packs = packs
    client = client_of(http)
    first = client.jobs()
    assert client.jobs() == first
    assert http.queue is not None
    http.queue.jobs["job2"] = running(name="job2")
    changed = client.jobs()
    assert changed != first
    assert client.jobs() == changed
    assert http.statuses == [200, 304, 200, 304]


def test_each_question_has_its_own_answer(http: Tagged) -> None:
    client = client_of(http)
    for _ in range(2):
        assert [job.name for job in client.jobs("running")] == ["job1"]
        assert [job.name for job in client.jobs("pending")] == ["job2"]
        assert client.pools.view().version == 1
    assert http.statuses == [200] * 3 + [304] * 3


def test_what_a_caller_changes_in_an_answer_changes_no_later_one(http: Tagged) -> None:
    client = client_of(http)
    client.jobs().clear()
    client.jobs()[0].name = "other"
    assert [job.name for job in client.jobs()] == ["job1", "job2"]


def test_only_the_latest_answers_are_kept(http: Tagged) -> None:
    client = client_of(http)
    for limit in range(1, MOST_KEPT + 2):
        client.jobs(limit=limit)
    client.jobs(limit=MOST_KEPT + 1)
    client.jobs(limit=1)
    assert http.statuses[-2:] == [304, 200]


def test_a_refusal_is_not_kept_and_forgets_what_was(http: Tagged) -> None:
    client = client_of(http)
    first = client.jobs()
    http.troubles = [FakeAnswer(400, '{"code": "invalid_request", "message": "no"}')]
    with pytest.raises(Exception, match="no"):
        client.jobs()
    assert client.jobs() == first
    assert http.statuses == [200, 400, 200]


def test_a_304_that_was_not_asked_for_is_no_answer(http: Tagged) -> None:
    http.troubles = [FakeAnswer(304, b"")]
    with pytest.raises(UnexpectedAnswer):
        client_of(http).jobs()


def test_changes_carry_no_tag(http: Tagged) -> None:
    client = client_of(http)
    client.jobs.view("job1")
    client.jobs.cancel("job1")
    sent = {request.method: request.headers.get("If-None-Match") for request in http.sent}
    assert sent == {"GET": None, "DELETE": None}


def test_what_proxies_change_is_not_signed(http: Tagged) -> None:
    client = client_of(http)
    client.jobs()
    client.jobs()
    for request in http.sent:
        assert request.headers["Accept-Encoding"] == "gzip"
        signed = request.headers["Authorization"]
        text = signed.decode() if isinstance(signed, bytes) else signed
        assert "accept-encoding" not in text
        assert "if-none-match" not in text
    assert "If-None-Match" in http.sent[1].headers


GOOD = queue_view([running(name="job1")], more=False).model_dump_json().encode()


@pytest.mark.parametrize(
    ("content", "coding", "reads"),
    [
        (gzip.compress(GOOD), "gzip", True),
        (gzip.compress(GOOD), " GZIP ", True),
        (GOOD, "", True),
        (GOOD, "identity", True),
        (GOOD, "gzip", True),
        (gzip.compress(GOOD)[:-9], "gzip", False),
        (gzip.compress(b" " * 30_000_000 + GOOD), "gzip", False),
        (gzip.compress(GOOD), "br", False),
    ],
)
def test_answers_are_unpacked(content: bytes, coding: str, reads: bool) -> None:
    """A lying, cut or enormous one is no answer of the queue."""
    http = FakeHttp()
    http.troubles = [FakeAnswer(200, content, {"Content-Encoding": coding})]
    if reads:
        assert [job.name for job in client_of(http).jobs()] == ["job1"]
    else:
        with pytest.raises(UnexpectedAnswer):
            client_of(http).jobs()


def test_a_client_of_many_threads_mixes_no_answers(http: Tagged) -> None:
    client = client_of(http)
    found: list[tuple[str, str]] = []

    def ask(state: str, name: str) -> None:
        for _ in range(50):
            found.extend((name, job.name) for job in client.jobs(state))

    threads = [
        threading.Thread(target=ask, args=pair)
        for pair in (("running", "job1"), ("pending", "job2")) * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 200
    assert all(wanted == name for wanted, name in found)


@pytest.mark.parametrize(
    ("jobs", "every", "unchanged", "seconds"),
    [
        (9, 3, 0, 3),
        (9, 3, 1, 4.5),
        (9, 3, 99, 15),
        (9, 60, 99, 60),
        (200, 3, 0, 18),
        (1000, 3, 0, 50),
        (9000, 3, 99, LONGEST),
        (1000, 120, 0, 120),
    ],
)
def test_the_pause_after_an_answer(jobs: int, every: float, unchanged: int, seconds: float) -> None:
    """As the page's (client_sdk/ui/test/live.test.tsx)."""
    assert pause_after(jobs, every, unchanged) == seconds


def test_a_change_brings_the_short_pause_back() -> None:
    pace, jobs = Pace(5), JobList([running(name="job1")])
    assert [pace.after(jobs) for _ in range(5)] == [5, 7.5, 11.25, 15, 15]
    assert pace.after(JobList([*jobs, waiting(1)])) == 5
    assert pace.after(jobs, "beside") == 5


def test_a_short_list_out_of_many_jobs_is_asked_for_seldom() -> None:
    jobs = JobList([running(name="job1")])
    jobs.examined = 4_000
    assert Pace(5).after(jobs) == 50
