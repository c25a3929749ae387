"""Each safeguard of the lines' protocol, broken on purpose. The model must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from slotq_core.adapters.dynamodb import line_bounds
from slotq_core.adapters.dynamodb.decisions import DynamoDecisions, _enters_line
from slotq_core.adapters.dynamodb.layout import expressions, lines, table
from slotq_core.adapters.dynamodb.layout.lines import StoredLine
from slotq_core.adapters.dynamodb.layout.validation import Sieve, copy_of
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.adapters.dynamodb.reading import line_reading
from slotq_core.adapters.dynamodb.reading.line_reading import KnownLine, KnownLines, Reading
from slotq_core.adapters.dynamodb.repair.copies import Copies
from slotq_core.adapters.dynamodb.repair.line_audit import LineAudit
from slotq_core.adapters.dynamodb.repair.old_lines import OtherLines
from slotq_core.errors import Conflict
from slotq_core.policy.lines import line_of
from slotq_core.ports.stored import Change
from slotq_core.storage.order_keys import first_key, order_key
from tests.contract.worlds import NOW
from tests.faults.lines import cases
from tests.faults.lines.cases import CASES, RETURN, only_touched
from tests.faults.lines.model import Case, Found, explore
from tests.faults.mutants import Mutant, without_condition
from tests.faults.promises import LOST, STABLE


def model(name: str, *more: Case) -> Callable[[], Iterator[Found]]:
    """Explore one of the cases."""

    def hunt() -> Iterator[Found]:
        yield explore(next(each for each in (*CASES, *more) if each.name == name))

    return hunt


@contextmanager
def _returns_count_for_nothing() -> Iterator[None]:
    """A bound is raised however lately somebody has returned."""
    right = StoredLine.higher_bound

    def wrong(line: StoredLine, first: str | None, now: int) -> str:
        return right(replace(line, returned=None), first, now)

    with patch.object(StoredLine, "higher_bound", wrong):
        yield


def _up_to_the_present() -> AbstractContextManager[Any]:
    """A bound may be as high as the present time, not less GRACE."""
    return patch.object(lines, "first_key", lambda of, at: first_key(of, at + lines.GRACE))


def _bounds_stay() -> AbstractContextManager[Any]:
    """A return keeps the bound."""

    def wrong(at: int) -> dict[str, Any]:
        return {
            "UpdateExpression": "SET touched = :at, returned = :at",
            "ExpressionAttributeValues": {":at": {"N": str(at)}},
        }

    return patch.object(expressions, "return_to_line", wrong)


@contextmanager
def _touched_too_late() -> Iterator[None]:
    """A return is announced after its transaction."""
    commit, returned = DynamoDecisions.commit, LineBounds.returned

    def wrong(decisions: DynamoDecisions, changes: Sequence[Change], **more: Any) -> Any:
        with patch.object(LineBounds, "returned", lambda *_, **__: None):
            done = commit(decisions, changes, **more)
        returned(decisions._bounds, (line_of(c.after) for c in changes if _enters_line(c)))
        return done

    with patch.object(DynamoDecisions, "commit", wrong):
        yield


@contextmanager
def _touched_as_of_old() -> Iterator[None]:
    """A return touches the line with the time at which the job entered its state."""
    commit = DynamoDecisions.commit

    def wrong(decisions: DynamoDecisions, changes: Sequence[Change], **more: Any) -> Any:
        for after in (change.after for change in changes if _enters_line(change)):
            at = max(after.entry_time, after.changed_at)
            decisions._calls.update(table.line_key(line_of(after)), expressions.return_to_line(at))
        with patch.object(LineBounds, "returned", lambda *_, **__: None):
            return commit(decisions, changes, **more)

    with patch.object(DynamoDecisions, "commit", wrong):
        yield


def _removed_at_once() -> AbstractContextManager[Any]:
    """An empty line is removed however lately it was touched."""
    return patch.object(lines, "LINE_KEPT", 0)


def _claimants_left_out() -> AbstractContextManager[Any]:
    """The first job is the first without a claim."""
    right = Reading.take

    def wrong(reading: Reading, items: list[Any], seen: set[str], sieve: Sieve) -> None:
        right(reading, items, seen, sieve)
        own = (item["sk"]["S"] for item in items if copy_of(item).claim is None)
        reading.first = next(own, None)

    return patch.object(Reading, "take", wrong)


@contextmanager
def _lowered_if_greater() -> Iterator[None]:
    """A return lowers a bound that is above it, and a pass raises what is still as it read it."""
    commit = DynamoDecisions.commit

    def lowering(decisions: DynamoDecisions, changes: Sequence[Change], **more: Any) -> Any:
        for after in (change.after for change in changes if _enters_line(change)):
            with suppress(Conflict):
                decisions._calls.update(table.line_key(line_of(after)), _lower(order_key(after)))
        with patch.object(LineBounds, "returned", only_touched):
            return commit(decisions, changes, **more)

    def raising(bounds: LineBounds, line: StoredLine, first: str | None, *, now: int) -> bool:
        if bound := line.higher_bound(first, now):
            with suppress(Conflict):
                bounds._calls.update(table.line_key(line.name), _raise_as_read(line, bound))
        return bool(bound)

    with (
        patch.object(DynamoDecisions, "commit", lowering),
        patch.object(LineBounds, "raise_to", raising),
    ):
        yield


def _lower(bound: str) -> dict[str, Any]:
    return {
        "UpdateExpression": "SET bound = :bound",
        "ConditionExpression": "bound > :bound",
        "ExpressionAttributeValues": {":bound": {"S": bound}},
    }


def _raise_as_read(line: StoredLine, bound: str) -> dict[str, Any]:
    values = {":bound": {"S": bound}, **({":seen": {"S": line.bound}} if line.bound else {})}
    return {
        "UpdateExpression": "SET bound = :bound",
        "ConditionExpression": "bound = :seen" if line.bound else "attribute_not_exists(bound)",
        "ExpressionAttributeValues": values,
    }


def _without_return(kind: type, method: str) -> Callable[[], AbstractContextManager[Any]]:
    """This method only touches the lines that it puts jobs into."""
    right = getattr(kind, method)

    def wrong(*args: Any, **more: Any) -> Any:
        with patch.object(LineBounds, "returned", only_touched):
            return right(*args, **more)

    return lambda: patch.object(kind, method, wrong)


@contextmanager
def _of_before() -> Iterator[None]:
    with patch.object(LineBounds, "returned", only_touched):
        yield


SHARED = Case(
    "upgrade_in_the_same_lines",
    cases.one_runs,
    (replace(RETURN, version=_of_before), *cases.PASSES),
    time=(cases.ALMOST_A_LIFE, lines.GRACE),
    begin=NOW,
)
"""What an upgrade would be if both versions used the same lines."""


def _believes_at_once() -> AbstractContextManager[Any]:
    """An audit reports a job that it has seen below the bound, without a second look."""
    return patch.object(LineAudit, "_still", lambda *_, **__: True)


@contextmanager
def _known_whatever_returns() -> Iterator[None]:
    right = KnownLine.as_of

    def wrong(known: KnownLine, line: StoredLine, **more: Any) -> KnownLine | None:
        return right(known, replace(line, returned=known.line.returned), **more)

    with patch.object(KnownLine, "as_of", wrong):
        yield


def _known_whatever_is_submitted() -> AbstractContextManager[Any]:
    return patch.object(KnownLine, "_none_is_coming", lambda *_: True)


def _young_jobs_are_known() -> AbstractContextManager[Any]:
    """No submission comes ahead of the first job, however late its clock."""
    later = 2 * lines.GRACE
    return patch.object(line_reading, "first_key", lambda of, at: first_key(of, at + later))


@contextmanager
def _known_without_a_look() -> Iterator[None]:
    """What is known is not looked at again."""
    right = KnownLines.still

    def wrong(known: KnownLines, stored: Iterable[StoredLine], *more: Any) -> dict[str, KnownLine]:
        right(known, [], *more)
        last = ((line.name, known._last.get(line.name)) for line in stored)
        return {name: one for name, one in last if one}

    with patch.object(KnownLines, "still", wrong):
        yield


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "what is known outlasts a return",
        _known_whatever_returns,
        model("loads_beside_a_return"),
        LOST,
    ),
    Mutant(
        "what is known outlasts a submission",
        _known_whatever_is_submitted,
        model("loads_beside_a_submission"),
        LOST,
    ),
    Mutant(
        "what is known outlasts a remembered touch",
        lambda: patch.object(line_reading, "TOUCH_KEPT", 0),
        model("loads_beside_a_remembered_touch"),
        LOST,
    ),
    Mutant(
        "a young first job is known",
        _young_jobs_are_known,
        model("loads_beside_a_late_clock"),
        LOST,
    ),
    Mutant(
        "what is known is not looked at again",
        _known_without_a_look,
        model("loads_beside_a_cancel"),
        LOST,
    ),
    Mutant(
        "a bound is raised though somebody has returned since",
        without_condition(expressions, "raise_bound", "returned", "attribute_not_exists(returned)"),
        model("return_into_a_line_without_a_bound"),
        LOST,
    ),
    Mutant(
        "a bound is raised though somebody has returned lately",
        _returns_count_for_nothing,
        model("return_beside_two_passes"),
        LOST,
    ),
    Mutant(
        "a bound is raised to the present",
        _up_to_the_present,
        model("submissions_beside_a_pass"),
        LOST,
    ),
    Mutant(
        "a bound is lowered by a slow pass",
        without_condition(expressions, "raise_bound", "("),
        model("cancel_beside_two_passes"),
        STABLE,
    ),
    Mutant(
        "a line comes back by a raise",
        without_condition(expressions, "raise_bound", "attribute_exists"),
        model("removal_beside_a_raise"),
        LOST,
    ),
    Mutant("a return keeps the bound", _bounds_stay, model("return_beside_two_passes"), LOST),
    Mutant(
        "a return is announced too late", _touched_too_late, model("return_and_submission"), LOST
    ),
    Mutant(
        "a return has the time of its state",
        _touched_as_of_old,
        model("amended_into_another_line"),
        LOST,
    ),
    Mutant("a line is removed at once", _removed_at_once, model("removal_of_the_line"), LOST),
    Mutant(
        "a touched line is removed",
        without_condition(expressions, "line_untouched"),
        model("removal_of_the_line"),
        LOST,
    ),
    Mutant(
        "a touch is remembered for longer than a line is kept",
        lambda: patch.object(line_bounds, "KEPT_FOR", 2 * cases.HOUR),
        model("a_remembered_touch"),
        LOST,
    ),
    Mutant("claimants are left out", _claimants_left_out, model("a_claim_is_given_up"), LOST),
    Mutant(
        "a bound is lowered if it is greater",
        _lowered_if_greater,
        model("return_beside_two_passes"),
        LOST,
    ),
    Mutant(
        "the grace is shorter than clocks differ",
        lambda: patch.object(lines, "GRACE", 2 * cases.SKEW),
        model("clocks_differ"),
        LOST,
    ),
    Mutant(
        "jobs of other lines are moved without a return",
        _without_return(OtherLines, "move_to_own_lines"),
        model("upgrade_after_a_pass"),
        LOST,
    ),
    Mutant(
        "a copy is repaired without a return",
        _without_return(Copies, "check"),
        model("a_repair"),
        LOST,
    ),
    Mutant(
        "an earlier version shares the lines",
        nullcontext,
        model("upgrade_in_the_same_lines", SHARED),
        LOST,
    ),
    Mutant("an audit believes its first look", _believes_at_once, model("an_audit"), LOST),
)
