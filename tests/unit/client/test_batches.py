"""Many new jobs in few requests: `queue.submit_many`, `queue.batch` and `slotq submit FILE...`."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

import slotq as slotq_package
from slotq.cli.exits import ExitCode
from slotq.errors import (
    CannotReach,
    InvalidRequest,
    NameTaken,
    NotAllowed,
    TooManySubmissions,
    Unavailable,
)
from slotq.groups.batches import NEW_AT_ONCE
from tests.least_request import least_request
from tests.unit.client.fake_queue import (
    FakeAnswer,
    FakeHttp,
    client_of,
    no_connection,
)

NO_METHOD = FakeAnswer(405, '{"version": 1, "code": "no_such_method", "message": "use GET here"}')
NOT_YOURS = FakeAnswer(403, '{"Message": "User: ada is not authorized to perform: it"}')


@pytest.fixture
def client(http, clock):
    return client_of(http, clock=clock)


def requests(number: int, **fields: Any) -> list[dict[str, Any]]:
    return [least_request(f"new{n}", **fields) for n in range(number)]


def paths(http: FakeHttp) -> list[str]:
    return [f"{sent.method} {sent.url.partition('/prod')[2]}" for sent in http.sent]


def sizes(http: FakeHttp) -> list[int]:
    return [len(json.loads(sent.body)["jobs"]) for sent in http.sent if sent.body]


def kinds(outcomes: Any) -> list[str]:
    return [type(it.error).__name__ if it.error else it.job.state for it in outcomes]


class TestSubmitMany:
    def test_hundreds_go_in_one_request_that_holds_what_they_share_once(self, client, http, queue):
        wanted = requests(600)
        outcomes = client.submit_many(wanted)
        assert [outcome.name for outcome in outcomes] == [f"new{n}" for n in range(600)]
        assert set(kinds(outcomes)) == {"pending"}
        assert sizes(http) == [NEW_AT_ONCE, NEW_AT_ONCE, 100]
        assert json.loads(http.sent[0].body)["jobs"][1] == {"TrainingJobName": "new1"}
        assert queue.requests["new599"] == wanted[599]

    def test_settings_and_dependencies_of_the_client_are_added(self, client, queue):
        with client.after("prepare"):
            client.with_settings(priority=4).submit_many(requests(2))
        assert {"Key": "priority", "Value": "4"} in queue.requests["new1"]["Tags"]

    def test_each_job_has_the_error_that_it_would_have_alone(self, client, queue):
        queue.requests["new1"] = {"another": "request"}
        odd = least_request("new2", Tags=[{"Key": "slotq:retry", "Value": "1"}])
        outcomes = client.submit_many([*requests(2), odd, least_request("new3")])
        assert kinds(outcomes) == ["pending", "NameTaken", "InvalidRequest", "pending"]
        assert (outcomes[1].error.message, outcomes[1].error.field) == (
            "'new1' is taken",
            "TrainingJobName",
        )
        with pytest.raises(InvalidRequest) as alone:
            client.submit(odd)
        assert (outcomes[2].error.message, outcomes[2].error.field) == (
            alone.value.message,
            alone.value.field,
        )

    def test_what_this_machine_finds_faulty_is_not_sent(self, client, http):
        faulty = {**least_request("faulty"), "RoleArn": 7}
        large = least_request("large", HyperParameters={"k": "x" * 1_000_001})
        outcomes = client.submit_many([faulty, *requests(1), large])
        assert kinds(outcomes) == ["InvalidRequest", "pending", "InvalidRequest"]
        assert sizes(http) == [1]

    def test_nothing_is_sent_for_nothing(self, client, http):
        assert client.submit_many([]) == []
        assert http.sent == []

    def test_large_requests_are_spread_over_several(self, client, http):
        values = {f"k{n}": "x" * 2_400 for n in range(100)}
        wanted = [least_request(f"new{n}", HyperParameters=values) for n in range(20)]
        assert set(kinds(client.submit_many(wanted))) == {"pending"}
        assert sizes(http) == [14, 6]

    def test_jobs_that_the_queue_had_no_time_for_are_sent_again(self, client, http, queue):
        queue.reaches = 40
        assert set(kinds(client.submit_many(requests(100)))) == {"pending"}
        assert sizes(http) == [100, 60, 20]

    def test_a_queue_without_time_for_any_is_unavailable(self, client, queue):
        queue.reaches = 0
        with pytest.raises(Unavailable):
            client.submit_many(requests(3))

    def test_beyond_this_minute_the_next_is_awaited(self, client, http, queue, clock):
        queue.room = 60
        clock.after_sleep = lambda: setattr(queue, "room", 60)
        assert set(kinds(client.submit_many(requests(100)))) == {"pending"}
        assert (clock.slept, sizes(http)) == ([30], [100, 40])

    def test_waiting_in_vain_refuses_the_rest(self, client, queue):
        queue.room = 2
        outcomes = client.submit_many(requests(4))
        assert kinds(outcomes) == ["pending", "pending", *["TooManySubmissions"] * 2]
        assert isinstance(outcomes[3].error, TooManySubmissions)
        assert outcomes[3].error.retry_after == 30

    @pytest.mark.parametrize("trouble", [NO_METHOD, NOT_YOURS], ids=["earlier", "forbidden"])
    def test_without_batches_jobs_are_submitted_one_by_one(self, client, http, queue, trouble):
        queue.requests["new1"] = {"another": "request"}
        http.troubles = [trouble]
        assert kinds(client.submit_many(requests(3))) == ["pending", "NameTaken", "pending"]
        assert paths(http) == ["POST /jobs", *["POST /add-job"] * 3]

    def test_a_lost_connection_raises_only_before_the_first_job(self, client, http, clock):
        http.troubles = [no_connection()] * 5
        with pytest.raises(CannotReach):
            client.submit_many(requests(1))
        send, sent = http.send, []

        def fails_later(request: Any) -> Any:
            sent.append(request)
            if len(sent) > 1:
                raise no_connection()
            return send(request)

        http.send = fails_later
        outcomes = client.submit_many(requests(300))
        assert kinds(outcomes) == ["pending"] * NEW_AT_ONCE + ["CannotReach"] * 50

    def test_no_right_to_submit_at_all_raises(self, client, http):
        http.forbidden = {"POST"}
        with pytest.raises(NotAllowed):
            client.submit_many(requests(2))


class TestBatch:
    def test_a_block_is_sent_when_it_ends(self, client, http, queue):
        with client.batch() as batch:
            first = client.submit(least_request("a"))
            with client.after(first):
                client.submit(least_request("b"))
            client.with_settings(priority=9).submit(least_request("c"))
            assert (first.name, first.state, http.sent) == ("a", "pending", [])
            assert repr(batch) == "<batch of 3 jobs, not submitted yet>"
        assert paths(http) == ["POST /jobs"]
        assert [job.name for job in batch.jobs] == ["a", "b", "c"]
        assert {"Key": "slotq:after", "Value": "a"} in queue.requests["b"]["Tags"]
        assert queue.jobs["c"].priority == 9
        assert repr(batch) == "<batch of 3 jobs, 0 refused>"

    def test_a_block_that_raises_submits_nothing(self, client, http):
        def block() -> None:
            with client.batch():
                client.submit(least_request("a"))
                raise KeyError("x")

        with pytest.raises(KeyError):
            block()
        assert http.sent == []
        client.submit(least_request("a"))
        assert paths(http) == ["POST /add-job"]

    def test_an_empty_block_sends_nothing(self, client, http):
        with client.batch() as batch:
            pass
        assert (http.sent, batch.outcomes) == ([], [])

    def test_a_refusal_raises_when_all_are_sent(self, client, queue):
        queue.requests["b"] = {"another": "request"}
        batch = None

        def block() -> None:
            nonlocal batch
            with client.batch() as batch:
                for name in "abc":
                    client.submit(least_request(name))

        with pytest.raises(NameTaken) as raised:
            block()
        assert kinds(batch.outcomes) == ["pending", "NameTaken", "pending"]
        assert raised.value.__notes__ == [
            "1 of the batch's 3 jobs were refused; its `outcomes` have each"
        ]
        assert {"a", "c"} <= set(queue.jobs)

    def test_another_job_of_the_same_name_is_refused_where_it_is_submitted(self, client, queue):
        with client.batch():
            client.submit(least_request("a"))
            client.submit(least_request("a"))
            with pytest.raises(NameTaken):
                client.submit(least_request("a", Environment={"A": "1"}))
        assert "a" in queue.jobs

    def test_another_client_and_dry_runs_are_not_collected(self, client, http, queue):
        with client.batch():
            client_of(http).submit(least_request("other"))
            client.submit(least_request("dry"), dry_run=True)
        assert "other" in queue.jobs
        assert "POST /jobs" not in paths(http)

    def test_boto3_is_collected_and_shows_waiting_jobs(self, http, clock):
        said: list[str] = []
        with mock_aws():
            aws = boto3.Session(region_name="eu-west-1")
            queue = slotq_package.install(aws, queue=client_of(http, clock=clock), say=said.append)
            sagemaker = aws.client("sagemaker")
            with queue.batch() as batch:
                for name in ("a", "b"):
                    answer = sagemaker.create_training_job(**least_request(name))
                    assert answer["TrainingJobArn"].endswith(f":training-job/{name}")
                shown = sagemaker.describe_training_job(TrainingJobName="a")
                assert shown["TrainingJobStatus"] == "InProgress"
                assert said == []
        assert [job.name for job in batch.jobs] == ["a", "b"]
        assert said == ["a: in the queue with priority 0", "b: in the queue with priority 0"]
        assert paths(http).count("POST /jobs") == 1


class TestCommand:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def write(self, name: str, value: object) -> str:
        Path(name).write_text(json.dumps(value), encoding="utf-8")
        return name

    def test_files_are_jobs_of_their_own(self, slotq, queue, http):
        files = [self.write(f"{n}.json", least_request(f"new{n}")) for n in range(3)]
        result = slotq("submit", *files, "--priority", "7")
        assert result.exit_code == ExitCode.OK, result.output
        assert [line.partition(":")[0] for line in result.stdout.splitlines()] == [
            "new0",
            "new1",
            "new2",
        ]
        assert {queue.jobs[f"new{n}"].priority for n in range(3)} == {7}
        assert paths(http) == ["POST /jobs"]

    def test_a_file_holds_a_list(self, slotq, queue):
        self.write("a.yaml", requests(2))
        result = slotq("submit", "a.yaml", "--json")
        assert [job["name"] for job in json.loads(result.stdout)["jobs"]] == ["new0", "new1"]
        result = slotq("submit", "-", input=json.dumps(requests(1)), catch_exceptions=False)
        assert (result.exit_code, "new0: " in result.stdout) == (ExitCode.OK, True)

    def test_a_thousand_files_are_read_one_after_the_other(self, slotq, queue):
        files = [self.write(f"{n}.json", least_request(f"new{n}")) for n in range(300)]
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(file.name) for file in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 64, limits[1]))
        try:
            result = slotq("submit", *files)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert result.exit_code == ExitCode.OK, result.output
        assert "submitting 300 jobs" in result.stderr

    def test_a_refused_job_gives_its_exit_code_and_the_others_are_there(self, slotq, queue):
        queue.requests["new1"] = {"another": "request"}
        result = slotq("submit", self.write("a.json", requests(3)))
        assert result.exit_code == ExitCode.NO
        assert "slotq: 'new1' is taken" in result.stderr
        assert {"new0", "new2"} <= set(queue.jobs)
        found = json.loads(slotq("submit", "a.json", "--json").stdout)
        assert [job["name"] for job in found["jobs"]] == ["new0", "new2"]

    def test_a_dry_run_asks_for_each_and_submits_none(self, slotq, queue):
        queue.requests["new1"] = {"another": "request"}
        result = slotq("submit", self.write("a.json", requests(3)), "--dry-run")
        assert result.exit_code == ExitCode.NO
        assert [it["TrainingJobName"] for it in json.loads(result.stdout)] == [
            "new0",
            "new1",
            "new2",
        ]
        assert "the queue would take 2 of 3 jobs" in result.stderr
        assert "new0" not in queue.jobs

    @pytest.mark.parametrize(
        "option",
        [("--name", "x"), ("--wait",), ("--array", "1-3"), ("--again",), ("--forward", "8888")],
        ids=lambda option: option[0],
    )
    def test_options_for_one_job_are_refused(self, slotq, queue, option):
        result = slotq("submit", self.write("a.json", requests(2)), *option)
        assert result.exit_code == ExitCode.USAGE
        assert f"{option[0]} is for one job; leave it out with several" in result.stderr
        assert "new0" not in queue.jobs

    @pytest.mark.parametrize("value", [[], [1], [least_request("a"), None], "x", 3])
    def test_what_is_no_request_is_a_faulty_file(self, slotq, value):
        result = slotq("submit", self.write("a.json", value))
        assert result.exit_code == ExitCode.USAGE
        assert "a.json must hold one object, a CreateTrainingJob request, or a list" in (
            result.stderr.replace("\n", " ")
        )

    def test_a_folder_stands_alone(self, slotq, tmp_path):
        (tmp_path / "jobs").mkdir()
        result = slotq("submit", "jobs", self.write("a.json", requests(1)))
        assert result.exit_code == ExitCode.USAGE
        assert "give one JOB_FOLDER" in result.stderr
