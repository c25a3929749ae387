"""Limits as pure decisions: the caller they count for, refusals, and their text form."""

from __future__ import annotations

import pytest

from slotq_core.adapters.deployment_settings import limits_from_environment, parse_limits
from slotq_core.admission.caller_limits import (
    caller_refusal,
    check_priority,
    check_queue,
    counted_as,
    lines_of_one,
    of_caller,
    opens_lines,
    payers,
)
from slotq_core.errors import (
    InvalidRequest,
    Misconfigured,
    PriorityTooHigh,
    QueueFull,
    TooManySubmissions,
    TooManyWaiting,
)
from slotq_core.model.callers import (
    NO_LIMITS,
    CallerLimits,
    CallerUse,
    Limits,
    OpenLine,
    QueueUse,
    opener_mark,
)
from slotq_core.privacy.identity import BY_DEFAULT
from slotq_core.wire.limits_definition import limit_settings, limits_from

ADA = "arn:aws:iam::123456789012:user/ada"
CI = "arn:aws:sts::123456789012:assumed-role/ci/run-7"
SETTINGS = {
    "waiting": 5,
    "submissions": 6,
    "priority": 7,
    "waiting_in_all": 8,
    "lines": 9,
    "callers": [
        {"callers": "arn:aws:sts::*:assumed-role/ci/*", "together": True, "waiting": 50},
        {"callers": "*/run-7", "waiting": 1},
        {"callers": "*/admin", "priority": 0},
    ],
}
LIMITS = limits_from(SETTINGS)


def test_the_first_matching_rule_counts_and_other_limits_stay_the_default():
    assert of_caller(LIMITS, ADA) == CallerLimits(waiting=5, submissions=6, priority=7)
    assert of_caller(LIMITS, CI) == CallerLimits(waiting=50, submissions=6, priority=7)
    assert of_caller(LIMITS, "x/admin").priority == 0


ROLE = "arn:aws:sts::123456789012:assumed-role/Research"
SSO = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Research_0a1b"


def test_each_person_is_a_caller_unless_a_rule_counts_them_together():
    def counted(limits: Limits, caller: str) -> str:
        return counted_as(limits, caller, BY_DEFAULT)

    assert counted(NO_LIMITS, ADA) == ADA
    assert counted(NO_LIMITS, f"{ROLE}/a") == counted(LIMITS, f"{ROLE}/b") == ROLE
    assert counted(NO_LIMITS, f"{SSO}/ada") == f"{SSO}/ada"
    assert counted(LIMITS, CI) == counted(LIMITS, CI + "8") == LIMITS.rules[0].callers
    assert counted(LIMITS, "x/admin") == "x/admin"


def test_a_rule_may_count_the_persons_of_a_role_together_or_one_session_apart():
    settings = [{"callers": f"{SSO}/*", "together": True}, {"callers": f"{ROLE}/x", "waiting": 1}]
    limits = limits_from({"waiting": 5, "callers": settings})
    assert counted_as(limits, f"{SSO}/ada", BY_DEFAULT) == f"{SSO}/*"
    assert counted_as(limits, f"{ROLE}/x", BY_DEFAULT) == ROLE
    assert of_caller(limits, f"{ROLE}/x").waiting == 1


@pytest.mark.parametrize(
    ("priority", "before", "refused"),
    [
        (7, None, False),
        (8, None, True),
        (-9, None, False),
        (9, 9, False),
        (8, 9, False),
        (9, 8, True),
    ],
)
def test_a_priority_above_the_limit_may_only_be_kept_or_lowered(priority, before, refused):
    if not refused:
        check_priority(LIMITS, priority, caller=ADA, before=before)
        return
    with pytest.raises(PriorityTooHigh, match=r"above 7, the largest.*use 7 or less"):
        check_priority(LIMITS, priority, caller=ADA, before=before)


def test_zero_is_no_limit():
    check_priority(NO_LIMITS, 1_000_000, caller=ADA)
    check_priority(LIMITS, 1_000_000, caller="x/admin")
    check_queue(NO_LIMITS, QueueUse(waiting=10**9))
    assert opens_lines(NO_LIMITS, QueueUse(lines=10**9))
    assert not NO_LIMITS.count_anything
    assert not limits_from({"priority": 3}).count_anything
    assert limits_from({"callers": [{"callers": "*", "waiting": 3}]}).count_anything


def test_all_callers_share_the_common_limit():
    check_queue(LIMITS, QueueUse(waiting=7))
    with pytest.raises(QueueFull, match="8 jobs of all callers wait, and the limit is 8") as full:
        check_queue(LIMITS, QueueUse(waiting=8))
    assert full.value.retry_after == 60
    assert opens_lines(LIMITS, QueueUse(lines=8))
    assert not opens_lines(LIMITS, QueueUse(lines=9))


def test_one_caller_may_open_a_tenth_of_the_lines():
    found = [lines_of_one(limits_from({"lines": most})) for most in (0, 1, 9, 50, 100, 128, 2000)]
    assert found == [0, 1, 9, 10, 10, 12, 200]


@pytest.mark.parametrize(
    ("opener", "inside", "payer"),
    [
        ("ada", [], "ada"),
        ("ada", ["bob", "ada"], "ada"),
        ("ada", ["bob", "cy"], "bob"),
        ("", ["bob"], "bob"),
        ("gone", [], None),
        ("", [], None),
    ],
)
def test_who_pays_for_a_line(opener, inside, payer):
    mark = opener_mark(opener) if opener else ""
    line = OpenLine(opener=mark, submitters=inside)
    found = payers(NO_LIMITS, BY_DEFAULT, [line], ["ada", "bob"])
    assert found == ({payer: 1} if payer else {})


def test_a_refusal_names_the_limit_and_the_time_to_retry():
    own = of_caller(LIMITS, ADA)
    full = caller_refusal(own, CallerUse(waiting=5, submissions=6), caller=ADA, now=0)
    assert isinstance(full, TooManyWaiting)
    fast = caller_refusal(own, CallerUse(waiting=4, submissions=6), caller=ADA, now=45_001)
    assert isinstance(fast, TooManySubmissions)
    assert fast.retry_after == 15
    assert "6 jobs in this minute, and the limit is 6 (submissions)" in fast.message
    last = caller_refusal(own, CallerUse(submissions=6), caller=ADA, now=59_999)
    assert last.retry_after == 1


def test_settings_survive_writing_and_reading():
    assert limits_from(limit_settings(LIMITS)) == LIMITS
    assert limits_from({"waiting": 3}, LIMITS).rules == LIMITS.rules


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("waiting", "waiting must be a whole number"),
        ("waiting=many", "whole number from 0"),
        ("speed=3", "'speed' is not one of waiting"),
        ("waiting=-1", "whole number"),
        ("{", "not JSON"),
        ('{"callers": [{}]}', "callers.0.callers"),
        ('{"callers": [{"callers": "*", "lines": 3}]}', "callers.0.lines"),
        ('{"callers": {}}', "a list of at most 50 rules"),
    ],
)
def test_a_malformed_setting_is_reported(text, said):
    with pytest.raises(Misconfigured, match="SLOTQ_LIMITS") as wrong:
        parse_limits(text)
    assert said in str(wrong.value)


def test_the_environment_can_leave_limits_unset_empty_or_set():
    assert limits_from_environment({}) is None
    assert limits_from_environment({"SLOTQ_LIMITS": ""}) == NO_LIMITS
    assert limits_from_environment({"SLOTQ_LIMITS": " waiting = 5 ,lines=2,"}) == limits_from(
        {"waiting": 5, "lines": 2}
    )


def test_a_setting_that_is_not_a_number_is_refused():
    for value in (True, None, 1.5, "x", [], 10**7):
        with pytest.raises(InvalidRequest):
            limits_from({"waiting": value})
