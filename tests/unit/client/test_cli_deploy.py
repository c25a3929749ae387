"""`slotq deploy` on moto's CloudFormation and S3, with the folder of a small release."""

from __future__ import annotations

import json
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from moto import mock_aws

from slotq.cli.exits import ExitCode
from slotq.deployment.code_bucket import CodeBucket
from slotq.deployment.release_folder import CODE_BUCKET, SUMS, TEMPLATE, read
from slotq.errors import NotConfigured
from tests.unit.client.fake_aws import refused
from tests.unit.client.test_cli_schema import validator

ACCOUNT, REGION = "123456789012", "eu-west-1"
BUCKET = f"slotq-{ACCOUNT}-{REGION}"
ROLE = "ExecutionRoleArns=arn:aws:iam::123456789012:role/trainer"


def release(folder, version="0.3.0", *, code=b"code", queue="Queue"):
    """The folder of a release whose stack is a queue of messages."""
    template = {
        "Metadata": {"SlotQ": {"Version": version}},
        "Parameters": {
            "ExecutionRoleArns": {"Type": "String"},
            "HistoryDays": {"Type": "Number", "Default": 30},
            CODE_BUCKET: {"Type": "String"},
        },
        "Resources": {
            queue: {
                "Type": "AWS::SQS::Queue",
                "Properties": {"VisibilityTimeout": {"Ref": "HistoryDays"}},
            },
            "Topic": {
                "Type": "AWS::SNS::Topic",
                "Properties": {"DisplayName": {"Ref": CODE_BUCKET}},
            },
        },
    }
    (folder / "code").mkdir(parents=True, exist_ok=True)
    archive = folder / "code" / f"core-{sha256(code).hexdigest()[:16]}.zip"
    archive.write_bytes(code)
    (folder / TEMPLATE).write_text(json.dumps(template))
    sums = (
        f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n"
        for path in (archive, folder / TEMPLATE)
    )
    (folder / SUMS).write_text("".join(sums))
    return folder


@pytest.fixture
def aws(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield boto3.Session(region_name=REGION)


@pytest.fixture
def folder(tmp_path):
    return release(tmp_path / "slotq-0.3.0")


def keys(aws, bucket=BUCKET):
    found = aws.client("s3").list_objects_v2(Bucket=bucket).get("Contents", [])
    return [each["Key"] for each in found]


def parameters(aws, stack="slotq"):
    (found,) = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    return {each["ParameterKey"]: each["ParameterValue"] for each in found["Parameters"]}


def stacks(aws):
    found = aws.client("cloudformation").describe_stacks()["Stacks"]
    return {each["StackName"]: each["StackStatus"] for each in found}


def test_a_first_deployment(aws, slotq, folder):
    done = slotq("deploy", "--dir", str(folder), ROLE)
    assert done.exit_code == 0, done.output
    assert stacks(aws) == {"slotq": "CREATE_COMPLETE"}
    assert parameters(aws)[CODE_BUCKET] == BUCKET
    assert len(keys(aws)) == 2
    assert "SlotQ 0.3.0 is deployed as stack slotq: " in done.stdout
    assert "export SLOTQ_QUEUE=slotq AWS_REGION=eu-west-1; slotq doctor" in done.stdout
    assert f"made the bucket {BUCKET}" in done.stderr
    assert "slotq CREATE_COMPLETE" in done.stderr
    access = aws.client("s3").get_public_access_block(Bucket=BUCKET)
    assert all(access["PublicAccessBlockConfiguration"].values())


def test_an_update_keeps_parameters_and_uploads_what_is_new(aws, slotq, folder, tmp_path):
    slotq("deploy", "--dir", str(folder), ROLE, "HistoryDays=90")
    before = keys(aws)
    newer = release(tmp_path / "newer", "0.4.0", code=b"other", queue="Other")
    done = slotq("deploy", "--dir", str(newer), "--json")
    assert done.exit_code == 0, done.output
    view = json.loads(done.stdout)
    validator("slotq deploy").validate(view)
    assert (view["release"], view["deployed"]) == ("0.4.0", True)
    changed = {each["resource"]: each["action"] for each in view["changes"]}
    assert (changed["Other"], changed["Queue"]) == ("Add", "Remove")
    assert parameters(aws)["HistoryDays"] == "90"
    assert len(keys(aws)) == 4
    assert set(before) < {*keys(aws)}, "an earlier release can still be deployed"


def test_the_link_creates_the_same_stack(aws, slotq, folder):
    done = slotq("deploy", "--dir", str(folder), ROLE, "--json")
    link = urlsplit(json.loads(done.stdout)["quick_create"])
    assert link.hostname == "console.aws.amazon.com"
    asked = parse_qs(link.fragment.partition("?")[2])
    (url,) = asked["templateURL"]
    assert asked["param_CodeBucket"] == [BUCKET]
    (key,) = (key for key in keys(aws) if key.endswith(TEMPLATE))
    assert url == f"https://{BUCKET}.s3.{REGION}.amazonaws.com/{key}"


def test_a_dry_run_changes_no_stack(aws, slotq, folder, tmp_path):
    done = slotq("deploy", "--dir", str(folder), ROLE, "--dry-run")
    assert (done.exit_code, stacks(aws)) == (0, {}), done.output
    assert "Nothing was changed." in done.stdout
    slotq("deploy", "--dir", str(folder), ROLE)
    newer = release(tmp_path / "newer", queue="Other")
    done = slotq("deploy", "--dir", str(newer), "HistoryDays=7", "--dry-run", "--json")
    view = json.loads(done.stdout)
    changed = {each["resource"]: each["action"] for each in view["changes"]}
    assert (view["deployed"], changed) == (False, {"Other": "Add", "Queue": "Remove"})
    assert parameters(aws)["HistoryDays"] == "30"


def test_who_is_at_a_terminal_is_asked_before_an_update(aws, slotq, folder):
    slotq("deploy", "--dir", str(folder), ROLE)
    command = ("deploy", "--dir", str(folder), "HistoryDays=7")
    done = slotq(*command, world={"asks": lambda: True}, input="n\n")
    assert (done.exit_code, parameters(aws)["HistoryDays"]) == (0, "30"), done.output
    done = slotq(*command, world={"asks": lambda: True}, input="y\n")
    assert (done.exit_code, parameters(aws)["HistoryDays"]) == (0, "7"), done.output
    done = slotq(*command[:-1], "HistoryDays=8", "--yes", world={"asks": lambda: True})
    assert (done.exit_code, parameters(aws)["HistoryDays"]) == (0, "8"), done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "a first deployment needs ExecutionRoleArns=ARN"),
        (("ExecutionRoleArn=x",), "did you mean 'ExecutionRoleArns'?"),
        (("HistoryDays",), "'HistoryDays' is not NAME=VALUE"),
        (("CodeBucket=b",), "there is no parameter 'CodeBucket'"),
    ],
)
def test_wrong_words(aws, slotq, folder, words, said):
    done = slotq("deploy", "--dir", str(folder), *words)
    assert (done.exit_code, stacks(aws)) == (ExitCode.USAGE, {})
    assert said in done.stderr


def test_a_folder_that_is_no_release(aws, slotq, tmp_path):
    done = slotq("deploy", "--dir", str(tmp_path), ROLE)
    assert done.exit_code == ExitCode.USAGE
    assert "is not the folder of a release" in done.stderr


@pytest.mark.parametrize("damage", ["changed", "gone", "beside"])
def test_a_damaged_release_is_refused(aws, slotq, folder, damage):
    (archive,) = (folder / "code").iterdir()
    if damage == "changed":
        archive.write_bytes(b"another's")
    elif damage == "gone":
        archive.unlink()
    else:
        (folder / "code" / "planted.zip").write_bytes(b"another's")
    done = slotq("deploy", "--dir", str(folder), ROLE)
    assert (done.exit_code, stacks(aws)) == (ExitCode.USAGE, {})
    assert "not as it was built: " in done.stderr


def test_a_bucket_of_a_stranger_is_not_used():
    class OfAStranger:
        """Has no other call, so whatever else is asked of it fails."""

        def head_bucket(self, **asked):
            assert asked == {"Bucket": BUCKET, "ExpectedBucketOwner": ACCOUNT}
            raise refused("HeadBucket", "403")

    place = CodeBucket(s3=OfAStranger(), account=ACCOUNT, region=REGION, name=BUCKET)
    with pytest.raises(NotConfigured, match="name another one with --bucket"):
        place.make()


def test_every_call_says_who_owns_the_bucket(aws, folder):
    """A stranger who takes the name later gets nothing of ours."""
    asked = []
    s3 = aws.client("s3")
    s3.meta.events.register(
        "provide-client-params.s3", lambda params, model, **_: asked.append((model.name, params))
    )
    place = CodeBucket(s3=s3, account=ACCOUNT, region=REGION, name=BUCKET)
    place.make()
    assert len([*place.fill(read(folder).objects)]) == 2
    unsaid = {name for name, params in asked if params.get("ExpectedBucketOwner") != ACCOUNT}
    assert unsaid == {"CreateBucket"}, "it makes the bucket this account's, or fails"
