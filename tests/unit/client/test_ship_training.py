"""`slotq_training.py` beside the user's code: in script mode's archive, and in SDK v3's channel."""

from __future__ import annotations

import io
import json
import tarfile

import boto3
import pytest
from moto import mock_aws

from slotq.errors import CannotReach
from slotq.packaging import training_file
from slotq.packaging.archive import pack

BUCKET = "code"


@pytest.fixture
def s3():
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client


def archive(*names):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name))
    return made.getvalue()


def contents(s3, uri):
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        return {name: tar.extractfile(name).read() for name in tar.getnames()}


def script_mode(key="job1/source/sourcedir.tar.gz"):
    return {
        "TrainingJobName": "job1",
        "HyperParameters": {
            "sagemaker_submit_directory": json.dumps(f"s3://{BUCKET}/{key}"),
            "epochs": "3",
        },
    }


def test_it_is_added_to_script_modes_archive(s3):
    s3.put_object(Bucket=BUCKET, Key="job1/source/sourcedir.tar.gz", Body=archive("train.py"))
    made = training_file.shipped(s3, script_mode()) or {}
    uri = json.loads(made["HyperParameters"]["sagemaker_submit_directory"])
    assert contents(s3, uri) == {"train.py": b"", **training_file.beside([], script_mode=True)}
    assert made["HyperParameters"]["epochs"] == "3"
    assert training_file.shipped(s3, script_mode()) == made, "the same code, the same archive"
    original = contents(s3, f"s3://{BUCKET}/job1/source/sourcedir.tar.gz")
    assert original == {"train.py": b""}, "what others use stays as it is"


@pytest.mark.parametrize(
    "names",
    [
        ("slotq_training.py", "hfai.py", "sitecustomize.py"),
        ("./slotq_training.py", "./hfai/__init__.py", "./sitecustomize.py"),
    ],
)
def test_the_users_own_files_stay(s3, names):
    s3.put_object(
        Bucket=BUCKET, Key="job1/source/sourcedir.tar.gz", Body=archive("train.py", *names)
    )
    assert training_file.shipped(s3, script_mode()) == script_mode()


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ([], ["slotq_training.py", "hfai.py"]),
        (["hfai/client.py"], ["slotq_training.py"]),
        (["hfai.py", "pkg/slotq_training.py"], ["slotq_training.py"]),
        (["hfai_tools.py"], ["slotq_training.py", "hfai.py"]),
    ],
)
def test_a_file_or_package_of_the_users_own_takes_the_place_of_one(names, left):
    assert [*training_file.beside(names)] == left
    assert [*training_file.beside(names, script_mode=True)] == [*left, "sitecustomize.py"]


def test_the_new_archive_is_encrypted_as_the_old_one(s3):
    key = "job1/source/sourcedir.tar.gz"
    s3.put_object(
        Bucket=BUCKET, Key=key, Body=archive("train.py"), ServerSideEncryption="aws:kms",
        SSEKMSKeyId="key1",
    )  # fmt: skip
    made = training_file.shipped(s3, script_mode()) or {}
    uri = json.loads(made["HyperParameters"]["sagemaker_submit_directory"])
    head = s3.head_object(Bucket=BUCKET, Key=uri.partition(f"{BUCKET}/")[2])
    assert head["SSEKMSKeyId"].endswith("key1")


def channels(**uris):
    return {
        "InputDataConfig": [
            {"ChannelName": name, "DataSource": {"S3DataSource": {"S3Uri": uri}}}
            for name, uri in uris.items()
        ]
    }


def test_it_is_put_into_v3s_channel(s3):
    request = channels(code=f"s3://{BUCKET}/job1/input/code/", sm_drivers="s3://x/y")
    assert training_file.shipped(s3, request) == request
    for name, content in training_file.beside([]).items():
        kept = s3.get_object(Bucket=BUCKET, Key=f"job1/input/code/{name}")["Body"].read()
        assert kept == content
    s3.put_object(Bucket=BUCKET, Key="job1/input/code/slotq_training.py", Body=b"mine")
    training_file.shipped(s3, request)
    kept = s3.get_object(Bucket=BUCKET, Key="job1/input/code/slotq_training.py")["Body"].read()
    assert kept == b"mine"


@pytest.mark.parametrize(
    "request_",
    [
        {},
        channels(code=f"s3://{BUCKET}/data"),  # A channel of the user's own.
        {"HyperParameters": {"sagemaker_submit_directory": '"file:///opt/ml/input/data/code"'}},
    ],
)
def test_a_request_without_code_in_s3_is_left_alone(s3, request_):
    assert training_file.shipped(s3, request_) is None
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)


def test_an_archive_that_cannot_be_read_is_said(s3):
    with pytest.raises(CannotReach, match="NoSuchKey"):
        training_file.shipped(s3, script_mode())
    s3.put_object(Bucket=BUCKET, Key="job1/source/sourcedir.tar.gz", Body=b"no archive")
    with pytest.raises(CannotReach, match="cannot be read"):
        training_file.shipped(s3, script_mode())


def test_a_packed_folder_has_it_unless_the_user_has_one(tmp_path):
    beside = {training_file.NAME: b"ours"}
    (tmp_path / "train.py").write_text("")
    packed = pack(tmp_path, beside=beside)
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as tar:
        assert tar.extractfile(training_file.NAME).read() == b"ours"
    assert packed.files == 1
    (tmp_path / training_file.NAME).write_text("mine")
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path, beside=beside).content)) as tar:
        assert tar.extractfile(training_file.NAME).read() == b"mine"
