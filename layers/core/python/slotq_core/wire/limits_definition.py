"""The definition of limits: settings, bounds, and the resulting limits.

The template's parameter, the API and the table all use this definition. 0 means "no limit". In a
rule for some callers, null means "as for everyone".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slotq_core.errors import InvalidRequest
from slotq_core.model.callers import NO_LIMITS, CallerLimits, CallerRule, Limits

MOST: Mapping[str, int] = {
    "waiting": 1_000_000,
    "submissions": 1_000_000,
    "priority": 1_000_000,
    "waiting_in_all": 1_000_000,
    "lines": 1_000_000,
}
"""Every numeric limit with its largest value."""
OF_A_CALLER = ("waiting", "submissions", "priority")
"""Limits that a rule may set too."""
MOST_RULES = 50
LONGEST_PATTERN = 512
SETTINGS = (*MOST, "callers")
"""All settings."""


def limits_from(settings: Mapping[str, Any], before: Limits | None = None) -> Limits:
    """The limits with these settings. A setting that is not named stays as in `before`.

    Whole numbers may be text. Raises InvalidRequest with the setting as its field.
    """
    _known(settings, SETTINGS, "")
    wanted = {**limit_settings(before or NO_LIMITS), **settings}
    number = {key: _whole(key, wanted[key], MOST[key]) for key in MOST}
    return Limits(
        default=CallerLimits(**{key: number[key] for key in OF_A_CALLER}),
        waiting_in_all=number["waiting_in_all"],
        lines=number["lines"],
        rules=_rules(wanted["callers"]),
    )


def limit_settings(limits: Limits) -> dict[str, Any]:
    """Every setting, as `limits_from` takes it."""
    return {
        **{key: getattr(limits.default, key) for key in OF_A_CALLER},
        "waiting_in_all": limits.waiting_in_all,
        "lines": limits.lines,
        "callers": [
            {
                "callers": rule.callers,
                "together": rule.together,
                **{key: getattr(rule, key) for key in OF_A_CALLER},
            }
            for rule in limits.rules
        ],
    }


def _rules(value: object) -> tuple[CallerRule, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MOST_RULES:
        raise _wrong("callers", f"a list of at most {MOST_RULES} rules", value)
    rules = tuple(_rule(f"callers.{n}", entry) for n, entry in enumerate(value))
    patterns = [rule.callers for rule in rules]
    if twice := next((pattern for pattern in patterns if patterns.count(pattern) > 1), None):
        raise InvalidRequest(f"callers: '{twice}' occurs more than once", field="callers")
    return rules


def _rule(path: str, entry: object) -> CallerRule:
    if not isinstance(entry, Mapping):
        raise _wrong(path, "an object with callers, waiting, submissions …", entry)
    _known(entry, ("callers", "together", *OF_A_CALLER), f"{path}.")
    pattern, together = entry.get("callers"), entry.get("together", False)
    if not isinstance(pattern, str) or not 0 < len(pattern) <= LONGEST_PATTERN:
        raise _wrong(f"{path}.callers", "the ARN of a caller, where * matches any text", pattern)
    if not isinstance(together, bool):
        raise _wrong(f"{path}.together", "true or false", together)
    own = {
        key: None if entry.get(key) is None else _whole(f"{path}.{key}", entry[key], MOST[key])
        for key in OF_A_CALLER
    }
    return CallerRule(callers=pattern, together=together, **own)


def _known(entry: Mapping[str, Any], keys: Sequence[str], path: str) -> None:
    if unknown := next((key for key in entry if key not in keys), None):
        field = f"{path}{unknown}"
        raise InvalidRequest(f"limits: '{field}' is not one of {', '.join(keys)}", field=field)


def _whole(path: str, value: object, most: int) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise _wrong(path, f"a whole number from 0 (no limit) to {most:,}", value)
    return value


def _wrong(path: str, right: str, value: object) -> InvalidRequest:
    return InvalidRequest(f"limits: {path} must be {right}, not {str(value)[:80]!r}", field=path)
