"""The CloudFormation stack of a queue: what an update would change, and its progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from slotq.errors import DeploymentFailed, NotConfigured

CAPABILITIES = ("CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND")
"""The stack names a policy, and CloudFormation carries out the template's transform."""
_ONLY_REVIEWED = "REVIEW_IN_PROGRESS"
"""The state of a stack that has a first change set and nothing else."""
_BUSY = "_IN_PROGRESS"
_PAUSE = 3.0
"""Seconds between two looks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What a change set does to one resource."""

    action: str
    """`Add`, `Modify`, `Remove`, `Import` or `Dynamic`."""
    resource: str
    kind: str
    replaced: bool
    """Whether the resource may be made anew, with its contents gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    at: str
    resource: str
    status: str
    reason: str

    @property
    def failed(self) -> bool:
        return self.status.endswith("_FAILED")


@dataclass(kw_only=True)
class Stack:
    cloudformation: Any
    """boto3's client, in the region."""
    name: str
    sleep: Callable[[float], None]
    change_set: str
    """The name of the change set: another each time, because deleting one takes time."""
    _seen: set[str] = field(default_factory=set)

    def status(self) -> str:
        """CloudFormation's status of the stack; empty: there is none, or it holds nothing yet."""
        found = self._described()
        status = "" if found is None else str(found["StackStatus"])
        return "" if status == _ONLY_REVIEWED else status

    def given(self) -> frozenset[str]:
        """The names of the parameters that the stack has."""
        found = self._described() or {}
        return frozenset(each["ParameterKey"] for each in found.get("Parameters", ()))

    def outputs(self) -> Mapping[str, str]:
        found = self._described() or {}
        return {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", ())}

    def propose(
        self, url: str, parameters: Mapping[str, str], *, known: Collection[str]
    ) -> list[Change] | None:
        """Make the change set with these parameters; all others that the template knows stay as
        they are. Returns what it changes; None: nothing. Raises NotConfigured if the stack cannot
        be changed now."""
        status = self.status()
        if status.endswith(_BUSY):
            raise NotConfigured(f"stack {self.name} is {status}: wait until it has ended")
        if status in {"ROLLBACK_COMPLETE", "DELETE_FAILED", "ROLLBACK_FAILED", "CREATE_FAILED"}:
            raise NotConfigured(
                f"stack {self.name} is {status}, and can only be deleted: "
                f"aws cloudformation delete-stack --stack-name {self.name}"
            )
        kept = sorted((self.given() & {*known}) - {*parameters}) if status else []
        self.cloudformation.create_change_set(
            StackName=self.name,
            ChangeSetName=self.change_set,
            ChangeSetType="UPDATE" if status else "CREATE",
            TemplateURL=url,
            Capabilities=[*CAPABILITIES],
            Parameters=[
                *(
                    {"ParameterKey": name, "ParameterValue": parameters[name]}
                    for name in parameters
                ),
                *({"ParameterKey": name, "UsePreviousValue": True} for name in kept),
            ],
            **({} if status else {"OnStackFailure": "DELETE"}),
        )
        return self._proposed()

    def take_back(self) -> None:
        """Delete the change set, and a stack that holds nothing but it."""
        self.cloudformation.delete_change_set(StackName=self.name, ChangeSetName=self.change_set)
        found = self._described()
        if found is not None and found["StackStatus"] == _ONLY_REVIEWED:
            self.cloudformation.delete_stack(StackName=self.name)

    def carry_out(self) -> Iterator[Event]:
        """Carry out the change set. Yields what happens, until the stack's work has ended. Raises
        DeploymentFailed if it has failed, with the first reason."""
        self._seen.update(event["EventId"] for event in self._events())
        stack_id = (self._described() or {})["StackId"]
        self.cloudformation.execute_change_set(StackName=self.name, ChangeSetName=self.change_set)
        first = ""
        while True:
            found = self._described(stack_id)
            for event in self._new_events(stack_id):
                first = first or (f"{event.resource}: {event.reason}" if event.failed else "")
                yield event
            status = "DELETE_COMPLETE" if found is None else found["StackStatus"]
            if status in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}:
                return
            if not status.endswith(_BUSY):
                raise DeploymentFailed(
                    f"stack {self.name} is {status}: {first or 'no reason given'}"
                )
            self.sleep(_PAUSE)

    def _proposed(self) -> list[Change] | None:
        changes: list[Change] = []
        asked = {"StackName": self.name, "ChangeSetName": self.change_set}
        while True:
            found = self.cloudformation.describe_change_set(**asked)
            status, reason = found["Status"], found.get("StatusReason", "")
            if status == "FAILED":
                if "didn't contain changes" in reason or "No updates" in reason:
                    self.take_back()
                    return None
                raise NotConfigured(f"CloudFormation takes no such change: {reason}")
            if status != "CREATE_COMPLETE":
                self.sleep(_PAUSE)
                continue
            changes += map(_change, found.get("Changes", ()))
            if not (token := found.get("NextToken")):
                return changes
            asked["NextToken"] = token

    def _described(self, name: str = "") -> Mapping[str, Any] | None:
        try:
            found = self.cloudformation.describe_stacks(StackName=name or self.name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        return found[0] if found and found[0]["StackStatus"] != "DELETE_COMPLETE" else None

    def _new_events(self, stack_id: str) -> Iterator[Event]:
        new = [event for event in self._events(stack_id) if event["EventId"] not in self._seen]
        for event in reversed(new):  # The newest come first.
            self._seen.add(event["EventId"])
            yield _event(event)

    def _events(self, name: str = "") -> list[Mapping[str, Any]]:
        """The newest page of events: more do not happen between two looks."""
        try:
            found = self.cloudformation.describe_stack_events(StackName=name or self.name)
        except ClientError as error:
            if "does not exist" in str(error):
                return []
            raise
        return [*found["StackEvents"]]


def _change(found: Mapping[str, Any]) -> Change:
    resource = found["ResourceChange"]
    return Change(
        action=resource["Action"],
        resource=resource["LogicalResourceId"],
        kind=resource["ResourceType"],
        replaced=resource.get("Replacement") in {"True", "Conditional"},
    )


def _event(found: Mapping[str, Any]) -> Event:
    return Event(
        at=f"{found['Timestamp']:%H:%M:%S}",
        resource=found["LogicalResourceId"],
        status=found["ResourceStatus"],
        reason=found.get("ResourceStatusReason", ""),
    )
