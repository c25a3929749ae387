"""Removal of secrets from messages about requests and training jobs.

Everyone with access to the queue sees a job's message. But SageMaker and botocore quote the values
that they refuse, and the framework containers end a FailureReason with the script's command line,
which contains the hyperparameters. Hyperparameters and the environment may hold passwords.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MARK = "…"
"""Replaces withheld text."""

SECRET_FIELDS = ("HyperParameters", "Environment", "Tags")
"""Request fields whose values are shown only by GET /jobs/{name}/request."""

_OPEN = frozenset(
    f"sagemaker_{name}" for name in ("container_log_level", "job_name", "program", "region")
)
"""Hyperparameters that SageMaker's SDK sets and that are no secret."""

_SHORTEST = 4
"""Characters. A shorter value is no secret, and would occur in any text."""
_WORD = 16
"""Characters. A shorter value matches only as a whole word: "adam" does not match in "madam"."""
_HEAD = 64
"""Characters. The first `_HEAD` characters of a longer value are withheld wherever they occur, with
as much of the value as follows: the value may have been cut."""

LONGEST_TEXT = 131_072
"""Characters of a text that are searched; the rest is dropped. SageMaker quotes a refused value
before it gives the cause, and 100 environment variables have 50,000 characters."""

_QUOTED = (
    # SageMaker: 1 validation error detected: Value '{…}' at 'environment' failed to satisfy …
    (re.compile(r"\bValue '.*?(?:'( at ')|\Z)", re.DOTALL), rf"Value '{MARK}'\1"),
    # botocore: Invalid type for parameter Environment.A, value: …, type: <class 'list'>, …
    (re.compile(r", value: .*?(?:(, (?:type: <|valid ))|\Z)", re.DOTALL), rf", value: {MARK}\1"),
    # The containers' training toolkit: … Command "/usr/bin/python3 train.py --epochs 3"
    (re.compile(r'\bCommand ".*?"?(, exit code: \d+)?\Z', re.DOTALL), rf'Command "{MARK}"\1'),
)
"""A quotation without an end is withheld to the end of the text, which may have been cut. So no
search starts twice at one place, and the time grows only with the text."""


def without_secrets(text: str, request: Mapping[str, Any]) -> str:
    """The text without the request's hyperparameters, environment and tags, whole or quoted, and
    without an ending that may be the start of one. Cut to LONGEST_TEXT characters.

    The time grows with the sum of text and request, never with their product.
    """
    text = _Secrets(_forms(request)).hidden_in(text[:LONGEST_TEXT])
    for pattern, replacement in _QUOTED:
        text = pattern.sub(replacement, text)
    return text


class _Secrets:
    """Secret values, searched for all at once."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = sorted(set(values))
        self._begins = {value[:_SHORTEST] for value in self._values}
        self._short = {value for value in self._values if len(value) <= _HEAD}
        self._lengths = sorted({len(value) for value in self._short}, reverse=True)
        self._heads = {value[:_HEAD] for value in self._values if len(value) > _HEAD}
        self._longest = max(map(len, self._values), default=0)
        firsts = re.escape("".join(sorted({value[0] for value in self._values})))
        self._first = re.compile(f"[{firsts}]") if firsts else None
        """Finds where a value may begin."""

    def hidden_in(self, text: str) -> str:
        """The text with MARK in place of each stretch that belongs to a value."""
        shown: list[str] = []
        start = hidden_to = 0
        while self._first is not None and (found := self._first.search(text, start)):
            start = found.start()
            end = self._end(text, start)
            if end > hidden_to:
                shown += () if start < hidden_to else (text[hidden_to:start], MARK)
                hidden_to = end
            # A value that begins within this one may end after it.
            start = max(start + 1, end - _HEAD // 2)
        return "".join((*shown, text[hidden_to:]))

    def _end(self, text: str, start: int) -> int:
        """The end of the longest value that begins at `start`, or of the text if it may cut a value
        off there; else 0."""
        if text[start : start + _SHORTEST] not in self._begins:
            return 0
        head = text[start : start + _HEAD]
        if head in self._heads:
            return start + self._agreement(text[start : start + self._longest])
        for length in self._lengths:
            if head[:length] in self._short and _is_separate(text, start, start + length):
                return start + length
        is_cut = len(text) <= start + _HEAD and self._agreement(head) == len(head)
        return len(text) if is_cut else 0

    def _agreement(self, text: str) -> int:
        """The length of the longest beginning that the text shares with any value. In sorted order
        that value is next to the text's place."""
        place = bisect_left(self._values, text)
        near = self._values[max(0, place - 1) : place + 1]
        return max(_in_common(value, text) for value in near)


def _in_common(one: str, other: str) -> int:
    """The length of the common beginning of two texts."""
    lengths = range(1, min(len(one), len(other)) + 1)
    return bisect_left(lengths, 1, key=lambda n: one[:n] != other[:n])


def _is_separate(text: str, start: int, end: int) -> bool:
    """Whether a short word is not part of a longer word; true for every other value."""
    value = text[start:end]
    if len(value) >= _WORD or not value.isalnum():
        return True
    around = text[max(0, start - 1) : start] + text[end : end + 1]
    return not any(character.isalnum() or character == "_" for character in around)


def _forms(request: Mapping[str, Any]) -> Iterator[str]:
    """Each secret value plain, as Python and as JSON write it, and without the quotation marks that
    the SDK puts around hyperparameters."""
    for field in SECRET_FIELDS:
        for value in _leaves(request.get(field)):
            for form in (value, value.strip('"'), json.dumps(value)[1:-1], repr(value)[1:-1]):
                if len(form) >= _SHORTEST:
                    yield form


def _leaves(value: Any) -> Iterator[str]:
    """The values of a field in any form; of a tag only the value."""
    if isinstance(value, Mapping):
        tag = value.keys() == {"Key", "Value"}
        for key, part in value.items():
            if key not in _OPEN and not (tag and key == "Key"):
                yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    elif value is not None:
        yield str(value)
