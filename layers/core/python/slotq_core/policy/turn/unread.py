"""When a plan reads a line of which it knows only a lower bound.

The jobs of a line are blocked alike, so a stand-in for the first job tries the line. The stand-in
entered no later, and no missing right keeps it back. If its turn serves nothing, neither would the
first job's turn, and the line costs no read. Otherwise the plan reads the line first. It also reads
the line if attempts to start are counted (`max_schedule_count`), because the failed attempt belongs
to the first job. A job that `max_jobs` keeps back fails no attempt, and its line costs no read.
"""

from __future__ import annotations

from slotq_core.model.jobs import Job
from slotq_core.policy.explain.forecast import Question
from slotq_core.policy.state.plan_state import PlanState


def is_to_be_read(state: PlanState, question: Question, job: Job, *, served: bool) -> bool:
    """Whether the job is a stand-in whose line must be read, after the stand-in's turn. A drain
    serves a job, too, and a failed attempt changes it. A line that someone asks about is read in
    any case."""
    if job.name not in state.snapshot.unread:
        return False
    drains = any(room.drain and room.drain.job == job.name for room in state.rooms_of(job))
    tried = job.name in state.decided.decisions
    return served or drains or tried or question.concerns(job)
