"""template.yaml as data."""

from pathlib import Path
from typing import Any

import yaml

TEMPLATE = Path(__file__).parents[1] / "template.yaml"


class _Loader(yaml.SafeLoader):
    """Reads CloudFormation's short forms as {name: value}."""


def _short_form(loader: Any, suffix: str, node: Any) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return {suffix: loader.construct_scalar(node)}
    return {suffix: loader.construct_sequence(node, deep=True)}


_Loader.add_multi_constructor("!", _short_form)


def template() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(TEMPLATE.read_text(), _Loader)
    return loaded


def allowed_actions() -> set[str]:
    """What the queue manager's role may do."""
    (policy,) = template()["Resources"]["QueueManager"]["Properties"]["Policies"]
    named = [statement["Action"] for statement in policy["Statement"]]
    return {
        action
        for actions in named
        for action in ([actions] if isinstance(actions, str) else actions)
    }
