"""The evaluator agrees with the examples of the IAM User Guide."""

import pytest

from tests.iam.evaluator import Verdict, arn_fits, call, fits, judge

ALLOWED, DENIED, FORBIDDEN = Verdict.ALLOWED, Verdict.DENIED, Verdict.FORBIDDEN
BUCKET = "arn:aws:s3:::amzn-s3-demo-bucket"


def allow(action, resource="*", **condition):
    found = {"Effect": "Allow", "Action": action, "Resource": resource}
    return {**found, "Condition": condition} if condition else found


def deny(action, resource="*", **condition):
    return {**allow(action, resource, **condition), "Effect": "Deny"}


@pytest.mark.parametrize(
    ("statements", "asked", "verdict"),
    [
        # "Policy evaluation logic": implicit deny, allow, explicit deny whatever else allows.
        ([], call("s3:GetObject", f"{BUCKET}/a"), DENIED),
        ([allow("s3:*")], call("s3:GetObject", f"{BUCKET}/a"), ALLOWED),
        (
            [allow("s3:*"), deny("s3:DeleteObject")],
            call("s3:DeleteObject", f"{BUCKET}/a"),
            FORBIDDEN,
        ),
        ([deny("s3:DeleteObject"), allow("s3:*")], call("s3:GetObject", f"{BUCKET}/a"), ALLOWED),
        # "Action": prefix and name are not case sensitive; wildcards anywhere.
        ([allow("iam:*AccessKey*")], call("IAM:CreateAccessKey", "*"), ALLOWED),
        ([allow("iam:*AccessKey*")], call("iam:CreateUser", "*"), DENIED),
        (
            [allow(["sqs:SendMessage", "ec2:StartInstances"])],
            call("ec2:StartInstances", "*"),
            ALLOWED,
        ),
        # "NotAction"
        (
            [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}],
            call("s3:GetObject", "*"),
            ALLOWED,
        ),
        (
            [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}],
            call("iam:GetUser", "*"),
            DENIED,
        ),
        # "Resource": the bucket is not its objects; resources are case sensitive.
        ([allow("s3:*", BUCKET)], call("s3:GetObject", f"{BUCKET}/a"), DENIED),
        ([allow("s3:*", [BUCKET, f"{BUCKET}/*"])], call("s3:GetObject", f"{BUCKET}/a/b"), ALLOWED),
        ([allow("s3:*", f"{BUCKET}/???")], call("s3:GetObject", f"{BUCKET}/abc"), ALLOWED),
        ([allow("s3:*", f"{BUCKET}/???")], call("s3:GetObject", f"{BUCKET}/abcd"), DENIED),
        ([allow("s3:*", f"{BUCKET}/A")], call("s3:GetObject", f"{BUCKET}/a"), DENIED),
    ],
)
def test_effects_actions_and_resources_are_judged(statements, asked, verdict):
    assert judge(statements, asked) is verdict


# The operator, its key and values, the call's value of that key, whether it holds.
CONDITIONS = [
    # "String condition operators": aws:PrincipalTag/job-category
    ("StringEquals", "aws:PrincipalTag/job-category", "iamuser-admin", ["iamuser-admin"], True),
    ("StringEquals", "aws:PrincipalTag/job-category", "iamuser-admin", ["iamUser-admin"], False),
    ("StringEquals", "aws:PrincipalTag/job-category", "iamuser-admin", [], False),
    (
        "StringEquals",
        "AWS:principaltag/JOB-category",
        ["x", "iamuser-admin"],
        ["iamuser-admin"],
        True,
    ),
    ("StringEqualsIgnoreCase", "aws:x", "Admin", ["aDMIN"], True),
    ("StringNotEquals", "aws:PrincipalTag/job-category", ["a", "b"], ["c"], True),
    ("StringNotEquals", "aws:PrincipalTag/job-category", ["a", "b"], ["a"], False),
    ("StringNotEquals", "aws:PrincipalTag/job-category", ["a", "b"], [], True),
    ("StringLike", "s3:prefix", ["", "home/", "home/ada/*"], ["home/ada/x/y"], True),
    ("StringLike", "s3:prefix", ["", "home/", "home/ada/*"], ["home/bob/x"], False),
    ("StringNotLike", "s3:prefix", "home/*", ["home/x"], False),
    # "...IfExists"
    ("StringLikeIfExists", "ec2:InstanceType", ["t1.*", "t2.*", "m3.*"], [], True),
    ("StringLikeIfExists", "ec2:InstanceType", ["t1.*", "t2.*", "m3.*"], ["t2.micro"], True),
    ("StringLikeIfExists", "ec2:InstanceType", ["t1.*", "t2.*", "m3.*"], ["p5.48xlarge"], False),
    # "Boolean condition operators"
    ("Bool", "aws:SecureTransport", "false", ["false"], True),
    ("Bool", "aws:SecureTransport", False, ["true"], False),
    ("Bool", "aws:SecureTransport", "false", [], False),
    ("BoolIfExists", "aws:MultiFactorAuthPresent", "false", [], True),
    # "Null": true means that the key is missing
    ("Null", "aws:TokenIssueTime", "true", [], True),
    ("Null", "aws:TokenIssueTime", "true", ["2026-11-20"], False),
    ("Null", "aws:TokenIssueTime", "false", ["2026-11-20"], True),
    # "ARN condition operators"
    ("ArnLike", "aws:SourceArn", "arn:aws:sns:*:*:t-*", ["arn:aws:sns:eu-west-1:1:t-1"], True),
    ("ArnEquals", "aws:SourceArn", "arn:aws:sns:*:1:t", ["arn:aws:sns:eu-west-1:1:t"], True),
    ("ArnEquals", "aws:SourceArn", "arn:aws:sns:eu-west-1:*", ["arn:aws:sns:eu-west-1:1:t"], False),
    ("ArnNotLike", "aws:SourceArn", "arn:aws:sns:*:1:*", ["arn:aws:sns:eu-west-1:2:t"], True),
    # "Multivalued context keys": the tables of aws:TagKeys
    (
        "ForAllValues:StringEquals",
        "aws:TagKeys",
        ["environment", "webserver"],
        ["environment"],
        True,
    ),
    ("ForAllValues:StringEquals", "aws:TagKeys", ["environment"], ["environment", "x"], False),
    ("ForAllValues:StringEquals", "aws:TagKeys", ["environment"], [], True),
    ("ForAnyValue:StringEquals", "aws:TagKeys", ["environment"], ["environment", "x"], True),
    ("ForAnyValue:StringEquals", "aws:TagKeys", ["environment"], ["x"], False),
    ("ForAnyValue:StringEquals", "aws:TagKeys", ["environment"], [], False),
    ("ForAllValues:StringNotEquals", "aws:TagKeys", ["secret"], ["a", "b"], True),
    ("ForAllValues:StringNotLike", "aws:TagKeys", ["slotq:*"], ["a", "slotq:job"], False),
    ("ForAnyValue:StringNotEquals", "aws:TagKeys", ["a"], ["a", "b"], True),
]


@pytest.mark.parametrize(("operator", "key", "values", "there", "holds"), CONDITIONS)
def test_conditions_are_judged(operator, key, values, there, holds):
    context = {key.lower(): there} if there else {}
    asked = call("s3:GetObject", "*", context)
    statement = allow("s3:GetObject", **{operator: {key: values}})
    assert judge([statement], asked) is (ALLOWED if holds else DENIED)


def test_every_key_and_every_operator_of_a_condition_must_hold():
    both = {
        "StringEquals": {"aws:RequestTag/a": "1", "aws:RequestTag/b": "2"},
        "Null": {"aws:TagKeys": "false"},
    }
    statement = allow("ec2:RunInstances", **both)
    tags = {"aws:RequestTag/a": "1", "aws:RequestTag/b": "2", "aws:TagKeys": ["a", "b"]}
    assert judge([statement], call("ec2:RunInstances", "*", tags)) is ALLOWED
    for key in tags:
        fewer = {name: value for name, value in tags.items() if name != key}
        assert judge([statement], call("ec2:RunInstances", "*", fewer)) is DENIED


def test_wildcards_are_the_only_special_characters():
    assert fits("a.c", "a.c")
    assert not fits("a.c", "abc")
    assert fits("[a]*", "[a]bc")
    assert not arn_fits("arn:aws:iam::1:role/x", "not an arn")


@pytest.mark.parametrize(
    "statement",
    [
        allow("s3:*", "arn:aws:s3:::b/${aws:username}/*"),
        allow("s3:*", "*", StringEquals={"aws:x": "${aws:y}"}),
        allow("s3:*", "*", NumericLessThan={"aws:x": "1"}),
        {**allow("s3:*"), "Principal": "*"},
    ],
)
def test_an_unknown_element_is_an_error(statement):
    with pytest.raises(ValueError, match="not known"):
        judge([statement], call("s3:GetObject", "*", {"aws:x": "1"}))


def test_a_key_of_several_values_needs_a_quantifier():
    statement = allow("s3:*", "*", StringEquals={"aws:TagKeys": "a"})
    with pytest.raises(ValueError, match="several values"):
        judge([statement], call("s3:x", "*", {"aws:TagKeys": ["a", "b"]}))


EC2, ECS = {"events:source": ["aws.ec2"]}, {"events:source": ["aws.ecs"]}
CHANGED = {"events:detail-type": ["EC2 Instance State-change Notification"]}
FAILED = {"events:detail-type": ["EC2 Instance Health Failed"]}
SOURCE_AND_TYPE = {
    "StringEquals": {
        "events:source": "aws.ec2",
        "events:detail-type": "EC2 Instance State-change Notification",
    }
}
ANY_OF_TWO = {
    "ForAllValues:StringEquals": {"events:source": ["aws.ec2", "aws.s3"]},
    "Null": {"events:source": "false"},
}


@pytest.mark.parametrize(
    ("condition", "pattern", "verdict"),
    [
        (SOURCE_AND_TYPE, EC2, DENIED),
        (SOURCE_AND_TYPE, ECS, DENIED),
        (SOURCE_AND_TYPE, EC2 | CHANGED, ALLOWED),
        (SOURCE_AND_TYPE, EC2 | FAILED, DENIED),
        (SOURCE_AND_TYPE, CHANGED, DENIED),
        (ANY_OF_TWO, EC2, ALLOWED),
        (ANY_OF_TWO, {"events:source": ["aws.ec2", "aws.s3"]}, ALLOWED),
        (ANY_OF_TWO, {"events:source": ["aws.ec2", "aws.autoscaling"]}, DENIED),
        (ANY_OF_TWO, CHANGED, DENIED),
    ],
)
def test_the_tables_of_eventbridges_user_guide_hold(condition, pattern, verdict):
    """ "Using IAM policy conditions for fine-grained access control"."""
    statement = allow("events:PutRule", **condition)
    assert judge([statement], call("events:PutRule", "*", pattern)) is verdict
