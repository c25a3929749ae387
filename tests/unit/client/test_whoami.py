"""`slotq whoami`: the person, and how the queue decided it."""

from __future__ import annotations

import json

from slotq.cli.exits import ExitCode
from slotq_core.wire.views.about import MembershipView
from tests.unit.client.fake_queue import CALLER, FakeAnswer


def test_the_person_the_caller_and_the_reason_are_shown(slotq, queue):
    queue.person = "arn:aws:sts::123456789012:assumed-role/lab"
    result = slotq("whoami")
    assert result.exit_code == ExitCode.OK
    lines = [line.rstrip().split(maxsplit=1) for line in result.stdout.splitlines()]
    assert lines == [["person", queue.person], ["caller", CALLER], ["why", "an IAM user"]]


def test_a_program_reads_the_same(slotq, queue):
    told = json.loads(slotq("whoami", "--json").stdout)
    who = {"caller": CALLER, "person": CALLER, "why": "an IAM user"}
    assert told == {"version": 1, **who, "projects": [], "shared": True, "operates": True}


def test_the_roles_in_projects_are_shown(slotq, queue):
    queue.projects = [
        MembershipView(name="vision", role="member", default=True),
        MembershipView(name="speech", role="viewer", default=False),
    ]
    lines = [line.strip() for line in slotq("whoami").stdout.splitlines()[3:]]
    assert lines == ["projects  vision (member, your default)", "speech (viewer)"]


def test_who_may_not_ask_is_told_so(slotq, http):
    http.troubles.append(FakeAnswer(403, '{"Message": "User is not authorized to perform: it"}'))
    result = slotq("whoami")
    assert result.exit_code == ExitCode.NOT_ALLOWED
    assert "execute-api:Invoke" in result.stderr
