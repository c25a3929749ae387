"""A job as a card: name, state, progress and evictions.

Names, messages and reasons are untrusted: every one is escaped, and loses what does not print.
There is no script, no link and nothing to load.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from slotq.jobs.follow import ended, ending, status_line
from slotq.jobs.progress_bar import fraction, short
from slotq.jobs.rendering import JOB, PROGRESS, Bundle, bundle, clean
from slotq_core.model.jobs import JobState
from slotq_core.wire.views.jobs import AttemptView, JobView

S = JobState

_COLORS: dict[str, str] = {
    S.RUNNING: "#1a7f37",
    S.STARTING: "#1a7f37",
    S.COMPLETED: "#0969da",
    S.FAILED: "#cf222e",
    S.STOPPING: "#9a6700",
    S.PREEMPTED: "#9a6700",
    S.BACKOFF: "#9a6700",
}
_OTHERS = "#59636e"
_BOX = (
    "border:1px solid rgba(128,128,128,.4);border-radius:8px;padding:8px 12px;max-width:48em;"
    "display:inline-block;line-height:1.5"
)
_BADGE = "color:#fff;border-radius:10px;padding:1px 8px;font-size:90%;background:"
_BAR = "width:100%;height:10px"
_FAINT = "opacity:.75;font-size:90%"
_MOST = 60
"""Columns of the words beside a bar."""
_EVICTIONS = 5
"""The most evictions that a card shows, the latest ones."""


def card(job: JobView) -> Bundle:
    """The card in both forms; the text is the job's row of a table."""
    columns = (*JOB, PROGRESS) if job.progress else JOB
    text = bundle(columns, [job])["text/plain"]
    return {"text/plain": text, "text/html": f'<div style="{_BOX}">{"".join(_lines(job))}</div>'}


def _lines(job: JobView) -> Iterator[str]:
    color = _COLORS.get(job.state, _OTHERS)
    badge = f'<span style="{_BADGE}{color}">{_escaped(job.state)}</span>'
    facts = (f"priority {job.priority_class or job.priority}", job.project, *_slots(job))
    beside = _escaped(" · ".join(filter(None, facts)))
    yield f'<div><b>{_escaped(job.name)}</b> {badge} <span style="{_FAINT}">{beside}</span></div>'
    yield f"<div>{_escaped(status_line(job))}</div>"
    if job.progress is not None and not ended(job):
        yield from _progress(job)
    for attempt in _evicted(job):
        yield f'<div style="{_FAINT}">{_escaped(_eviction(attempt))}</div>'
    for warning in job.warnings:
        yield f'<div style="{_FAINT}">{_escaped(warning)}</div>'


def _slots(job: JobView) -> Iterator[str]:
    slots = job.demand.get("slots", 0)
    yield f"{slots} slot{'' if slots == 1 else 's'}"
    if job.evictions:
        yield f"evicted {job.evictions} time{'' if job.evictions == 1 else 's'}"


def _progress(job: JobView) -> Iterator[str]:
    assert job.progress is not None
    done = fraction(job.progress)
    if done is not None:
        yield f'<progress style="{_BAR}" max="1" value="{done:.4f}"></progress>'
    yield f"<div>{_escaped(short(job.progress, _MOST))}</div>"


def _evicted(job: JobView) -> list[AttemptView]:
    return [attempt for attempt in job.attempts if attempt.outcome == "evicted"][-_EVICTIONS:]


def _eviction(attempt: AttemptView) -> str:
    when = (attempt.ended_at or "")[:16].replace("T", " ")
    facts = (f"attempt {attempt.number}", when and f"{when} UTC", ending(attempt))
    text = ", ".join(filter(None, facts))
    return f"{text}: {attempt.resumption}" if attempt.resumption else text


def _escaped(text: object) -> str:
    return html.escape(clean(text))
