"""Who a caller is: a table of ARNs, and the patterns of roles."""

from __future__ import annotations

import re
from typing import Any

import pytest

from slotq_core.errors import InvalidRequest, TooManyWaiting
from slotq_core.model.callers import fits
from slotq_core.model.jobs import Job
from slotq_core.model.sharing import Sharing
from slotq_core.operations.status import JobFilter
from slotq_core.privacy.identity import BY_DEFAULT, People, fault_in
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.writing import written
from slotq_core.wire.limits_definition import limits_from
from slotq_core.wire.submission import parse_submission
from tests.queue_world import START, QueueWorld, pool, request
from tests.work import counted_lines

STS = "arn:aws:sts::123456789012:assumed-role"
SSO = f"{STS}/AWSReservedSSO_Research_0a1b2c3d4e5f6071"
OF_PROVIDER = "the role's sessions are named by the identity provider (AWSReservedSSO_*)"
CHOSEN = (
    "the session name of this role is chosen by the caller who assumes it, so the role alone counts"
)
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
        ("R" * 512, ""),
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
    ("pattern", "caller", "meant"),
    [
        (f"{STS}/Research/*", f"{STS}/Research/ada", True),
        (f"{STS}/Research", f"{STS}/Research/ada", True),
        ("arn:aws:sts::123456789012:*", f"{STS}/Research/ada", True),
        # Whoever assumes the role chooses the session name, which may look like anything.
        (f"{STS}/Research/ada", f"{STS}/Research/ada", False),
        (f"{STS}/Research/a*", f"{STS}/Research/ada", False),
        ("*/ada@example.org", f"{STS}/Lab/ada@example.org", False),
        ("*ada*", f"{STS}/Lab/ada", False),
        ("*AWSReservedSSO_Research*", f"{STS}/Lab/AWSReservedSSO_Research", False),
        (f"{SSO}/ada", f"{SSO}/ada", True),
        (f"{SSO}/ada", f"{SSO}/bob", False),
        (f"{SSO}/*", f"{SSO}/bob", True),
        (SSO, f"{SSO}/bob", True),
        ("arn:aws:iam::123456789012:role/Research", f"{STS}/Research/ada", True),
        ("arn:aws:iam::*:role/Res*", f"{STS}/Research/ada", True),
        ("arn:aws:iam::210987654321:role/Research", f"{STS}/Research/ada", False),
        ("arn:aws-cn:iam::123456789012:role/Research", f"{STS}/Research/ada", False),
        # Callers' ARNs do not show the path.
        ("arn:aws:iam::123456789012:role/team/Research", f"{STS}/Research/ada", False),
        ("arn:aws:iam::*:user/ada", "arn:aws:iam::123456789012:user/ada", True),
        ("arn:aws:iam::*:user/ada", "arn:aws:iam::123456789012:user/x/ada", False),
    ],
)
def test_a_pattern_means_nobody_by_a_chosen_name(pattern: str, caller: str, *, meant: bool):
    assert BY_DEFAULT.fit(pattern, caller) is meant


def document(**people: Any) -> dict[str, Any]:
    pools = [{"name": "p5", "capacity": 2, "instance_type": "ml.p5.48xlarge"}]
    return {"pools": pools, "people": people}


@pytest.mark.parametrize("roles", [[], ["Research", "AWSReservedSSO_*"], [f"{STS}/Research*"]])
def test_a_configuration_says_whose_sessions_are_persons(roles: list[str]):
    settings = read(document(session_roles=roles))
    assert settings.sharing.session_roles == tuple(roles)
    assert written(settings)["people"] == {"session_roles": roles}


def test_a_configuration_without_people_has_the_default():
    settings = read(document())
    assert People(session_roles=settings.sharing.session_roles) == BY_DEFAULT
    assert "people" not in written(settings)


def test_all_faults_of_the_patterns_are_reported_with_their_places():
    with pytest.raises(InvalidRequest) as refused:
        read(document(session_roles=["Research", "*", "/x", 7, "R" * 10_000]))
    for place, said in enumerate(("every role", "no role", "a text of 1 to", "a text of 1 to"), 1):
        assert re.search(rf"people\.session_roles\[{place}\].*{said}", refused.value.message)


def test_the_queue_follows_the_configured_people():
    world = QueueWorld(pool())
    world.store.configuration.change(limits=limits_from({"waiting": 1}), who="test", now=START)

    def submit(name: str, session: str) -> Job:
        submission, body = parse_submission({**request(name), "Environment": {"TOKEN": "s3cr3t"}})
        caller = f"{STS}/Research/{session}"
        return world.manager.submissions.submit(submission, body, submitter=caller).job

    def seen(name: str, session: str) -> bool:
        return not world.manager.jobs.request(name, by=f"{STS}/Research/{session}").withheld

    assert submit("a", "ada").person == f"{STS}/Research"
    assert seen("a", "bob")
    with pytest.raises(TooManyWaiting):
        submit("b", "bob")
    shared = Sharing(session_roles=("Research",))
    world.store.configuration.change(sharing=shared, who="test", now=START)
    assert (
        world.store.configuration.read().people.person(f"{STS}/Research/bob")
        == f"{STS}/Research/bob"
    )
    assert submit("b", "bob").person == f"{STS}/Research/bob"
    assert (seen("a", "ada"), seen("a", "bob"), seen("b", "bob")) == (True, False, True)
    mine = JobFilter(submitter=f"{STS}/Research/bob")
    assert [it.job.name for it in world.manager.jobs.statuses(wanted=mine)] == ["b"]
    assert world.job("a").person == f"{STS}/Research"


def test_no_pattern_makes_the_match_slow():
    """A search that tries every way to match takes longer than the universe lasts."""
    assert not fits("*a" * 255 + "*b", "a" * 2048)
    assert counted_lines(lambda: fits("*a" * 255 + "*b", "a" * 2048)) < 10 * (512 + 2048)
