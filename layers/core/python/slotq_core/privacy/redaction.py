"""What is said of a request or a training job, without what only its owner may see.

A job's message is shown to everybody who may look at the queue. But SageMaker quotes the value that
it refuses, botocore too, and the framework containers end a FailureReason with the script's command
line: its hyperparameters. Those and the environment hold passwords.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MARK = "…"
"""Stands where something is withheld."""

SECRET_FIELDS = ("HyperParameters", "Environment", "Tags")
"""The fields of a request whose values nobody is shown but by GET /jobs/{name}/request."""

_OPEN = frozenset(
    f"sagemaker_{name}" for name in ("container_log_level", "job_name", "program", "region")
)
"""Hyperparameters that SageMaker's SDK sets by itself and that everybody knows."""

_SHORTEST = 4
"""Characters: a shorter value is no secret, and would be found in any text."""
_WORD = 16
"""Characters: a shorter word is looked for as a word: "adam" is not in "madam"."""
_HEAD = 64
"""Characters: of a longer value so much is withheld wherever it stands, and what follows it as far
as the value goes: somebody may have cut it."""

LONGEST_TEXT = 131_072
"""Characters of a text that are looked through; nobody is shown the rest. SageMaker quotes what it
refuses before it says why, and 100 environment variables have 50,000."""

_QUOTED = (
    # SageMaker: 1 validation error detected: Value '{…}' at 'environment' failed to satisfy …
    (re.compile(r"\bValue '.*?(?:'( at ')|\Z)", re.DOTALL), rf"Value '{MARK}'\1"),
    # botocore: Invalid type for parameter Environment.A, value: …, type: <class 'list'>, …
    (re.compile(r", value: .*?(?:(, (?:type: <|valid ))|\Z)", re.DOTALL), rf", value: {MARK}\1"),
    # The containers' training toolkit: … Command "/usr/bin/python3 train.py --epochs 3"
    (re.compile(r'\bCommand ".*?"?(, exit code: \d+)?\Z', re.DOTALL), rf'Command "{MARK}"\1'),
)
"""Each withholds to the text's end what has no end: the text may have been cut. So a search never
begins again where one has begun before, and the time grows with the text only."""


def without_secrets(text: str, request: Mapping[str, Any]) -> str:
    """The text without the request's hyperparameters, environment and tags, whole or quoted, and
    without an end that may be the beginning of one. Cut to LONGEST_TEXT.

    The time grows with the text plus the request, never with their product.
    """
    text = _Secrets(_forms(request)).hidden_in(text[:LONGEST_TEXT])
    for pattern, replacement in _QUOTED:
        text = pattern.sub(replacement, text)
    return text


class _Secrets:
    """Values that are looked for all at once."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = sorted(set(values))
        self._begins = {value[:_SHORTEST] for value in self._values}
        self._short = {value for value in self._values if len(value) <= _HEAD}
        self._lengths = sorted({len(value) for value in self._short}, reverse=True)
        self._heads = {value[:_HEAD] for value in self._values if len(value) > _HEAD}

    def hidden_in(self, text: str) -> str:
        """The text with a mark in place of each stretch that belongs to any of the values."""
        shown: list[str] = []
        start = hidden_to = 0
        while start < len(text):
            end = self._end(text, start)
            if end > hidden_to:
                shown += () if start < hidden_to else (text[hidden_to:start], MARK)
                hidden_to = end
            # What begins within a value may go on beyond it.
            start = max(start + 1, end - _HEAD // 2)
        return "".join((*shown, text[hidden_to:]))

    def _end(self, text: str, start: int) -> int:
        """Where what begins there ends, if it is one of the values or the end of the text may be
        the beginning of one; else 0. The longest counts."""
        if text[start : start + _SHORTEST] not in self._begins:
            return 0
        head = text[start : start + _HEAD]
        if head in self._heads:
            return start + self._agreement(text[start:])
        for length in self._lengths:
            if head[:length] in self._short and _stands_alone(text, start, start + length):
                return start + length
        is_cut = len(text) <= start + _HEAD and self._agreement(head) == len(head)
        return len(text) if is_cut else 0

    def _agreement(self, text: str) -> int:
        """How many characters the text begins with that one of the values begins with too. In
        their order, that value is next to where the text would be."""
        place = bisect_left(self._values, text)
        near = self._values[max(0, place - 1) : place + 1]
        return max(_in_common(value, text) for value in near)


def _in_common(one: str, other: str) -> int:
    """The length of the longest beginning of both."""
    lengths = range(1, min(len(one), len(other)) + 1)
    return bisect_left(lengths, 1, key=lambda n: one[:n] != other[:n])


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether it is no part of another word, where it is a short word."""
    value = text[start:end]
    if len(value) >= _WORD or not value.isalnum():
        return True
    around = text[max(0, start - 1) : start] + text[end : end + 1]
    return not any(character.isalnum() or character == "_" for character in around)


def _forms(request: Mapping[str, Any]) -> Iterator[str]:
    """Each value as it is, as Python and JSON write it, and without the quotation marks that the
    SDK puts around a hyperparameter."""
    for field in SECRET_FIELDS:
        for value in _leaves(request.get(field)):
            for form in (value, value.strip('"'), json.dumps(value)[1:-1], repr(value)[1:-1]):
                if len(form) >= _SHORTEST:
                    yield form


def _leaves(value: Any) -> Iterator[str]:
    """The values, whatever form somebody has given the field; of a tag its value alone."""
    if isinstance(value, Mapping):
        tag = value.keys() == {"Key", "Value"}
        for key, each in value.items():
            if key not in _OPEN and not (tag and key == "Key"):
                yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif value is not None:
        yield str(value)
