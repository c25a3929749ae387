"""Who a caller is: a table of ARNs, and the patterns of roles."""

from __future__ import annotations

import time

import pytest

from slotq_core.privacy.identity import BY_DEFAULT, People, fault_in
from slotq_core.privacy.patterns import LONGEST_PATTERN, fits

STS = "arn:aws:sts::123456789012:assumed-role"
SSO = f"{STS}/AWSReservedSSO_Research_0a1b2c3d4e5f6071"
OF_PROVIDER = "the role's sessions are named by the identity provider (AWSReservedSSO_*)"
CHOSEN = "the session name of this role is chosen by whoever assumes it, so the role alone counts"
NO_SESSION = "the caller is no session of a role, so the whole ARN counts"


@pytest.mark.parametrize(
    ("arn", "person", "why"),
    [
        (f"{SSO}/ada@example.org", f"{SSO}/ada@example.org", OF_PROVIDER),
        (f"{STS}/Research/ada", f"{STS}/Research", CHOSEN),
        (f"{STS}/Studio/SageMaker", f"{STS}/Studio", CHOSEN),
        (f"{STS}/Research/botocore-session-1795170600", f"{STS}/Research", CHOSEN),
        # The account, the partition and the whole name of the role are part of the person.
        (f"{SSO.replace('0a1b', 'ffff')}/ada", f"{SSO.replace('0a1b', 'ffff')}/ada", OF_PROVIDER),
        (
            "arn:aws-cn:sts::123456789012:assumed-role/AWSReservedSSO_R_0a/ada",
            "arn:aws-cn:sts::123456789012:assumed-role/AWSReservedSSO_R_0a/ada",
            OF_PROVIDER,
        ),
        (
            "arn:aws-us-gov:sts::210987654321:assumed-role/Research/ada",
            "arn:aws-us-gov:sts::210987654321:assumed-role/Research",
            CHOSEN,
        ),
        # Names of roles are told apart by case, and the pattern fits the whole name.
        (f"{STS}/awsreservedsso_R_0a/ada", f"{STS}/awsreservedsso_R_0a", CHOSEN),
        (f"{STS}/MyAWSReservedSSO_R_0a/ada", f"{STS}/MyAWSReservedSSO_R_0a", CHOSEN),
        (f"{STS}/Research/AWSReservedSSO_R_0a", f"{STS}/Research", CHOSEN),
        (f"{SSO}/Ada", f"{SSO}/Ada", OF_PROVIDER),
        # No session of a role.
        *(
            (arn, arn, NO_SESSION)
            for arn in (
                "arn:aws:iam::123456789012:user/ada",
                "arn:aws:iam::123456789012:user/AWSReservedSSO_R/ada",
                "arn:aws:iam::123456789012:root",
                "arn:aws:sts::123456789012:federated-user/ada",
                "arn:aws:iam::123456789012:role/service/Research",
                f"{STS}/Research",
                f"{STS}/Research/",
                f"{STS}//ada",
                "ada",
                "",
            )
        ),
        # STS allows neither a slash nor a line break in a session name.
        (f"{STS}/Research/a/b\nc", f"{STS}/Research", CHOSEN),
    ],
)
def test_the_person_behind_a_caller(arn: str, person: str, why: str):
    assert BY_DEFAULT.person(arn) == person
    assert BY_DEFAULT.person(person) == person
    assert BY_DEFAULT.why(arn) == why


@pytest.mark.parametrize(
    ("patterns", "whole"),
    [
        ((), False),
        (("Research",), True),
        (("Res*", "AWSReservedSSO_*"), True),
        (("Research*x",), False),
        (("research",), False),
        ((f"{STS}/Research",), True),
        (("arn:aws:sts::*:assumed-role/Research",), True),
        (("arn:aws:sts::210987654321:assumed-role/Research",), False),
        # A pattern fits the role, never the session.
        ((f"{STS}/Research/ada",), False),
        (("*/ada",), False),
    ],
)
def test_patterns_say_whose_sessions_are_persons(patterns: tuple[str, ...], *, whole: bool):
    people = People(session_roles=patterns)
    assert people.person(f"{STS}/Research/ada") == f"{STS}/Research" + "/ada" * whole
    assert ("identity provider" in people.why(f"{STS}/Research/ada")) is whole


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("AWSReservedSSO_*", ""),
        ("Research-*.lab@x,+=_", ""),
        ("arn:aws-cn:sts::123456789012:assumed-role/Research*", ""),
        ("arn:*:sts::*:assumed-role/AWSReservedSSO_*", ""),
        ("R" * LONGEST_PATTERN, ""),
        ("R" * (LONGEST_PATTERN + 1), "1 to 512 characters"),
        ("", "1 to 512 characters"),
        ("*", "matches every role"),
        ("***", "matches every role"),
        ("arn:aws:sts::123456789012:assumed-role/*", "matches every role"),
        ("arn:*", "matches no role"),
        ("/aws-reserved/*", "without their paths"),
        ("arn:aws:iam::123456789012:role/Research", "matches no role"),
        (f"{STS}/Research/*", "matches no role"),
        ("Research Team", "matches no role"),
        ("Forschung-Ü", "matches no role"),
    ],
)
def test_a_pattern_that_cannot_be_meant_is_faulted(pattern: str, said: str):
    assert said in fault_in(pattern)
    assert bool(fault_in(pattern)) is bool(said)


@pytest.mark.parametrize(
    ("pattern", "text", "fitting"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*b*", "abc", True),
        ("*ab*ab*", "xabyab", True),
        ("*ab*ab", "abxab", True),
        ("*ab*b", "ab", False),
        ("*abc*bc", "abcbc", True),
        ("", "", True),
        ("", "a", False),
        ("**", "", True),
        ("a.c", "abc", False),
        ("a*c", "a\nc", True),
    ],
)
def test_a_pattern_fits_the_whole_text(pattern: str, text: str, *, fitting: bool):
    assert fits(pattern, text) is fitting


def test_no_pattern_makes_the_match_slow():
    """A search that tries every way to match takes longer than the universe lasts."""
    begun = time.process_time()
    for _ in range(100):
        assert not fits("*a" * 255 + "*b", "a" * 2048)
    assert time.process_time() - begun < 1
