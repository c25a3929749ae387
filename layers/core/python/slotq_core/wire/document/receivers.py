"""The section `notifications`: the jobs of a rule, and its receivers.

No message repeats a value: it may be a secret, pasted by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from slotq_core.model.notices import JobEvent, Receiver
from slotq_core.notices.channels import CHANNELS, SECRET
from slotq_core.notices.places import fault_in_reference
from slotq_core.wire.document.faults import DocumentFault, Loc, refuse, unknown

ALL = "all"

_CHECKS: Mapping[str, Callable[[object], str]] = {
    **{key: channel.fault for key, channel in CHANNELS.items()},
    SECRET: fault_in_reference,
}
_SIGNING = tuple(key for key, channel in CHANNELS.items() if channel.signs)
*_FIRST, _LAST = (
    f"{{{key}: {channel.takes}{f', {SECRET}: REFERENCE' if channel.signs else ''}}}"
    for key, channel in CHANNELS.items()
)
_FORMS = f"{', '.join(_FIRST)} and {_LAST}"


def _about(value: object) -> dict[str, str]:
    """Read the project or person of a rule; empty for all jobs."""
    if value in (ALL, {}):
        return {}
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"one of {{project: NAME}}, {{person: ARN}} and {ALL} is needed")
    ((key, name),) = value.items()
    if key not in {"project", "person"} or not isinstance(name, str) or not name:
        raise ValueError(f"one of {{project: NAME}}, {{person: ARN}} and {ALL} is needed")
    if key == "person" and not name.startswith("arn:"):
        raise ValueError("a person is an ARN, as `slotq whoami` shows it")
    return {key: name}


def _receiver(value: object) -> Receiver:
    if isinstance(value, Receiver):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"one of {_FORMS} is needed")
    faults = [*_faults(value)]
    if faults:
        refuse(*faults)
    (channel,) = value.keys() & CHANNELS.keys()
    return Receiver(channel=channel, place=value[channel], secret=value.get(SECRET, ""))


def _faults(receiver: dict[Any, Any]) -> list[DocumentFault]:
    if any(key not in _CHECKS for key in receiver):
        return [DocumentFault((), f"its keys are {', '.join(_CHECKS)}; another one is there")]
    if sum(key in receiver for key in CHANNELS) != 1:
        return [DocumentFault((), f"exactly one of {', '.join(CHANNELS)} is needed")]
    signs = any(key in receiver for key in _SIGNING)
    if signs and SECRET not in receiver:
        return [
            DocumentFault((SECRET,), "a webhook needs a secret, with which its messages are signed")
        ]
    if SECRET in receiver and not signs:
        return [DocumentFault((SECRET,), "only messages to a webhook are signed")]
    found = [(key, _CHECKS[key](own)) for key, own in receiver.items()]
    return [DocumentFault((key,), fault) for key, fault in found if fault]


_TEXT = {"type": "string", "minLength": 1}
About = Annotated[
    dict[str, str],
    PlainValidator(_about),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": ALL},
                *(
                    {
                        "type": "object",
                        "properties": {key: _TEXT},
                        "required": [key],
                        "additionalProperties": False,
                    }
                    for key in ("project", "person")
                ),
            ]
        }
    ),
]
"""`{project: vision}`, `{person: ARN}` or `all`."""
To = Annotated[
    Receiver,
    PlainValidator(_receiver),
    WithJsonSchema(
        {
            "type": "object",
            "properties": dict.fromkeys(_CHECKS, _TEXT),
            "minProperties": 1,
            "additionalProperties": False,
        }
    ),
]
"""A channel's key with a place: `{sns: ARN}`. `secret` beside it, if the channel signs."""


def notification_faults(document: Any) -> Iterator[DocumentFault]:
    """Yield contradictions of notifications: with the rest of the document, and in themselves."""
    projects = [project.name for project in document.projects]
    where: Loc
    for place, rule in enumerate(document.notifications):
        project = rule.about.get("project", "")
        if project and project not in projects:
            where = ("notifications", place, "for", "project")
            yield unknown(where, "project", project, projects)
        if not rule.events and rule.digest is None:
            where = ("notifications", place, "events")
            yield DocumentFault(where, "name an event, or write digest: daily")
        if rule.stuck_after is not None and JobEvent.STUCK not in rule.events and not rule.digest:
            where = ("notifications", place, "stuck_after")
            yield DocumentFault(where, f"it does nothing here: add {JobEvent.STUCK} to the events")
