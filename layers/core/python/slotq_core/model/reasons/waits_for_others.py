"""Reasons of a job whose turn has not come: other jobs come first, or it waits for a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.jobs import GROUP_END
from slotq_core.model.reasons.reason import Number, Reason
from slotq_core.timestamps import iso

MOST_REPEATED = 240
"""The most characters of a head's reason that the jobs behind it repeat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BehindInLine(Reason):
    """The first job of the same line is blocked, and so is this one."""

    code: ClassVar[str] = "behind_in_line"
    ahead: int
    """Jobs in the same pools that come first in the order."""
    or_more: bool = False
    """True if `ahead` is a lower bound: so many were counted."""
    head: str = ""
    """The first job of the line that is blocked; empty: it was not examined."""
    head_waits: Reason | None = None
    """Why that job waits; this job waits for the same. Set only with `head`."""

    def sentence(self) -> str:
        ahead = self._ahead()
        if self.head_waits is None:
            return ahead
        return f"{ahead}; {self.head}, the first of its line, waits: {self._head_waits()}"

    def numbers(self) -> dict[str, Number]:
        """`or_more`, `head` and `head_reason` (the code of why the head waits) only where known."""
        said: dict[str, Number] = {"ahead": self.ahead}
        if self.or_more:
            said["or_more"] = True
        if self.head_waits is not None:
            said |= {"head": self.head, "head_reason": self.head_waits.code}
        return said

    def _ahead(self) -> str:
        if self.or_more:
            many = f"more than {self.ahead - 1:,}" if self.ahead > 1 else "other"
            return f"{many} jobs are ahead of it"
        return f"{self.ahead} {'job is' if self.ahead == 1 else 'jobs are'} ahead of it"

    def _head_waits(self) -> str:
        """Why the head waits, shortened: a long list may repeat it for each job of the line."""
        text = self.head_waits.text() if self.head_waits else ""
        return text if len(text) <= MOST_REPEATED else f"{text[: MOST_REPEATED - 1]}…"


@dataclass(frozen=True, kw_only=True, slots=True)
class BackingOff(Reason):
    """The job backs off after a capacity error or a fault of SageMaker."""

    code: ClassVar[str] = "backing_off"
    until: int
    cause: str

    def sentence(self) -> str:
        return f"tries again at {iso(self.until)}: {self.cause}"


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitsForJobs(Reason):
    """The job comes after others, or after groups (`group:NAME`), that have not completed or, in
    `ended`, not ended yet."""

    code: ClassVar[str] = "waits_for_jobs"
    jobs: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()

    def sentence(self) -> str:
        parts = [
            f"{', '.join(map(_in_words, names))}, which must {verb} first"
            for names, verb in ((self.jobs, "complete"), (self.ended, "end"))
            if names
        ]
        return f"comes after {', and after '.join(parts)}"


def _in_words(name: str) -> str:
    """A job or a group, in a sentence."""
    group = name.removeprefix(GROUP_END)
    return name if group == name else f"group {group}"


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupNotWhole(Reason):
    """The submission of the job's group is not finished."""

    code: ClassVar[str] = "group_not_whole"
    group: str

    def sentence(self) -> str:
        return f"waits for the rest of group {self.group}, which is being submitted"


@dataclass(frozen=True, kw_only=True, slots=True)
class TriesAgain(Reason):
    """The job waits for its next attempt to start, as the scheduler settings say."""

    code: ClassVar[str] = "tries_again"
    until: int
    attempts: int
    """Failed attempts so far."""
    cause: str
    """Why the last attempt failed."""

    def sentence(self) -> str:
        return f"is tried again at {iso(self.until)}: {self.cause}"


@dataclass(frozen=True, kw_only=True, slots=True)
class NextPass(Reason):
    """Nothing blocks the job: it starts with the next pass, which is due."""

    code: ClassVar[str] = "next_pass"
    pool: str

    def sentence(self) -> str:
        return f"starts in pool {self.pool} with the next pass"
