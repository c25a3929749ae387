"""A deployment's stack over a double of CloudFormation, for what moto does not play: there every
change set is carried out at once, and none fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from slotq.deployment.stack import CAPABILITIES, Stack
from slotq.errors import DeploymentFailed, NotConfigured
from tests.unit.client.fake_aws import refused

ID = "arn:aws:cloudformation:eu-west-1:123456789012:stack/slotq/1"
NO_CHANGES = "The submitted information didn't contain changes."


class CloudFormation:
    """One stack. `then`: the states and events that each further look finds."""

    def __init__(self, status="", *, then=(), change_set=("CREATE_COMPLETE", ""), given=()):
        self.status, self.then, self.given = status, list(then), given
        self.change_sets = [("CREATE_IN_PROGRESS", ""), change_set]
        self.events = [self.event("Old", "CREATE_COMPLETE")]
        self.asked = {}
        self.executed = self.deleted = self.taken_back = False

    def event(self, resource, status, reason=""):
        number = len(getattr(self, "events", ()))
        return {
            "EventId": f"{resource}-{status}-{number}",
            "Timestamp": datetime(2026, 11, 28, tzinfo=UTC) + timedelta(seconds=number),
            "LogicalResourceId": resource,
            "ResourceStatus": status,
            "ResourceStatusReason": reason,
        }

    def describe_stacks(self, **_):
        if self.executed and self.then:
            self.status, *events = self.then.pop(0)
            for each in events:
                self.events.insert(0, self.event(*each))
        if not self.status:
            raise refused("DescribeStacks", "Stack with id slotq does not exist")
        parameters = [{"ParameterKey": key, "ParameterValue": "x"} for key in self.given]
        outputs = [{"OutputKey": "ApiUrl", "OutputValue": "https://api"}]
        described = {"StackId": ID, "StackStatus": self.status}
        return {"Stacks": [{**described, "Parameters": parameters, "Outputs": outputs}]}

    def create_change_set(self, **asked):
        self.asked = asked
        self.status = self.status or "REVIEW_IN_PROGRESS"

    def describe_change_set(self, **asked):
        if "NextToken" in asked:
            return {"Status": "CREATE_COMPLETE", "Changes": [change("Table", Replacement="True")]}
        status, reason = self.change_sets.pop(0)
        found = {"Status": status, "StatusReason": reason, "Changes": [change("Queue")]}
        return {**found, "NextToken": "2"} if status == "CREATE_COMPLETE" else found

    def execute_change_set(self, **_):
        self.executed = True

    def delete_change_set(self, **_):
        self.taken_back = True

    def delete_stack(self, **_):
        self.deleted = True

    def describe_stack_events(self, **_):
        return {"StackEvents": [*self.events]}


def change(name, **more):
    kind = "AWS::SQS::Queue"
    resource = {"Action": "Modify", "LogicalResourceId": name, "ResourceType": kind, **more}
    return {"ResourceChange": resource}


def stack(cloudformation):
    return Stack(cloudformation=cloudformation, name="slotq", sleep=lambda _: None, change_set="c1")


def propose(there, **parameters):
    return there.propose("https://bucket/template", parameters, known=("A", "B", "C"))


def test_a_first_deployment_that_fails_would_be_removed():
    aws = CloudFormation()
    changes = propose(stack(aws), A="1")
    assert [(each.resource, each.replaced) for each in changes] == [
        ("Queue", False),
        ("Table", True),
    ]
    assert (aws.asked["ChangeSetType"], aws.asked["OnStackFailure"]) == ("CREATE", "DELETE")
    assert aws.asked["Capabilities"] == [*CAPABILITIES]


def test_an_update_keeps_the_parameters_that_the_template_still_has():
    aws = CloudFormation("UPDATE_ROLLBACK_COMPLETE", given=("A", "B", "Gone"))
    propose(stack(aws), A="1")
    assert aws.asked["ChangeSetType"] == "UPDATE"
    assert aws.asked["Parameters"] == [
        {"ParameterKey": "A", "ParameterValue": "1"},
        {"ParameterKey": "B", "UsePreviousValue": True},
    ]
    assert "OnStackFailure" not in aws.asked, "a stack that works goes back to what it was"


def test_nothing_to_change_leaves_no_change_set():
    aws = CloudFormation("CREATE_COMPLETE", change_set=("FAILED", NO_CHANGES))
    assert propose(stack(aws)) is None
    assert (aws.taken_back, aws.deleted) == (True, False)


def test_what_is_taken_back_leaves_no_empty_stack():
    aws = CloudFormation()
    there = stack(aws)
    propose(there)
    there.take_back()
    assert (aws.taken_back, aws.deleted) == (True, True)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("UPDATE_IN_PROGRESS", "wait until it has ended"),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "wait until it has ended"),
        ("ROLLBACK_COMPLETE", "aws cloudformation delete-stack --stack-name slotq"),
    ],
)
def test_a_stack_that_cannot_be_changed(status, said):
    aws = CloudFormation(status)
    with pytest.raises(NotConfigured, match=said):
        propose(stack(aws))
    assert aws.asked == {}


def test_a_change_that_cloudformation_does_not_take():
    aws = CloudFormation(
        "CREATE_COMPLETE", change_set=("FAILED", "Parameter HistoryDays must be a number")
    )
    with pytest.raises(NotConfigured, match="HistoryDays must be a number"):
        propose(stack(aws))


def test_progress_is_told_once_and_in_order():
    aws = CloudFormation(
        then=[
            ("REVIEW_IN_PROGRESS",),
            ("CREATE_IN_PROGRESS", ("Table", "CREATE_IN_PROGRESS")),
            ("CREATE_IN_PROGRESS", ("Table", "CREATE_COMPLETE"), ("Api", "CREATE_IN_PROGRESS")),
            ("CREATE_COMPLETE", ("Api", "CREATE_COMPLETE")),
        ]
    )
    there = stack(aws)
    propose(there)
    told = [(event.resource, event.status) for event in there.carry_out()]
    assert told == [
        ("Table", "CREATE_IN_PROGRESS"),
        ("Table", "CREATE_COMPLETE"),
        ("Api", "CREATE_IN_PROGRESS"),
        ("Api", "CREATE_COMPLETE"),
    ]
    assert there.outputs() == {"ApiUrl": "https://api"}


@pytest.mark.parametrize("last", ["UPDATE_ROLLBACK_COMPLETE", "DELETE_COMPLETE"])
def test_a_failure_says_the_first_reason(last):
    aws = CloudFormation(
        "CREATE_COMPLETE",
        then=[
            ("UPDATE_IN_PROGRESS", ("Role", "UPDATE_FAILED", "not authorized: iam:CreateRole")),
            ("UPDATE_ROLLBACK_IN_PROGRESS", ("Table", "UPDATE_FAILED", "cancelled")),
            (last,),
        ],
    )
    there = stack(aws)
    propose(there)
    with pytest.raises(DeploymentFailed, match=rf"{last}: Role: not authorized: iam:CreateRole"):
        list(there.carry_out())
