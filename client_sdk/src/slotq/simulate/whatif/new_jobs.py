"""A job of which there is no request yet, as its user describes it."""

from __future__ import annotations

from dataclasses import replace

from slotq.errors import InvalidRequest
from slotq.simulate.whatif.changes import NewJob
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Submission, Workload
from slotq_core.wire.views.about import MeView


def described(
    me: MeView,
    *,
    name: str,
    slots: int,
    pool: str,
    priority: int | str | None = None,
    project: str = "",
    workload: Workload = Workload.TRAINING,
    preemptible: bool = True,
) -> NewJob:
    """The job that `me` would submit. Raises InvalidRequest where it has no project."""
    submission = Submission(
        name=name,
        instance_type="",
        demand=Demand(slots=slots),
        pools=(pool,),
        priority=priority if isinstance(priority, int) else 0,
        priority_class=priority if isinstance(priority, str) else "",
        default_priority=priority is None,
        project=project,
        workload=workload,
        preemptible=preemptible,
    )
    return NewJob(submission=in_project(submission, me), submitter=me.caller)


def in_project(submission: Submission, me: MeView) -> Submission:
    """The submission with its caller's default project, as the door has it. Raises
    InvalidRequest."""
    if submission.project or not me.projects:
        return submission
    usable = [each for each in me.projects if each.role != "viewer"]
    chosen = next((each for each in usable if each.default), None)
    if chosen is None:
        names = ", ".join(each.name for each in usable)
        raise InvalidRequest(f"the job names no project, and you have no default: name {names}")
    return replace(submission, project=chosen.name)
