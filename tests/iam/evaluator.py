"""Judges calls by IAM policies: identity policies of one principal, as far as ours use them.

The rules are those of the IAM User Guide ("Policy evaluation logic", "Condition operators",
"Condition with multiple context keys or values"): an explicit deny wins, then an allow, else it is
denied. What is not known here (a policy variable, an operator) raises: no statement is judged
wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Statement = Mapping[str, Any]
Context = Mapping[str, Sequence[str]]


class Verdict(StrEnum):
    ALLOWED = "allowed"
    DENIED = "denied"
    """No statement allows the call."""
    FORBIDDEN = "forbidden"
    """A statement denies the call."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One action on one resource in one context, as IAM judges it."""

    action: str
    resource: str
    context: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())

    def __str__(self) -> str:
        keys = ", ".join(f"{key}={'+'.join(values)}" for key, values in self.context)
        return f"{self.action} {self.resource}" + (f" [{keys}]" if keys else "")


def call(
    action: str, resource: str, context: Mapping[str, str | Sequence[str]] | None = None
) -> Call:
    values = {
        key: (value,) if isinstance(value, str) else tuple(value)
        for key, value in (context or {}).items()
    }
    return Call(action=action, resource=resource, context=tuple(sorted(values.items())))


def judge(statements: Iterable[Statement], asked: Call) -> Verdict:
    effects = {statement["Effect"] for statement in statements if applies(statement, asked)}
    if "Deny" in effects:
        return Verdict.FORBIDDEN
    return Verdict.ALLOWED if "Allow" in effects else Verdict.DENIED


def applies(statement: Statement, asked: Call) -> bool:
    unknown = set(statement) - {"Sid", "Effect", "Action", "NotAction", "Resource", "Condition"}
    if unknown:
        raise ValueError(f"{sorted(unknown)} is not known here")
    if "NotAction" in statement:
        if _any_fits(statement["NotAction"], asked.action, str.lower):
            return False
    elif not _any_fits(statement["Action"], asked.action, str.lower):
        return False
    if not _any_fits(statement["Resource"], asked.resource):
        return False
    context = {key.lower(): values for key, values in asked.context}
    return all(
        _holds(operator, key, many(wanted), context)
        for operator, keys in statement.get("Condition", {}).items()
        for key, wanted in keys.items()
    )


def many(value: Any) -> list[str]:
    """IAM treats one value like a list of one, and JSON's true like "true"."""
    values = value if isinstance(value, list | tuple) else [value]
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in values]


def fits(pattern: str, text: str) -> bool:
    """`*` matches any text and `?` one character; nothing else is special."""
    if "${" in pattern:
        raise ValueError(f"the variable in {pattern} is not known here")
    wild = {"*": ".*", "?": "."}
    whole = "".join(wild.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(whole, text, re.DOTALL) is not None


def arn_fits(pattern: str, text: str) -> bool:
    """Each of the six parts matches separately: no wildcard crosses a colon, except in the last
    part."""
    wanted, there = pattern.split(":", 5), text.split(":", 5)
    return len(wanted) == len(there) == 6 and all(map(fits, wanted, there))


def _any_fits(patterns: Any, text: str, fold: Callable[[str], str] = str) -> bool:
    return any(fits(fold(pattern), fold(text)) for pattern in many(patterns))


def _same(wanted: str, there: str) -> bool:
    if "${" in wanted:
        raise ValueError(f"the variable in {wanted} is not known here")
    return wanted == there


def _same_but_for_case(wanted: str, there: str) -> bool:
    return _same(wanted.lower(), there.lower())


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": _same,
    "StringEqualsIgnoreCase": _same_but_for_case,
    "StringLike": fits,
    "ArnEquals": arn_fits,
    "ArnLike": arn_fits,
    "Bool": _same_but_for_case,
}
_NEGATED = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
}


def _holds(operator: str, key: str, wanted: Sequence[str], context: Context) -> bool:
    there = list(context.get(key.lower(), ()))
    if operator == "Null":
        return all((each == "true") == (not there) for each in wanted)
    quantifier, _, name = operator.rpartition(":")
    if name.endswith("IfExists"):
        if not there:
            return True
        name = name.removesuffix("IfExists")
    negated = name in _NEGATED
    compare = _OPERATORS.get(_NEGATED.get(name, name))
    if compare is None or quantifier not in {"", "ForAllValues", "ForAnyValue"}:
        raise ValueError(f"the condition operator {operator} is not known here")

    def one(value: str) -> bool:
        return any(compare(each, value) for each in wanted) is not negated

    if quantifier == "ForAllValues":
        return all(map(one, there))  # also if the key is missing
    if quantifier == "ForAnyValue":
        return any(map(one, there))
    if not there:
        return negated
    if len(there) > 1:
        raise ValueError(f"{key} has several values: {operator} needs ForAllValues or ForAnyValue")
    return one(there[0])
