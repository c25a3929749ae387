"""The table exported to a file and restored, with running and waiting jobs: nothing is lost or
started twice, and the queue continues. On the emulator's DynamoDB, and on DynamoDB Local."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slotq.cli.main import cli
from slotq_core.adapters.dynamodb.layout.table import table_definition
from slotq_core.adapters.dynamodb.repair.backup import BackupError, load_table, save_table
from slotq_core.timestamps import from_iso, iso, to_datetime
from tests.contract import dynamodb_local
from tests.functional.account import TABLE, Account, sample
from tests.functional.conftest import in_use

MINUTE = 60_000
HOUR = 60 * MINUTE


@pytest.fixture
def real(dynamodb_local_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    client = dynamodb_local.client(dynamodb_local_endpoint, retries={"total_max_attempts": 1})
    yield from in_use(Account(client), monkeypatch)
    client.delete_table(TableName=TABLE)


@pytest.fixture(params=["account", "real"])
def queue(request: pytest.FixtureRequest) -> Account:
    """One job has ended, one was evicted for another, two run, two wait."""
    account: Account = request.getfixturevalue(request.param)
    for name, priority in (("ended", 1), ("evicted", 1), ("runs", 2), ("urgent", 3)):
        submit(account, name, priority)
        if name == "evicted":
            account.completes("ended")
    submit(account, "waits", 1)
    return account


def submit(account: Account, name: str, priority: int = 1) -> None:
    tags = [{"Key": "priority", "Value": str(priority)}]
    secret = {"API_TOKEN": "hunter2"}
    account.submit(name, Tags=tags, Environment=secret)
    account.settle()


def states(account: Account) -> dict[str, str]:
    return {job["name"]: job["state"] for job in account.call("list-jobs")[1]["jobs"]}


def items(account: Account) -> list[Any]:
    """All but the moments of the last copy and restore, which a load adds."""
    kept = [item for item in account.items() if item["sk"]["S"] != "RESTORED"]
    return sorted(kept, key=lambda item: (item["pk"]["S"], item["sk"]["S"]))


def wiped(account: Account) -> Account:
    """Replace the table by an empty one of the same name."""
    account.dynamodb.delete_table(TableName=TABLE)
    account.dynamodb.create_table(**table_definition(TABLE))
    return account


BEFORE = {
    "ended": "completed",
    "evicted": "preempted",
    "runs": "running",
    "urgent": "running",
    "waits": "pending",
}


def test_a_restored_queue_continues(queue: Account, tmp_path: Path):
    assert states(queue) == BEFORE
    kept, request = items(queue), queue.call(get("runs", "/request"))
    path, clock = tmp_path / "queue.jsonl", queue.clock.now
    count = save_table(queue.dynamodb, TABLE, path, clock=clock)
    assert count == len(kept)
    assert states(wiped(queue)) == {}
    assert load_table(queue.dynamodb, TABLE, path, clock=clock) == count
    assert items(queue) == kept
    assert states(queue) == BEFORE
    assert queue.call(get("runs", "/request")) == request
    assert queue.call("examine")[1]["findings"] == []
    queue.completes("urgent")
    queue.completes("runs")
    assert states(queue) == {
        **BEFORE, "urgent": "completed", "runs": "completed", "evicted": "running",
        "waits": "running",
    }  # fmt: skip
    creates = queue.plane.calls["CreateTrainingJob"]
    assert creates == 6, "five jobs, of which one twice: nothing was started again"
    submit(queue, "new", 1)
    assert states(queue)["new"] == "pending"


def get(name: str, tail: str = "") -> dict[str, Any]:
    event = sample("get-request" if tail else "get-job")
    return {**event, "path": f"/jobs/{name}{tail}"}


def test_an_older_backup_is_reconciled_with_sagemaker(queue: Account, tmp_path: Path):
    """A job that ran has ended unseen. One that waited runs already: it is adopted, not started
    twice. One that the backup does not know is an orphan and is stopped."""
    path = tmp_path / "queue.jsonl"
    save_table(queue.dynamodb, TABLE, path, clock=queue.clock.now)
    queue.completes("urgent")
    assert states(queue)["evicted"] == "running"
    submit(queue, "later", 9)
    assert states(queue)["later"] == "running"
    load_table(wiped(queue).dynamodb, TABLE, path, clock=queue.clock.now)
    assert states(queue) == BEFORE
    for _ in range(8):
        queue.clock.set(queue.clock.now() + 2 * MINUTE)
        queue.send("tick")
        queue.call("mend")
        queue.settle()
    now = states(queue)
    assert "later" not in now
    assert now["urgent"] == "completed"
    assert queue.call("examine")[1]["findings"] == []
    live = [its.name for its in queue.plane.jobs() if its.status == "InProgress"]
    assert "later" not in live
    assert len(live) <= 2
    held = {job["training_job"] for job in queue.call("list-jobs")[1]["jobs"] if job["pool"]}
    assert held == set(live)


def test_a_job_evicted_since_the_copy_waits_again(queue: Account, tmp_path: Path):
    """Its training job was stopped, and the restored table knows of no stop."""
    path = tmp_path / "queue.jsonl"
    save_table(queue.dynamodb, TABLE, path, clock=queue.clock.now)
    before = queue.call(get("runs"))[1]
    queue.clock.set(queue.clock.now() + MINUTE)
    submit(queue, "later", 9)
    assert states(queue)["runs"] == "preempted"
    queue.completes("later")
    queue.completes("urgent")
    queue.clock.set(queue.clock.now() + MINUTE)
    load_table(wiped(queue).dynamodb, TABLE, path, clock=queue.clock.now)
    again(queue)
    job = queue.call(get("runs"))[1]
    assert (job["state"], job["entry_time"]) == ("running", before["entry_time"])
    assert "a restore of the queue's table (copied 20" in job["attempts"][0]["stopped_for"]
    assert len(job["attempts"]) == 2, "the attempt that ran meanwhile is taken over"
    assert states(queue)["urgent"] == "completed"


def test_a_stop_after_the_restore_ends_the_job(queue: Account, tmp_path: Path):
    path = tmp_path / "queue.jsonl"
    save_table(queue.dynamodb, TABLE, path, clock=queue.clock.now)
    load_table(wiped(queue).dynamodb, TABLE, path, clock=queue.clock.now)
    queue.clock.set(queue.clock.now() + MINUTE)
    queue.plane.handle("StopTrainingJob", {"TrainingJobName": "runs"})
    queue.settle()
    again(queue)
    job = queue.call(get("runs"))[1]
    assert (job["state"], job["message"]) == ("stopped", "stopped outside the queue")


def again(queue: Account) -> None:
    """Let the queue find out what has happened."""
    for _ in range(8):
        queue.clock.set(queue.clock.now() + 2 * MINUTE)
        queue.send("tick")
        queue.settle()


@pytest.fixture
def small(account: Account) -> Account:
    submit(account, "job1")
    return account


def test_a_change_during_the_export_is_noticed(small: Account, tmp_path: Path, monkeypatch):
    scan = small.dynamodb.scan

    def late(**asked: Any) -> Any:
        answer = scan(**asked)
        small.call("cancel-job")
        return answer

    class Disturbed:
        scan, describe_table = staticmethod(late), staticmethod(small.dynamodb.describe_table)

    with pytest.raises(BackupError, match="stop the queue first"):
        save_table(Disturbed(), TABLE, tmp_path / "queue.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_never_overwritten_and_is_readable_by_its_owner_alone(
    small: Account, tmp_path: Path
):
    path = tmp_path / "queue.jsonl"
    save_table(small.dynamodb, TABLE, path)
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    with pytest.raises(BackupError, match="exists already"):
        save_table(small.dynamodb, TABLE, path)
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_named(small: Account, tmp_path: Path):
    with pytest.raises(BackupError, match=r"nowhere/q\.jsonl cannot be written: No such file"):
        save_table(small.dynamodb, TABLE, tmp_path / "nowhere" / "q.jsonl")


BROKEN = {
    "half": lambda text: text[: len(text) // 2],
    "without its end": lambda text: "".join(text.splitlines(keepends=True)[:-1]),
    "an item is missing": lambda text: "".join(
        line for n, line in enumerate(text.splitlines(keepends=True)) if n != 2
    ),
    "an item was changed": lambda text: text.replace('"priority": {"N": "1"}', '"priority": {}', 1),
    "of another program": lambda text: '{"items": []}\n',
    "lines without a head": lambda text: "[1]\n2\n",
    "empty": lambda text: "",
    "no text": lambda text: "\udcff",
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN.keys())
def test_a_damaged_file_changes_nothing(small: Account, tmp_path: Path, damage):
    path = tmp_path / "queue.jsonl"
    save_table(small.dynamodb, TABLE, path)
    path.write_bytes(damage(path.read_text()).encode(errors="surrogateescape"))
    kept = items(small)
    with pytest.raises(BackupError):
        load_table(small.dynamodb, TABLE, path, replace=True)
    assert items(small) == kept


def test_a_table_with_items_is_replaced_only_on_request(small: Account, tmp_path: Path):
    path = tmp_path / "queue.jsonl"
    save_table(small.dynamodb, TABLE, path)
    kept = items(small)
    submit(small, "job2")
    there = items(small)
    with pytest.raises(BackupError, match="nothing was changed"):
        load_table(small.dynamodb, TABLE, path)
    assert items(small) == there != kept
    load_table(small.dynamodb, TABLE, path, replace=True)
    assert items(small) == kept


def test_unprocessed_items_are_sent_again(small: Account, tmp_path: Path):
    path, paused = tmp_path / "queue.jsonl", []
    save_table(small.dynamodb, TABLE, path)
    kept = items(small)

    class Reluctant:
        """Accepts half of each batch."""

        scan = staticmethod(small.dynamodb.scan)

        def batch_write_item(self, **request: Any) -> Any:
            asked = request["RequestItems"][TABLE]
            taken, left = asked[: len(asked) // 2 or 1], asked[len(asked) // 2 or 1 :]
            small.dynamodb.batch_write_item(RequestItems={TABLE: taken})
            return {"UnprocessedItems": {TABLE: left} if left else {}}

    load_table(Reluctant(), TABLE, path, replace=True, pause=paused.append)
    assert items(small) == kept
    assert paused


def test_every_type_of_attribute_is_restored(account: Account, tmp_path: Path):
    odd = {
        "pk": {"S": "ODD"}, "sk": {"S": "1"},
        "all": {"M": {"B": {"B": b"\0\xff"}, "S": {"S": "B"}, "L": {"L": [{"B": b"x"}]},
                      "N": {"N": "1"}, "NULL": {"NULL": True}}},
        "BS": {"BS": [b"a"]}, "SS": {"SS": ["s"]}, "BOOL": {"BOOL": False},
    }  # fmt: skip
    account.dynamodb.put_item(TableName=TABLE, Item=odd)
    save_table(account.dynamodb, TABLE, tmp_path / "file")
    load_table(account.dynamodb, TABLE, tmp_path / "file", replace=True)
    assert items(account) == [odd]


def slotq(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*words, "--region", "us-east-1"])
    return done.exit_code, done.output


def test_the_command_exports_and_restores(small: Account, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("boto3.client", lambda *_, **__: small.dynamodb)
    path = str(tmp_path / "queue.jsonl")
    kept, count = items(small), len(items(small))
    assert slotq("backup", "save", path, "--table", TABLE) == (
        0,
        f"{count} items saved from {TABLE}\n",
    )
    code, said = slotq("backup", "load", path, "--table", TABLE)
    assert (code, "nothing was changed" in said) == (1, True)
    code, said = slotq("backup", "load", path, "--table", TABLE, "--replace", "--json")
    assert (code, json.loads(said)) == (0, {"items": count, "table": TABLE})
    assert items(small) == kept
    code, said = slotq("backup", "save", path + "2", "--table", "no-such-table")
    assert (code, "no-such-table" in said or "not found" in said) == (2, True)


@pytest.mark.parametrize(
    ("due", "expected"),
    [(None, "2026-11-20T10:30:00.000Z"), ("2026-11-20T10:34:00Z", "2026-11-20T10:30:00.000Z"),
     ("2026-11-24T10:30:00Z", "2026-11-26T00:00:00.000Z")],
)  # fmt: skip
def test_a_copy_by_dynamodb_is_as_old_as_it_says(
    small: Account, tmp_path: Path, due: str | None, expected: str
):
    """Unless the table has been a queue's since, as its reconciliations tell."""
    key = {"pk": {"S": "SCHEDULER"}, "sk": {"S": "reconcile"}}
    small.dynamodb.delete_item(TableName=TABLE, Key=key)
    if due:
        item = {**key, "nextAt": {"N": str(from_iso(due))}}
        small.dynamodb.put_item(TableName=TABLE, Item=item)

    class Restored:
        """The client of a table that DynamoDB has restored."""

        scan = staticmethod(small.dynamodb.scan)
        get_item = staticmethod(small.dynamodb.get_item)

        @staticmethod
        def describe_table(**_: Any) -> Any:
            moment = to_datetime(from_iso("2026-11-20T10:30:00Z"))
            return {"Table": {"RestoreSummary": {"RestoreDateTime": moment}}}

    path = tmp_path / "queue.jsonl"
    save_table(Restored(), TABLE, path, clock=lambda: from_iso("2026-11-26T00:00:00Z"))
    load_table(small.dynamodb, TABLE, path, replace=True)
    (row,) = [item for item in small.items() if item["sk"]["S"] == "RESTORED"]
    assert row["copiedAt"] == {"S": expected}


def test_the_moment_of_the_copy_may_be_given(small: Account, tmp_path: Path):
    path = tmp_path / "queue.jsonl"
    save_table(small.dynamodb, TABLE, path)
    load_table(small.dynamodb, TABLE, path, replace=True, copied_at=0, clock=lambda: MINUTE)
    (row,) = [item for item in small.items() if item["sk"]["S"] == "RESTORED"]
    assert (row["copiedAt"]["S"], row["restoredAt"]["S"]) == (iso(0), iso(MINUTE))


@pytest.mark.parametrize(
    "copied_at",
    ["x", 5, None, ["2026"], "2026-11-20T10:30:00", "0001-01-01T00:00:00+14:00", iso(10 * HOUR)],
)
def test_a_file_of_no_possible_moment_changes_nothing(
    small: Account, tmp_path: Path, copied_at: object
):
    path, there = tmp_path / "queue.jsonl", small.items()
    save_table(small.dynamodb, TABLE, path)
    head, *rest = path.read_text().splitlines(keepends=True)
    changed = {**json.loads(head), "copied_at": copied_at}
    path.write_text(json.dumps(changed) + "\n" + "".join(rest))
    with pytest.raises(BackupError, match="moment"):
        load_table(small.dynamodb, TABLE, path, replace=True, clock=lambda: HOUR)
    assert small.items() == there


def test_a_copy_is_never_later_than_its_restore(small: Account, tmp_path: Path):
    """The clock of who saved was a little ahead."""
    path = tmp_path / "queue.jsonl"
    save_table(small.dynamodb, TABLE, path, clock=lambda: 2 * MINUTE)
    load_table(small.dynamodb, TABLE, path, replace=True, clock=lambda: MINUTE)
    (row,) = [item for item in small.items() if item["sk"]["S"] == "RESTORED"]
    assert (row["copiedAt"]["S"], row["restoredAt"]["S"]) == (iso(MINUTE), iso(MINUTE))


LIES = {
    "no moments": {},
    "numbers": {"copiedAt": {"N": "1"}, "restoredAt": {"N": "2"}},
    "without an offset": {
        "copiedAt": {"S": "2026-11-20T00:00:00"},
        "restoredAt": {"S": "2026-11-21T00:00:00"},
    },
    "the copy is later": {"copiedAt": {"S": iso(HOUR)}, "restoredAt": {"S": iso(0)}},
    "before all years": {
        "copiedAt": {"S": "0001-01-01T00:00:00+14:00"},
        "restoredAt": {"S": "9999-12-31T23:59:59-14:00"},
    },
    "in the future": {
        "copiedAt": {"S": iso(0)},
        "restoredAt": {"S": "2099-01-01T00:00:00.000Z"},
    },
}


@pytest.mark.parametrize("row", LIES.values(), ids=LIES)
def test_a_restore_that_cannot_be_counts_as_none_and_is_found(small: Account, row: dict[str, Any]):
    key = {"pk": {"S": "SCHEDULER"}, "sk": {"S": "RESTORED"}}
    small.dynamodb.put_item(TableName=TABLE, Item={**key, **row})
    small.plane.handle("StopTrainingJob", {"TrainingJobName": "job1"})
    small.settle()
    again(small)
    assert states(small) == {"job1": "stopped"}
    (finding,) = small.call("examine")[1]["findings"]
    assert (finding["kind"], finding["mended"]) == ("restore", False)
    assert "SCHEDULER/RESTORED" in finding["text"]
