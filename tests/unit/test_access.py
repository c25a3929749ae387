"""Rights as a table: who a pattern names, which role that gives, which project is whose default."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.admission.access import Membership, Permissions
from slotq_core.errors import InvalidRequest, NotPermitted, ProjectNotAllowed
from slotq_core.model.callers import NEEDED, Access, Action, Role
from slotq_core.model.jobs import JobState
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from tests.contract.worlds import a_job

STS, IAM = "arn:aws:sts::1:assumed-role", "arn:aws:iam::1:role"
SESSION = f"{STS}/Research/ada"


@pytest.mark.parametrize(
    ("pattern", "caller"),
    [
        (f"{STS}/AWSReservedSSO_R_0/ada", f"{STS}/AWSReservedSSO_R_0/ada"),
        (f"{STS}/Research/*", SESSION),
        (f"{STS}/Research", SESSION),
        (f"{IAM}/Research", SESSION),
        ("arn:aws:iam::*:role/Res*", SESSION),
        (f"{STS}/*", SESSION),
        ("arn:aws:sts::1:*", SESSION),
        ("*", SESSION),
        ("arn:aws:iam::1:user/*", "arn:aws:iam::1:user/team/ada"),
        ("arn:aws:iam::1:root", "arn:aws:iam::1:root"),
        ("arn:aws:sts::1:federated-user/*", "arn:aws:sts::1:federated-user/ada"),
        ("arn:aws-cn:iam::1:role/R", "arn:aws-cn:sts::1:assumed-role/R/s"),
    ],
)
def test_a_pattern_names_a_caller(pattern: str, caller: str):
    assert Permissions(operators=("arn:aws:iam::9:user/x", pattern)).is_operator(caller)


@pytest.mark.parametrize(
    ("pattern", "caller"),
    [
        (f"{STS}/Admin/*", f"{STS}/Intern/Admin"),
        (f"{STS}/*Admin", f"{STS}/Intern/Admin"),
        (f"{STS}/*-admin", f"{STS}/intern/x-admin"),
        (f"{IAM}/*Admin", f"{STS}/Intern/Admin"),
        (f"{STS}/Admin/*", f"{STS}/Intern/{STS}/Admin/x"),
        ("*:assumed-role/Admin/*", f"{STS}/Intern/:assumed-role/Admin/x"),
        (f"{IAM}/Admin", f"{STS}/Intern/{IAM}/Admin"),
        (f"{STS}/Admin", f"{STS}/Administrator/ada"),
        (f"{IAM}/team/Research", SESSION),
        ("arn:aws:iam::2:role/Research", SESSION),
        ("arn:aws:iam::1:user/ada", "arn:aws:iam::1:user/*"),
        ("arn:aws:iam::1:user/ada", "arn:aws:iam::1:user/ADA"),
        ("arn:aws:iam::1:user/ada", "arn:aws:iam::1:user/ada\n"),
        ("arn:aws:iam::1:user/a.a", "arn:aws:iam::1:user/aba"),
        (SESSION, SESSION),
        ("*/ada", SESSION),
        ("", SESSION),
    ],
)
def test_a_pattern_does_not_name_others(pattern: str, caller: str):
    assert not Permissions(operators=(pattern,)).is_operator(caller)


def project(name: str, **access: tuple[str, ...]) -> Project:
    return Project(name=name, access=Access(**access))


A = project("a", members=("ann",), viewers=("vic", "ann"), default_for=("bob",))
B = project("b", members=("bob", "ann"), admins=("bob",), default_for=("bob", "vic"))
C = project("c", members=("cid",))
SHARED = Sharing(projects=(A, B, C), operators=("olga",))
PERMISSIONS = Permissions(sharing=SHARED, operators=("root",))


@pytest.mark.parametrize(
    ("who", "roles"),
    [
        ("ann", [Role.MEMBER, Role.MEMBER, Role.NOBODY]),
        ("bob", [Role.NOBODY, Role.ADMIN, Role.NOBODY]),
        ("vic", [Role.VIEWER, Role.NOBODY, Role.NOBODY]),
        ("olga", [Role.OPERATOR] * 3),
        ("root", [Role.OPERATOR] * 3),
        ("eve", [Role.NOBODY] * 3),
    ],
)
def test_the_largest_of_the_named_roles_counts(who: str, roles: list[Role]):
    assert [PERMISSIONS.role(who, each.name) for each in SHARED.projects] == roles
    assert PERMISSIONS.role(who, "gone") == (
        Role.OPERATOR if Role.OPERATOR in roles else Role.NOBODY
    )


@pytest.mark.parametrize(
    ("who", "default"),
    [("ann", None), ("bob", "b"), ("vic", None), ("cid", "c"), ("olga", None), ("eve", None)],
)
def test_a_default_is_named_or_the_only_one(who: str, default: str | None):
    found = PERMISSIONS.default(who)
    assert (found.name if found else None) == default


def test_the_first_of_several_defaults_counts():
    both = Sharing(projects=(replace(A, access=replace(A.access, members=("bob",))), B))
    found = Permissions(sharing=both).default("bob")
    assert found is not None and found.name == "a"


def test_an_operator_who_is_a_member_of_one_project_has_it_by_default():
    shared = replace(SHARED, operators=("cid",))
    found = Permissions(sharing=shared).default("cid")
    assert found is not None and found.name == "c"


def test_memberships_tell_the_roles_of_a_caller():
    assert PERMISSIONS.memberships("ann") == (
        Membership(project="a", role=Role.MEMBER, default=False),
        Membership(project="b", role=Role.MEMBER, default=False),
    )
    assert PERMISSIONS.memberships("bob") == (
        Membership(project="b", role=Role.ADMIN, default=True),
    )
    assert [each.role for each in PERMISSIONS.memberships("root")] == [Role.OPERATOR] * 3
    assert PERMISSIONS.memberships("eve") == ()


def test_a_project_must_be_there_and_usable():
    assert PERMISSIONS.project_for("a", "ann") == A
    for wanted, who in (("c", "ann"), ("A", "ann"), ("a*", "ann"), ("*", "ann"), ("a", "vic")):
        with pytest.raises(ProjectNotAllowed) as refused:
            PERMISSIONS.project_for(wanted, who)
        assert f"'{wanted}' is no project that you may use" in str(refused.value)


def test_a_refusal_names_ten_projects_at_most():
    many = tuple(project(f"p{n}", members=("ann",)) for n in range(30))
    with pytest.raises(ProjectNotAllowed, match=r"p9 and 20 more$"):
        Permissions(sharing=Sharing(projects=many)).project_for("", "ann")


def test_each_action_needs_a_role():
    assert NEEDED.keys() == set(Action)
    assert all(needed.own <= needed.others for needed in NEEDED.values())


def test_without_projects_whoever_comes_may_do_anything_to_jobs():
    job = replace(a_job("j"), submitter="ann", project="gone")
    for who in ("ann", "eve", ""):
        assert Permissions().may(Action.CHANGE, who, job)
        Permissions().check_change(who, job)
    assert Permissions().project_for("", "eve") is None


def test_a_job_of_nobody_known_is_nobodys_own():
    """Items of old versions may lack a submitter."""
    job = replace(a_job("j"), submitter="", project="a", state=JobState.PENDING)
    assert not PERMISSIONS.may(Action.SEE, "", job)


class TestLockOut:
    def test_whoever_changes_the_configuration_keeps_the_right(self):
        for after in (("bob",), ("arn:*",)):
            with pytest.raises(InvalidRequest, match="would no longer be an operator") as refused:
                PERMISSIONS.check_keeps_operating(replace(SHARED, operators=after), "olga")
            assert refused.value.field == "operators"
        PERMISSIONS.check_keeps_operating(replace(SHARED, operators=("ol*",)), "olga")

    def test_the_first_operators_include_whoever_names_them(self):
        nobody = Permissions()
        with pytest.raises(InvalidRequest):
            nobody.check_keeps_operating(Sharing(operators=("bob",)), "ann")
        nobody.check_keeps_operating(Sharing(operators=("bob", "ann")), "ann")

    def test_operators_of_the_stack_may_remove_all_others(self):
        PERMISSIONS.check_keeps_operating(Sharing(), "root")
        with pytest.raises(InvalidRequest):
            PERMISSIONS.check_keeps_operating(Sharing(), "olga")

    def test_without_operators_again_iam_alone_decides(self):
        alone = Permissions(sharing=SHARED)
        alone.check_keeps_operating(Sharing(), "olga")
        with pytest.raises(NotPermitted):
            alone.check_operates("ann")
