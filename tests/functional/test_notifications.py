"""People hear of their jobs: from the real handler's transactions, by the table's stream, at least
once and each change once."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

import notifier
from slotq_core.adapters.dynamodb.outbox import notices as outbox
from slotq_core.adapters.dynamodb.outbox.notices import change_in
from slotq_core.errors import NotDelivered, RightMissing, Unavailable
from slotq_core.notices.happenings import happenings
from slotq_core.operations.notices import DIGEST_AFTER, GIVE_UP, SLOWEST
from tests import cloudformation
from tests.functional.account import HOUR, Account, add_job, forget, sample
from tests.functional.notified import (
    MINUTE,
    REFERENCE,
    TOPIC,
    Died,
    Notified,
    notified,
    restart,
)
from tests.loopback import serving

pytestmark = pytest.mark.usefixtures("moto")
ALL = {"name": "all", "for": "all", "to": {"sns": TOPIC}}
DAY = 24 * HOUR


@pytest.fixture
def queue(account: Account, monkeypatch: pytest.MonkeyPatch) -> Notified:
    """A queue with one rule, which has not been asked for anything yet."""
    made = notified(account, monkeypatch)
    assert made.configure(ALL)[0] == 200
    return made


def run_and_evict(account: Account) -> None:
    """job1 runs, is evicted for an urgent one, runs again and completes."""
    account.call("add-job")
    account.settle()
    account.clock.set(account.clock.now() + 10 * MINUTE)
    account.call("add-job-urgent")
    account.settle()
    for _ in range(2):
        account.clock.set(account.clock.now() + HOUR)
        account.settle()


STORY = ["started", "evicted", "resumed", "finished"]


def events_of(queue: Notified, job: str = "job1") -> list[str]:
    return [event for name, event in queue.inbox.notifications if name == job]


def test_a_jobs_story_is_told_once_and_in_order(queue: Notified):
    run_and_evict(queue.account)
    queue.hear()
    assert events_of(queue) == STORY
    assert queue.kept("NOTICE#PENDING") == []
    evicted = queue.inbox.got[events_of(queue).index("evicted")]
    assert re.search(r"was evicted .* for [\w-]+", queue.inbox.got[1].text)
    assert len({each.id for each in queue.inbox.got}) == len(queue.inbox.got)
    assert evicted.training_job == "job1"


def test_the_sample_of_the_stream_is_what_it_tells_when_job1_starts(queue: Notified):
    queue.account.call("add-job")
    queue.account.settle()
    (wanted,) = (each for each in queue.batch()["Records"] if _tells(each))
    (record,) = sample("stream-job-started")["Records"]
    assert {key: record[key] for key in ("eventSource", "eventName")} == {
        key: wanted[key] for key in ("eventSource", "eventName")
    }
    images = ("Keys", "OldImage", "NewImage", "StreamViewType")
    for name in images:
        assert record["dynamodb"][name] == wanted["dynamodb"][name], name
    mapping = cloudformation.template()["Resources"]["JobsToNotifier"]["Properties"]
    (pattern,) = (json.loads(it["Pattern"]) for it in mapping["FilterCriteria"]["Filters"])
    assert record["eventName"] in pattern["eventName"]
    assert record["dynamodb"]["Keys"]["sk"]["S"] in pattern["dynamodb"]["Keys"]["sk"]["S"]


@pytest.mark.parametrize(("events", "told"), [(["started"], ["started"]), (["failed"], [])])
def test_the_sample_is_told_to_those_who_ask_for_it(queue: Notified, events, told):
    queue.configure({**ALL, "events": events})
    for _ in range(2):
        assert queue.invoke(sample("stream-job-started")) == {"batchItemFailures": []}
    assert events_of(queue) == told
    assert queue.kept("NOTICE#PENDING") == []


def test_messages_have_nothing_of_the_request(queue: Notified):
    run_and_evict(queue.account)
    queue.hear()
    told = repr(queue.inbox.got) + json.dumps(queue.kept("NOTICE#PENDING"))
    for content in ("sagemaker_program", "epochs", "RoleArn", "pytorch-training", "s3://"):
        assert content not in told


def test_repeated_reordered_and_split_batches_tell_nothing_twice(queue: Notified):
    run_and_evict(queue.account)
    records = queue.batch()["Records"]
    for part in (records[:3], records, records[::-1], records[2:]):
        assert queue.invoke({"Records": part}) == {"batchItemFailures": []}
    assert sorted(events_of(queue)) == sorted(STORY)


def test_a_batch_told_by_two_processes_at_once_is_told_once(queue: Notified, monkeypatch):
    """What the first has made, the second finds made."""
    run_and_evict(queue.account)
    batch = queue.batch()
    queue.invoke(copy.deepcopy(batch))
    restart(queue, monkeypatch)
    queue.invoke(batch)
    assert events_of(queue) == STORY


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_process_that_dies_at_a_send_leaves_the_message_to_the_next(queue, monkeypatch, dies):
    """At least once: a message whose sender died after the send comes again, with the same id."""
    run_and_evict(queue.account)
    queue.inbox.dies = dies
    with pytest.raises(Died):
        queue.invoke(queue.batch())
    queue.inbox.dies = ""
    restart(queue, monkeypatch)
    queue.hear()
    assert events_of(queue) == (STORY if dies == "after" else STORY[1:])
    queue.minute()
    assert len(queue.kept("NOTICE#PENDING")) == 1, "it may still be with its first sender"
    queue.minute(2)
    assert queue.kept("NOTICE#PENDING") == []
    assert sorted(set(events_of(queue))) == sorted(STORY)
    firsts = [each.id for each in queue.inbox.got if each.event == "started" and each.job == "job1"]
    assert len(firsts) == (2 if dies == "after" else 1)
    assert len(set(firsts)) == 1
    told = len(queue.inbox.got)
    queue.minute(10)
    assert len(queue.inbox.got) == told


def test_a_process_that_dies_at_any_call_of_the_table_loses_nothing(queue, monkeypatch):
    """Crash before and after each call that the notifier makes."""
    run_and_evict(queue.account)
    batch = {"Records": [each for each in queue.batch()["Records"] if _tells(each)][:2]}
    calls = _calls_of(queue, monkeypatch, copy.deepcopy(batch), None)
    assert calls >= 6
    for point in range(2 * calls):
        for item in queue.account.items():
            if item["pk"]["S"].startswith("NOTICE#"):
                key = {"pk": item["pk"], "sk": item["sk"]}
                queue.account.dynamodb.delete_item(TableName="sagemaker-queue", Key=key)
        queue.inbox.got.clear()
        restart(queue, monkeypatch)
        with pytest.raises(Died):
            _calls_of(queue, monkeypatch, copy.deepcopy(batch), point)
        restart(queue, monkeypatch)
        assert queue.invoke(copy.deepcopy(batch)) == {"batchItemFailures": []}
        queue.minute(3)
        assert sorted(set(events_of(queue))) == sorted(STORY[:2]), point
        assert queue.kept("NOTICE#PENDING") == []


def _tells(record: dict[str, Any]) -> bool:
    change = change_in(record)
    return change is not None and any(happenings(change.before, change.after))


def _calls_of(queue: Notified, monkeypatch: Any, batch: Any, point: int | None) -> int:
    """How many calls of the table a batch makes. `point`: die before (even) or after (odd) one."""
    made = 0
    real = queue.account.dynamodb

    class Client:
        def __getattr__(self, name: str) -> Any:
            def call(**request: Any) -> Any:
                nonlocal made
                here, made = made, made + 1
                if point == 2 * here:
                    raise Died
                answer = getattr(real, name)(**request)
                if point == 2 * here + 1:
                    raise Died
                return answer

            return call

    with monkeypatch.context() as patch:
        patch.setattr(notifier, "client", lambda _: Client())
        notifier.notices.cache_clear()
        queue.invoke(batch)
    notifier.notices.cache_clear()
    return made


def test_a_receiver_that_is_down_delays_nobody_else_and_gets_everything_later(queue: Notified):
    other = {**ALL, "name": "other"}
    queue.configure(ALL, other)
    queue.inbox.refuses = {"other"}
    run_and_evict(queue.account)
    queue.hear()
    mine = [each for each in queue.inbox.got if each.job == "job1"]
    assert [(each.notification, each.event) for each in mine] == [("all", it) for it in STORY]
    queue.inbox.refuses.clear()
    queue.minute(2)
    late = [each.event for each in queue.inbox.got if each.notification == "other"]
    assert sorted(late) == sorted(
        each.event for each in queue.inbox.got if each.notification == "all"
    )
    assert queue.kept("NOTICE#PENDING") == []


def test_a_receiver_that_takes_long_is_called_once_in_a_batch(queue: Notified, monkeypatch):
    """Each call of it may take ten seconds, while the others' messages wait."""
    queue.configure({**ALL, "name": "slow"}, {**ALL, "name": "well"})
    run_and_evict(queue.account)
    send, clock, calls = queue.inbox.send, queue.account.clock, []

    def slow(message, receiver, *, now):
        if message.notification == "slow":
            calls.append(message.id)
            clock.set(clock.now() + 10_000)
            raise NotDelivered("it takes too long")
        send(message, receiver, now=now)

    monkeypatch.setattr(queue.inbox, "send", slow)
    queue.hear()
    assert len(calls) == 1
    assert events_of(queue) == STORY


def test_a_rule_that_goes_to_others_takes_no_old_messages_along(queue: Notified):
    """Those who hear by it now may not see the jobs that it was about."""
    queue.inbox.refuses = {"all"}
    run_and_evict(queue.account)
    queue.hear()
    assert queue.kept("NOTICE#PENDING")
    bob = {"person": "arn:aws:iam::123456789012:user/bob"}
    assert queue.configure({**ALL, "for": bob})[0] == 200
    queue.inbox.refuses.clear()
    queue.minute(5)
    assert (queue.inbox.got, queue.kept("NOTICE#PENDING")) == ([], [])


def test_pauses_grow_and_a_day_later_a_message_is_given_up(queue: Notified, capsys):
    queue.inbox.refuses = {"all"}
    queue.account.call("add-job")
    queue.account.settle()
    queue.hear()
    tried, now = [], queue.account.clock.now()
    (item,) = queue.kept("NOTICE#PENDING")
    while True:
        due = int(item["due"]["N"])
        tried.append((due - queue.account.clock.now()) // MINUTE)
        queue.account.clock.set(due)
        queue.invoke(sample("tick"))
        left = queue.kept("NOTICE#PENDING")
        if not left:
            break
        (item,) = left
    assert tried[:6] == [1, 2, 4, 8, 16, 30]
    assert queue.account.clock.now() - now >= GIVE_UP
    assert '"NotNotified"' in capsys.readouterr().out


def test_a_table_that_does_not_answer_gives_the_record_back_to_the_stream(queue, monkeypatch):
    run_and_evict(queue.account)
    records = queue.batch()["Records"]
    real, tries = outbox.DynamoOutbox.add, iter([False, True])

    def add(self, *args, **kwargs):
        if next(tries, False):
            raise Unavailable("throttled")
        return real(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(outbox.DynamoOutbox, "add", add)
        answer = queue.invoke({"Records": records})
    ((failed,),) = [answer["batchItemFailures"]]
    numbers = [each["dynamodb"]["SequenceNumber"] for each in records]
    rest = records[numbers.index(failed["itemIdentifier"]) :]
    assert 0 < len(rest) < len(records)
    assert queue.invoke({"Records": rest}) == {"batchItemFailures": []}
    assert events_of(queue) == STORY


def test_a_notifier_that_may_not_write_is_counted_as_failing(queue, monkeypatch, capsys):
    """The function ends well then, so no metric of Lambda's shows it."""
    run_and_evict(queue.account)
    records = queue.batch()["Records"]

    def denied(*_: Any, **__: Any) -> None:
        raise RightMissing("not authorized to perform: dynamodb:PutItem")

    monkeypatch.setattr(outbox.DynamoOutbox, "add", denied)
    capsys.readouterr()
    assert queue.invoke({"Records": records})["batchItemFailures"] != []
    assert '"Failure":[1.0]' in capsys.readouterr().out


@pytest.mark.parametrize("trigger", ["stream", "schedule"])
def test_an_unforeseen_error_takes_no_contents_out(queue, monkeypatch, capsys, trigger):
    run_and_evict(queue.account)
    event = queue.batch()
    if trigger == "schedule":
        queue.invoke(event, SLOWEST)  # Without time its messages stay.
        event = sample("tick")

    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("https://hooks.slack.com/services/T/B/secret")

    monkeypatch.setattr(queue.inbox, "send", broken)
    with pytest.raises(notifier.Failed) as told:
        queue.invoke(event)
    assert str(told.value) == "ValueError"
    out = capsys.readouterr().out
    assert '"Failure":[1.0]' in out
    assert "secret" not in out


def test_a_record_that_cannot_be_read_holds_up_nothing(queue: Notified, capsys):
    run_and_evict(queue.account)
    records = queue.batch()["Records"]
    broken = copy.deepcopy(records[0])
    broken["dynamodb"]["NewImage"]["jobState"] = {"S": "no-such-state"}
    odd = [broken, {}, "text", {"eventSource": "aws:dynamodb"}, {"eventSource": "aws:sqs"}]
    assert queue.invoke({"Records": [*odd, *records]}) == {"batchItemFailures": []}
    assert events_of(queue) == STORY
    out = capsys.readouterr().out
    assert '"Odd":[1.0,1.0,1.0]' in out
    assert "no-such-state" not in out


@pytest.mark.parametrize("name", ["message", "due", "since", "tries"])
@pytest.mark.parametrize("value", [{"S": "odd"}, {"N": "9" * 38}, {"NULL": True}])
def test_a_kept_message_that_cannot_be_read_holds_up_nothing(queue: Notified, name, value):
    run_and_evict(queue.account)
    queue.invoke(queue.batch(), SLOWEST)
    first, *rest = queue.kept("NOTICE#PENDING")
    assert rest
    queue.account.dynamodb.put_item(TableName="sagemaker-queue", Item={**first, name: value})
    queue.minute()
    assert len(queue.inbox.got) >= len(rest)
    assert len(queue.kept("NOTICE#PENDING")) <= 1


def test_without_time_messages_stay_for_the_next_run(queue: Notified):
    run_and_evict(queue.account)
    assert queue.invoke(queue.batch(), SLOWEST) == {"batchItemFailures": []}
    assert queue.inbox.got == []
    queue.minute()
    assert sorted(events_of(queue)) == sorted(STORY)


def test_only_the_rules_own_jobs_and_events_are_told(queue: Notified):
    ada = "arn:aws:sts::123456789012:assumed-role/DataScientist"
    rules = [
        {**ALL, "name": "hers", "for": {"person": ada}, "events": ["finished"]},
        {**ALL, "name": "his", "for": {"person": "arn:aws:iam::123456789012:user/bob"}},
    ]
    assert queue.configure(*rules)[0] == 200
    run_and_evict(queue.account)
    queue.hear()
    assert {(each.notification, each.event) for each in queue.inbox.got} == {("hers", "finished")}


def test_a_rule_that_is_gone_is_not_told_any_more(queue: Notified):
    queue.inbox.refuses = {"all"}
    queue.account.call("add-job")
    queue.account.settle()
    queue.hear()
    assert queue.kept("NOTICE#PENDING")
    queue.configure()
    queue.inbox.refuses.clear()
    queue.minute(2)
    assert (queue.inbox.got, queue.kept("NOTICE#PENDING")) == ([], [])


def test_a_job_that_waits_for_long_is_stuck_once_in_each_wait(queue: Notified):
    queue.configure({**ALL, "events": ["stuck"], "stuck_after": 1800})
    resources = json.loads(sample("add-job")["body"])["ResourceConfig"]
    queue.account.call(add_job(ResourceConfig={**resources, "InstanceCount": 2}))
    queue.account.call(add_job(TrainingJobName="job2"))
    queue.account.settle()
    for _ in range(5):
        queue.minute(5)
    assert queue.inbox.got == []
    for _ in range(4):
        queue.minute(5)
    assert queue.inbox.notifications == [("job2", "stuck")]
    assert "it has waited for 30 min; `slotq why job2`" in queue.inbox.got[0].text
    notifier.notices.cache_clear()
    queue.minute(5)
    assert queue.inbox.notifications == [("job2", "stuck")], "also by another process"


def test_the_digest_of_a_day_is_told_once(queue: Notified):
    queue.configure({**ALL, "events": [], "digest": "daily"})
    run_and_evict(queue.account)
    queue.hear()
    queue.account.call(add_job(TrainingJobName="job3"))
    queue.account.settle()
    queue.hear()
    queue.minute()
    assert queue.inbox.got == []
    midnight = -(-queue.account.clock.now() // DAY) * DAY
    queue.account.clock.set(midnight + DIGEST_AFTER - 2 * MINUTE)
    queue.minute()
    assert queue.inbox.got == [], "somebody may still count for that day"
    for _ in range(4):
        queue.minute()
    (told,) = queue.inbox.got
    assert (told.event, told.title) == ("digest", "All jobs on 2026-11-20")
    assert re.search(r"(\d) started, 1 evicted, 1 resumed, (\d) finished", told.text)
    assert queue.kept("NOTICE#DIGESTS") == []


def test_a_digest_counts_each_event_once(queue: Notified):
    queue.configure({**ALL, "events": [], "digest": "daily"})
    run_and_evict(queue.account)
    batch = queue.batch()
    for _ in range(3):
        queue.invoke(copy.deepcopy(batch))
    (counts,) = queue.kept("NOTICE#DIGESTS")
    assert counts["evicted"] == counts["resumed"] == {"N": "1"}


def test_a_digest_whose_maker_dies_is_made_once_by_the_next(queue, monkeypatch):
    queue.configure({**ALL, "events": [], "digest": "daily"})
    run_and_evict(queue.account)
    queue.hear()
    queue.account.clock.set(queue.account.clock.now() + DAY)

    def dies(*_: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(outbox.DynamoOutbox, "forget", dies)
        with pytest.raises(Died):
            queue.minute()
    for _ in range(3):
        queue.minute()
    assert [each.event for each in queue.inbox.got] == ["digest"]


def test_the_doctor_finds_nothing_odd_in_messages(queue: Notified):
    queue.configure({**ALL, "digest": "daily"})
    queue.inbox.refuses = {"all"}
    run_and_evict(queue.account)
    queue.hear()
    assert queue.kept("NOTICE#PENDING")
    assert queue.kept("NOTICE#DIGESTS")
    status, answer = queue.account.call("examine")
    assert status == 200
    assert [each for each in answer["findings"] if "NOTICE" in json.dumps(each)] == []


def test_who_configures_what_nobody_will_hear_is_warned(queue: Notified, monkeypatch):
    (warning,) = queue.configure(ALL, {**ALL, "name": "other"})[1]["warnings"]
    assert "Notifications=true" in warning
    assert queue.configure()[1]["warnings"] == []
    monkeypatch.setenv("SLOTQ_NOTIFICATIONS", "true")
    forget()
    assert queue.configure(ALL)[1]["warnings"] == []


def test_queues_without_notifications_write_nothing(queue: Notified):
    queue.configure()
    run_and_evict(queue.account)
    queue.hear()
    queue.minute(5)
    assert [it for it in queue.account.items() if it["pk"]["S"].startswith("NOTICE")] == []


def test_a_rolled_back_transaction_is_not_in_the_stream(queue: Notified):
    """The emulator's stream is as exact as its table."""
    before = len(queue.batch()["Records"])
    put = {"TableName": "sagemaker-queue", "Item": {"pk": {"S": "JOB#x"}, "sk": {"S": "JOB"}}}
    check = {
        "TableName": "sagemaker-queue",
        "Key": {"pk": {"S": "none"}, "sk": {"S": "none"}},
        "ConditionExpression": "attribute_exists(pk)",
    }
    client = queue.account.dynamodb
    with pytest.raises(ClientError, match="TransactionCanceled"):
        client.transact_write_items(TransactItems=[{"Put": put}, {"ConditionCheck": check}])
    assert len(queue.batch()["Records"]) == before


def test_a_webhook_on_this_machine_gets_it_all(queue, monkeypatch):
    """Nothing in between is replaced: moto's Parameter Store, sockets, the signature."""
    with serving() as web:
        to = {"webhook": f"{web.url}/hook", "secret": REFERENCE}
        status, refused = queue.configure({**ALL, "to": to})
        assert (status, refused["field"]) == (400, "notifications[0].to.webhook")
        monkeypatch.setenv("SLOTQ_NOTIFICATIONS", "local")
        forget()
        assert queue.configure({**ALL, "to": to})[1]["warnings"] == []
        restart(queue, monkeypatch, real=True)
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        store = boto3.client("ssm", region_name="us-east-1", **keys)
        store.put_parameter(Name=REFERENCE[4:], Value="key", Type="SecureString")
        run_and_evict(queue.account)
        queue.hear()
        bodies = [json.loads(each.body) for each in web.got]
        assert [each["event"] for each in bodies if each["job"] == "job1"] == STORY
        assert all("SlotQ-Signature" in each.headers for each in web.got)
