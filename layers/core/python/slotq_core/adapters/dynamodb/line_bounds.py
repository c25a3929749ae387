"""Write lines: touches, returns, bounds and removals. `layout.lines` has the rules.

A refused write is not repeated: another handler was faster, and the next pass reads again.

A touch keeps a line from being removed: a pass removes one that it finds empty and untouched for
`layout.lines.LINE_KEPT`, an hour. A submission that relies on a touch of at most KEPT_FOR commits
within a minute of it, so long before any pass may remove the line. The clocks of both sides may
differ by the rest of the hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.lines import StoredLine, has_touch
from slotq_core.errors import Conflict, InvalidRequest, SlotQError
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of
from slotq_core.ports.stored import NoSuchLine

KEPT_FOR = 600_000
"""How long (ms) a touch replaces further ones: far less than `layout.lines.LINE_KEPT`."""

MOST_KEPT = 10_000
"""Maximum number of remembered lines: some megabytes of names. Beyond that, all are forgotten: each
costs one call again."""


class LineBounds:
    def __init__(self, calls: TableCalls, clock: Callable[[], int]) -> None:
        """Set up the writer. `clock` gives the time (ms)."""
        self._calls = calls
        self._clock = clock

    def returned(self, lines: Iterable[str], *, now: int | None = None) -> None:
        """Announce that stored jobs are about to enter these lines. The transaction that puts them
        there follows, within the life of the handler. `now`: ms; None: by the clock."""
        for line in sorted(set(lines)):
            at = self._clock() if now is None else now
            self._calls.update(table.line_key(line), expressions.return_to_line(at))

    def returned_by_user(self, lines: Iterable[str], *, opener: str) -> None:
        """Announce the same of a user's change. `opener`: the caller whose limits count a new line;
        empty: raises NoSuchLine if one of the lines does not exist."""
        for line in sorted(set(lines)):
            update = expressions.return_by_user(self._clock(), opener=opener)
            try:
                self._calls.update(table.line_key(line), update)
            except Conflict:
                raise NoSuchLine(f"there is no line {line}") from None

    def count(self, changes: Mapping[str, int]) -> None:
        """Count jobs that have entered (above 0) or left lines. Best effort: the changes are
        committed, and an audit corrects the counts."""
        for line, change in changes.items():
            with suppress(SlotQError):  # Among others: the line is gone.
                self._calls.update(table.line_key(line), expressions.count_waiting(change))

    def mend_touched(self, line: str) -> None:
        """Repair an unreadable time of the last touch."""
        key = table.line_key(line)
        item = self._calls.item(key)
        if item is None or has_touch(item):
            return
        with suppress(Conflict):  # A submission has touched the line since, and may rely on it.
            mended = expressions.set_numbers({"touched": self._clock()})
            unchanged = expressions.as_read(item, "touched")
            self._calls.update(key, expressions.on_condition(mended, unchanged))

    def raise_to(self, line: StoredLine, first: str | None, *, now: int) -> bool:
        """Raise the line's bound if this is allowed and worth a write, or repair a broken one.
        Return whether a write was made. `first` and `now` as in `StoredLine.higher_bound`."""
        if line.broken:
            self.returned([line.name])
            return True
        bound = line.higher_bound(first, now)
        if bound:
            raised = expressions.raise_bound(bound, returned=line.returned)
            with suppress(Conflict):  # Somebody has returned, or raised it further.
                self._calls.update(table.line_key(line.name), raised)
        return bool(bound)

    def remove(self, line: StoredLine, *, now: int) -> None:
        """Remove a line that is empty, unless it was touched within `LINE_KEPT`."""
        if line.touched is not None and line.outlived(now):
            untouched = expressions.line_untouched(line.touched)
            with suppress(Conflict):  # Somebody has touched the line since.
                self._calls.delete(table.line_key(line.name), untouched)


class TouchedLines:
    """The lines that this process has touched recently, so that a submission to one of them saves a
    call: by line, the time of the last touch by a submission, by its own clock."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}

    def lately(self, job: Job) -> bool:
        """Whether the line of a new job was touched within KEPT_FOR before it entered."""
        touched = self._at.get(line_of(job))
        return touched is not None and 0 <= job.entry_time - touched < KEPT_FOR

    def note(self, job: Job) -> None:
        if len(self._at) >= MOST_KEPT:
            self._at.clear()
        self._at[line_of(job)] = job.entry_time


def checked_line(line: str) -> str:
    """Return the line's name. Raises InvalidRequest if the table cannot have it."""
    if len(line.encode()) > table.MAX_SORT_KEY:
        raise InvalidRequest(
            "the names of the job's pools, project and user are together too long for the queue's "
            "table: name fewer pools in the tag 'slotq:pools'",
            field="slotq:pools",
        )
    return line
