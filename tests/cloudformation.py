"""template.yaml as data, and its intrinsic functions worked out for given parameters."""

import copy
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TEMPLATE = Path(__file__).parents[1] / "template.yaml"
ACCOUNT, REGION = "123456789012", "us-east-1"
NOTHING = object()
"""AWS::NoValue."""


class Loader(yaml.SafeLoader):
    """Reads CloudFormation's short forms as {name: value}."""


def _short_form(loader: Any, suffix: str, node: Any) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return {suffix: loader.construct_scalar(node)}
    return {suffix: loader.construct_sequence(node, deep=True)}


Loader.add_multi_constructor("!", _short_form)


def template() -> dict[str, Any]:
    """The template, to be changed at will."""
    return copy.deepcopy(_template())


@cache
def _template() -> dict[str, Any]:
    """Read once, because reading takes long."""
    loaded: dict[str, Any] = yaml.load(TEMPLATE.read_text(), Loader)
    return loaded


class Resolver:
    """Works out Ref, GetAtt, Sub, If, Join, Split and conditions, in their short and their long
    form, as a deployment as stack `slotq` would. What it does not know raises KeyError."""

    def __init__(self, template: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        defaults = {
            name: str(parameter.get("Default", ""))
            for name, parameter in template["Parameters"].items()
        }
        self._lists = {
            name
            for name, parameter in template["Parameters"].items()
            if parameter["Type"] == "CommaDelimitedList"
        }
        self.parameters = {**defaults, **parameters}
        self._conditions = template["Conditions"]
        self._functions = {
            "Ref": self._ref,
            "GetAtt": lambda value: self._physical[
                value if isinstance(value, str) else ".".join(value)
            ],
            "Sub": self._sub,
            "If": lambda value: self(value[1] if self._condition(value[0]) else value[2]),
            "Join": lambda value: value[0].join(self(value[1])),
            "Split": lambda value: self(value[1]).split(value[0]),
            "Equals": lambda value: str(self(value[0])) == str(self(value[1])),
            "Not": lambda value: not self(value[0]),
            "And": lambda value: all(map(self, value)),
            "Or": lambda value: any(map(self, value)),
        }

    def __call__(self, node: Any) -> Any:
        if isinstance(node, Mapping):
            if len(node) == 1:
                (name,) = node
                if name == "Condition" and isinstance(node[name], str):
                    return self._condition(node[name])
                function = self._functions.get(name.removeprefix("Fn::"))
                if function is not None:
                    return function(node[name])
            found = {key: self(value) for key, value in node.items()}
            return {key: value for key, value in found.items() if value is not NOTHING}
        if isinstance(node, list):
            return [value for value in map(self, node) if value is not NOTHING]
        return node

    def _ref(self, name: str) -> Any:
        if name in self._lists:
            return self.parameters[name].split(",")
        return self._physical[name]

    def _sub(self, value: str | list[Any]) -> str:
        text, own = (value, {}) if isinstance(value, str) else value
        known = {**self._physical, **self(own)}
        return re.sub(r"\$\{([^}]+)\}", lambda found: str(known[found.group(1)]), text)

    def _condition(self, name: str) -> bool:
        return bool(self(self._conditions[name]))

    @property
    def _physical(self) -> dict[str, Any]:
        """What names stand for, once deployed."""
        own = f"{REGION}:{ACCOUNT}"
        logs = f"arn:aws:logs:{own}:log-group:/aws/lambda/slotq"
        return {
            **self.parameters,
            "AWS::NoValue": NOTHING,
            "AWS::Partition": "aws",
            "AWS::Region": REGION,
            "AWS::AccountId": ACCOUNT,
            "AWS::StackName": "slotq",
            "AWS::URLSuffix": "amazonaws.com",
            "Api": "a1b2c3d4e5",
            "DeadLetters": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/dead-letters",
            "ReadTheTable": f"arn:aws:iam::{ACCOUNT}:policy/read-the-table",
            "Endpoint": "vpce-0e0e",
            "EndpointSecurityGroup": "sg-0e0e",
            "DeadLetters.Arn": f"arn:aws:sqs:{own}:dead-letters",
            "Wakes": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/wakes",
            "Wakes.Arn": f"arn:aws:sqs:{own}:wakes",
            "NodesBucket": "slotq-nodes",
            "NodesBucket.Arn": "arn:aws:s3:::slotq-nodes",
            "QueueManagerRole.Arn": f"arn:aws:iam::{ACCOUNT}:role/slotq-queue",
            "DoorRole.Arn": f"arn:aws:iam::{ACCOUNT}:role/slotq-door",
            "QueueManagerLog.Arn": f"{logs}-queue-manager:*",
            "DoorLog.Arn": f"{logs}-door:*",
            "ViewsLog.Arn": f"{logs}-views:*",
            "NotifierLog.Arn": f"{logs}-notifier:*",
            "PipelineStepsLog.Arn": f"{logs}-pipelines:*",
        }


def statements(
    role: str, parameters: Mapping[str, str], source: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """What a role of the template may do. `source`: the template; that in the repository."""
    resources = (source or template())["Resources"]
    resolve, properties = Resolver(template(), parameters), resources[role]["Properties"]
    shared = [resources[each["Ref"]]["Properties"] for each in properties["ManagedPolicyArns"]]
    found: list[dict[str, Any]] = []
    for policy in resolve([*shared, *properties["Policies"]]):
        found += policy["PolicyDocument"]["Statement"]
    return found


def depends_on(resource: Mapping[str, Any]) -> set[str]:
    """The names that a transformed resource refers to or waits for, parameters among them."""
    waits = resource.get("DependsOn", [])
    return {*([waits] if isinstance(waits, str) else waits), *_named(resource)}


def _named(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for each in node:
            yield from _named(each)
    for key, value in node.items() if isinstance(node, Mapping) else ():
        match key:
            case "Ref":
                yield value
            case "Fn::GetAtt":
                yield value[0]
            case "Fn::Sub":
                text, *more = [value] if isinstance(value, str) else value
                yield from (each.split(".")[0] for each in re.findall(r"\$\{([^!}]+)\}", text))
                yield from _named(more)
            case "Fn::If":
                yield value[0]
                yield from _named(value)
            case _:
                yield from _named(value)
