"""The section `notifications` of a configuration document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.sharing_documents import packed, unpacked
from slotq_core.errors import InvalidRequest
from slotq_core.model.notices import Digest, JobEvent, Notification, Receiver
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.differences import differences
from slotq_core.wire.document.writing import written

POOLS = [{"name": "p5", "capacity": 2, "instance_type": "ml.p5.48xlarge"}]
REFERENCE = "ssm:/slotq/notifications/vision"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:jobs"
RULES: list[dict[str, Any]] = [
    {"name": "everything", "for": "all", "to": {"sns": TOPIC}},
    {
        "name": "vision",
        "for": {"project": "vision"},
        "to": {"slack": REFERENCE},
        "events": ["failed", "stuck"],
        "stuck_after": 7200,
    },
    {
        "name": "ada",
        "for": {"person": "arn:aws:iam::123456789012:user/ada"},
        "to": {"webhook": "https://hooks.example.com/slotq", "secret": REFERENCE},
        "events": [],
        "digest": "daily",
    },
]


def document(*rules, **sections):
    return {"pools": POOLS, "projects": [{"name": "vision"}], "notifications": [*rules], **sections}


def test_rules_are_read_and_written():
    given = document(*RULES)
    settings = read(given)
    assert settings.sharing.notifications == (
        Notification(name="everything", receiver=Receiver(channel="sns", place=TOPIC)),
        Notification(
            name="vision",
            project="vision",
            receiver=Receiver(channel="slack", place=REFERENCE),
            events=(JobEvent.FAILED, JobEvent.STUCK),
            stuck_after=7_200_000,
        ),
        Notification(
            name="ada",
            person="arn:aws:iam::123456789012:user/ada",
            receiver=Receiver(
                channel="webhook", place="https://hooks.example.com/slotq", secret=REFERENCE
            ),
            events=(),
            digest=Digest.DAILY,
        ),
    )
    assert written(settings)["notifications"] == RULES
    assert read(written(settings)) == settings


def test_rules_are_kept_and_cost_nothing_where_there_are_none():
    sharing = read(document(*RULES)).sharing
    assert unpacked(packed(sharing)) == (sharing, None)
    without = read(document()).sharing
    assert unpacked(packed(without)) == (without, None)


def test_a_changed_rule_is_a_difference_by_name():
    before, after = read(document(*RULES)), read(document(*RULES[1:]))
    (found,) = differences(before, after)
    assert (found.section, found.name, found.after) == ("notifications", "everything", None)
    assert found.before == RULES[0]


SECRET = "hunter2hunter2"
SLACK = f"https://hooks.slack.com/services/T0/B0/{SECRET}"


@pytest.mark.parametrize(
    ("changes", "path", "said"),
    [
        ({"name": "a b"}, "name", "use 1 to"),
        ({"for": None}, "for", "one of {project: NAME}"),
        ({"for": {"project": "speech"}}, "for.project", "there is no project 'speech'"),
        ({"for": {"person": "ada"}}, "for", "a person is an ARN"),
        ({"for": {"team": "x"}}, "for", "one of {project: NAME}"),
        ({"for": {"project": "vision", "person": "arn:x"}}, "for", "one of {project: NAME}"),
        ({"to": SLACK}, "to", "one of {sns: ARN}"),
        ({"to": {}}, "to", "exactly one of sns, slack, webhook"),
        ({"to": {"sns": TOPIC, "slack": REFERENCE}}, "to", "exactly one of"),
        ({"to": {SLACK: 1}}, "to", "its keys are sns, slack, webhook, secret"),
        ({"to": {"slack": SLACK}}, "to.slack", "not the secret itself"),
        ({"to": {"webhook": "https://e.example/x"}}, "to.secret", "needs a secret"),
        (
            {"to": {"webhook": "https://e.example/x", "secret": SECRET}},
            "to.secret",
            "not the secret itself",
        ),
        ({"to": {"webhook": SLACK, "secret": REFERENCE}}, "to.webhook", "write slack instead"),
        ({"to": {"sns": TOPIC, "secret": REFERENCE}}, "to.secret", "only messages to a webhook"),
        ({"to": {"sns": SECRET}}, "to.sns", "the ARN of an SNS topic"),
        ({"events": ["exploded"]}, "events[0]", "one of 'started'"),
        ({"events": []}, "events", "name an event, or write digest: daily"),
        ({"events": ["failed"], "stuck_after": 60}, "stuck_after", "add stuck to the events"),
        ({"stuck_after": 0}, "stuck_after", "more than 0 seconds"),
        ({"digest": "hourly"}, "digest", "one of 'daily'"),
        ({"evnts": []}, "evnts", "did you mean 'events'?"),
    ],
)
def test_each_wrong_thing_has_its_message_and_no_secret_is_repeated(changes, path, said):
    with pytest.raises(InvalidRequest) as refused:
        read(document({**RULES[0], **changes}))
    paths = [where for where, _ in refused.value.faults] or [refused.value.field]
    assert f"notifications[0].{path}" in paths, refused.value
    told = json.dumps([str(refused.value), refused.value.faults])
    assert said in told
    assert SECRET not in told


def test_names_are_unique_and_rules_are_few():
    with pytest.raises(InvalidRequest, match="exists already"):
        read(document(RULES[0], RULES[0]))
    with pytest.raises(InvalidRequest, match="at most 200"):
        read(document(*({**RULES[0], "name": f"r{n}"} for n in range(201))))


@pytest.mark.parametrize("word", ["completed", "finished"])
def test_the_end_of_a_job_has_two_words(word):
    """A rule says the state's own word or the event's; what is kept is the event's."""
    settings = read(document({**RULES[0], "events": [word]}))
    (rule,) = settings.sharing.notifications
    assert rule.events == (JobEvent.FINISHED,)
    assert written(settings)["notifications"][0]["events"] == ["finished"]
