"""The faults of a CreateTrainingJob request: all at once, each with its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import botocore
import pytest

from slotq.jobs.sagemaker_model import input_shape, training_request
from slotq_core.errors import InvalidRequest
from slotq_core.spelling import nearest
from slotq_core.wire.submission import parse_submission, read_submission
from slotq_core.wire.training import training_fields
from slotq_core.wire.training.training_request import (
    MOST_FAULTS,
    MOST_UNKNOWN,
    Shape,
    check_complete,
    faults_by,
    known_shape,
    submission_faults,
)
from tests.least_request import least_request
from tests.training_fields import page
from tests.work import counted_calls


def changed(path: str, value: Any) -> dict[str, Any]:
    """The least request with this value at this path; None removes what is there."""
    request = least_request("job1")
    *folders, last = path.split(".")
    place: Any = request
    for folder in folders:
        place[folder] = dict(place.get(folder, {}))
        place = place[folder]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return request


def at_the_door(request: dict[str, Any]) -> dict[str, str]:
    return {fault.path: fault.message for fault in submission_faults(request)}


def at_the_client(request: dict[str, Any]) -> dict[str, str]:
    return {fault.path: fault.message for fault in faults_by(training_request(), request)}


def test_the_table_of_fields_is_botocores():
    """From the constraints' botocore; `make training-fields` writes it."""
    written = Path(training_fields.__file__).read_text(encoding="utf-8")
    assert written == page(botocore.__version__, input_shape())


def test_a_request_that_sagemaker_takes_has_no_fault():
    assert at_the_door(least_request("job1")) == at_the_client(least_request("job1")) == {}


BOTH = [
    # path, value, message
    ("RoleArn", None, "is required"),
    ("RoleArn", "", "is required, and must not be empty"),
    ("AlgorithmSpecification", None, "is required"),
    ("ResourceConfig", None, "is required"),
    ("OutputDataConfig", None, "is required"),
    ("OutputDataConfig", [], "must be an object, not a list"),
    ("OutputDataConfig.S3OutputPath", 7, "must be a text, not the number 7"),
    ("AlgorithmSpecification.TrainingInputMode", None, "is required"),
    ("ResourceConfig.InstanceCount", "1", "must be a whole number, not a text"),
    ("ResourceConfig.InstanceCount", 1.5, "must be a whole number, not the number 1.5"),
    ("ResourceConfig.InstanceCount", True, "must be a whole number, not true"),
    ("StoppingCondition.MaxRuntimeInSeconds", "1h", "must be a whole number, not a text"),
    ("EnableManagedSpotTraining", "true", "must be true or false, not a text"),
    ("HyperParameters", [["lr", "1"]], "must be an object, not a list"),
    ("HyperParameters.lr", 0.1, "must be a text, not the number 0.1"),
    ("InputDataConfig", {}, "must be a list, not an object"),
    ("Rolearn", "x", "is not a field of CreateTrainingJob"),
    ("Enviroment", {}, "is not a field of CreateTrainingJob; did you mean Environment?"),
    ("stopping_condition", {}, "is not a field of CreateTrainingJob; did you mean StoppingCond"),
    ("ResourceConfig.VolumeSizeInGb", 3, "did you mean VolumeSizeInGB?"),
]


@pytest.mark.parametrize(("path", "value", "told"), BOTH)
def test_client_and_queue_refuse_the_same_faults(path, value, told):
    request = changed(path, value)
    if path == "Rolearn":
        del request["RoleArn"]
    assert told in at_the_door(request)[path]
    assert told in at_the_client(request)[path]


CLIENT = [
    ("AlgorithmSpecification.TrainingInputMode", "file", "did you mean File?"),
    ("ResourceConfig.InstanceType", "p5.48xlarge", "did you mean ml.p5.48xlarge?"),
    ("RoleArn", "trainer", "must have the form arn:"),
    ("HyperParameters.lr", "x" * 2501, "must have at most 2,500 characters, not 2,501"),
    ("StoppingCondition.MaxRuntimeInSeconds", 0, "must be at least 1, not 0"),
    ("StoppingCondition.MaxPendingTimeInSeconds", 60, "must be 1,800 to 2,419,200, not 60"),
    ("Environment.1x", "y", "its name must have the form"),
    (
        "Tags",
        [{"Key": f"a{number}", "Value": "b"} for number in range(51)],
        "must have at most 50 entries, not 51",
    ),
    ("Brandnew", 1, "is not a field of CreateTrainingJob"),
]


@pytest.mark.parametrize(("path", "value", "told"), CLIENT)
def test_the_client_refuses_faults_that_the_users_botocore_knows(path, value, told):
    assert told in at_the_client(changed(path, value))[path]
    assert at_the_door(changed(path, value)) == {}, "it may be older than the service"


def test_a_tag_may_be_empty():
    request = least_request("job1", Tags=[{"Key": "draft", "Value": ""}])
    assert at_the_door(request) == at_the_client(request) == {}


def test_a_fault_within_a_list_has_its_index():
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": 5}}
    channels = [{"ChannelName": "a", "DataSource": source}, {"ChanelName": "b", "DataSource": {}}]
    assert at_the_door(least_request("job1", InputDataConfig=channels)) == {
        "InputDataConfig.0.DataSource.S3DataSource.S3Uri": "must be a text, not the number 5",
        "InputDataConfig.1.ChanelName": "is not a field of CreateTrainingJob; "
        "did you mean ChannelName?",
    }


@pytest.mark.parametrize(
    ("programs", "told"),
    [
        ({}, "give TrainingImage or AlgorithmName"),
        ({"TrainingImage": "a", "AlgorithmName": "b"}, "give TrainingImage or AlgorithmName, not"),
        ({"AlgorithmName": "b"}, None),
    ],
)
def test_exactly_one_way_to_name_the_code_is_required(programs, told):
    algorithm = {"TrainingInputMode": "File", **programs}
    found = at_the_door(least_request("job1", AlgorithmSpecification=algorithm))
    assert (told is None) == (found == {})
    assert (told or "") in found.get("AlgorithmSpecification", "")


@pytest.mark.parametrize("kind", ["ml.p6-b400.48xlarge", "ml.q9.7xlarge"])
def test_an_instance_type_newer_than_botocore_passes(kind):
    """The pools decide which types exist: the queue refuses the others with the list."""
    assert at_the_client(changed("ResourceConfig.InstanceType", kind)) == {}


def test_a_field_newer_than_the_queue_passes():
    request = least_request("job1", FieldOfTomorrow={"a": [1]})
    request["ResourceConfig"]["NodeTopology"] = "ring"
    assert at_the_door(request) == {}


def test_a_new_field_with_a_name_similar_to_a_known_one_passes():
    """As when SageMaker added TrainingPlanArns beside TrainingPlanArn."""
    request = least_request("job1", Environments={}, Environment={})
    assert at_the_door(request) == {}
    del request["Environment"]
    assert "did you mean Environment?" in at_the_door(request)["Environments"]


def test_no_known_field_looks_like_a_misspelling_of_another():
    """So a new field, unknown to the queue, is unlikely to look like one."""
    for name, others in _siblings(known_shape()):
        assert nearest(name, others, 0.85) is None, name


def _siblings(shape: Shape):
    for name in shape.members:
        yield name, [other for other in shape.members if other != name]
    for inner in (*shape.members.values(), *([shape.item] if shape.item else [])):
        yield from _siblings(inner)


def test_all_faults_are_reported_at_once_with_the_queues_own():
    request = least_request("-", Tags=[{"Key": "priority", "Value": "high"}])
    del request["OutputDataConfig"]
    request["ResourceConfig"]["InstanceCount"] = 0
    request["RoleArm"] = request.pop("RoleArn")
    with pytest.raises(InvalidRequest) as refused:
        parse_submission(request)
    first, *told = refused.value.message.splitlines()
    assert first == "the request has 4 faults:"
    assert [line.split(":")[0].strip() for line in told] == [
        "TrainingJobName",
        "ResourceConfig.InstanceCount",
        "RoleArm",
        "OutputDataConfig",
    ]
    assert refused.value.field == "TrainingJobName"


def test_no_value_is_quoted():
    request = changed("HyperParameters.key", ["s3cr3t"])
    request["RoleArn"] = {"s3cr3t": 1}
    assert "s3cr3t" not in str(at_the_door(request))


def test_a_stored_request_is_read_by_earlier_rules():
    """Otherwise nobody could change the priority of a job that an earlier version accepted."""
    bare = {"TrainingJobName": "old", "ResourceConfig": least_request("old")["ResourceConfig"]}
    assert read_submission(bare)[0].name == "old"
    assert parse_submission(bare)[0].incomplete, "its project may fill in the rest"
    with pytest.raises(InvalidRequest, match="RoleArn"):
        check_complete(bare)


def test_missing_fields_are_told_with_every_other_fault():
    bare = {"TrainingJobName": "new", "ResourceConfig": {"InstanceType": 3, "InstanceCount": 1}}
    with pytest.raises(InvalidRequest) as refused:
        parse_submission(bare)
    assert {"RoleArn", "ResourceConfig.InstanceType"} <= {path for path, _ in refused.value.faults}


@pytest.mark.parametrize(
    "more",
    [
        {f"InstanceTyp{n}": n for n in range(50_000)},
        {"InputDataConfig": [{"ChanelNam": n} for n in range(50_000)]},
        {"HyperParameters": {f"key{n}": n for n in range(50_000)}},
        {"E" * 1_000_000: 1},
        {"AlgorithmSpecification": {f"TrainingImag{n}": n for n in range(50_000)}},
    ],
    ids=["unknown fields", "faults in a list", "faults in a map", "a long name", "deeper"],
)
def test_the_largest_body_is_checked_fast(more):
    body, found = {**least_request("job1"), **more}, []
    assert counted_calls(lambda: found.extend(submission_faults(body))) < 5 * 50_000
    assert len(found) <= MOST_FAULTS + 1


def test_more_unknown_fields_than_a_release_adds_are_refused():
    unknown = {f"Zz{n}": n for n in range(MOST_UNKNOWN + 1)}
    (fault,) = submission_faults(least_request("job1", **unknown))
    assert "unknown" in fault.message
    del unknown["Zz0"]
    assert submission_faults(least_request("job1", **unknown)) == []
