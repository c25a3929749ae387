"""Which job of the queue belongs to an Airflow task, and what the task returns.

Airflow runs a task in tries. A worker may die while the task's job lives, so a further try looks
for the job that an earlier one has submitted. The job of try 1 has the task's name, the job of try
n the name with `-t<n>`; a tag says whose it is. At most the newest of these jobs lives.

    the newest job      | what the try does
    lives               | waits for it
    has completed       | returns it, unless the task was cleared since
    has ended otherwise | submits a job of its own
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slotq.errors import NameTaken, NoSuchJob, NotCompleted
from slotq.jobs.follow import ended, ended_by_time_box
from slotq.jobs.submission import jsonable, with_tags
from slotq_core import names
from slotq_core.model.jobs import JobState

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq_core.wire.views.jobs import JobView

TASK_TAG = "airflow:task"
"""The tag that names the task of a job."""
_NAME_KEPT = 40
"""The most characters of a task's own name in the name of its job."""


class Cancelled(NotCompleted):
    """Someone cancelled or stopped the job: another try would only bring it back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskTry:
    """One try of one task of one run."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1
    number: int = 1
    first: int = 1
    """The number of the first try since the task was last cleared."""

    @property
    def key(self) -> str:
        """What names the task in the tag: the same for all its tries."""
        parts = [self.dag_id, self.task_id, self.run_id]
        if self.map_index >= 0:
            parts.append(str(self.map_index))
        return names.tag_value("/".join(parts))

    @property
    def name(self) -> str:
        """A name for the task's job if its request has none."""
        words = re.sub(r"[^a-zA-Z0-9]+", "-", f"{self.dag_id}-{self.task_id}")
        run = hashlib.sha256(f"{self.run_id}/{self.map_index}".encode()).hexdigest()[:8]
        return f"{words.strip('-')[:_NAME_KEPT].rstrip('-') or 'task'}-{run}"


def first_try(max_tries: int, retries: int) -> int:
    """The number of the first try since the task was last cleared: clearing a task adds its
    `retries` to the tries that it has had."""
    return max(1, max_tries - (retries or 0) + 1)


def job_name(base: str, number: int) -> str:
    """The name of the job that try `number` submits."""
    if number <= 1:
        return base
    mark = f"-t{number}"
    return base[: names.LONGEST - len(mark)].rstrip("-") + mark


def request_of(config: Mapping[str, Any], task: TaskTry) -> dict[str, Any]:
    """The CreateTrainingJob request of the task's first try."""
    request = with_tags(jsonable(config), {TASK_TAG: task.key}, override=True)
    return {**request, "TrainingJobName": request.get("TrainingJobName") or task.name}


def job_of(queue: QueueClient, request: Mapping[str, Any], task: TaskTry) -> JobView:
    """The job that this try waits for: one that is there, or a new one.

    Raises NameTaken if a job of another task or request has the name, and what a submission raises.
    """
    base = request["TrainingJobName"]
    number, found = task.number, newest_job(queue, base, task)
    if found is not None:
        number = found[0]
        if ended(found[1]):
            if found[1].state == JobState.COMPLETED and number >= task.first:
                return found[1]
            number = task.number
    # The queue itself compares the request with that of a job that lives.
    return queue.submit({**request, "TrainingJobName": job_name(base, number)})


def newest_job(queue: QueueClient, base: str, task: TaskTry) -> tuple[int, JobView] | None:
    """The newest job of the task's tries, with the number of the try. Raises NameTaken if it is not
    of this task."""
    for number in range(task.number, 0, -1):
        name = job_name(base, number)
        try:
            job = queue.jobs.view(name)
        except NoSuchJob:
            continue
        tags = queue.jobs.request(name).get("Tags") or ()
        if {"Key": TASK_TAG, "Value": task.key} not in tags:
            raise NameTaken(
                f"job {name} is not of this task and run ({task.key}): leave TrainingJobName out, "
                "or make it differ from run to run: train-{{ ts_nodash }}",
                field="TrainingJobName",
            )
        return number, job
    return None


def outcome(job: JobView) -> dict[str, Any]:
    """What a task returns for its job: the place of the model, and the job as the queue shows it.

    Raises NotCompleted with the job's failure reason, and Cancelled.
    """
    last = job.attempts[-1] if job.attempts else None
    model = last.artifact if last else ""
    if job.state in {JobState.CANCELLED, JobState.STOPPED}:
        raise Cancelled(f"job {job.name} is {job.state}: {job.message or 'no reason was given'}")
    if job.state != JobState.COMPLETED:
        kept = f"; its model so far: {model}" if ended_by_time_box(job) and model else ""
        raise NotCompleted(
            f"job {job.name} is {job.state}: {job.message or 'no reason was given'}{kept}"
        )
    return {
        "job": job.name,
        "model": model,
        "training_job": last.training_job if last else None,
        "evictions": job.evictions,
        "description": job.model_dump(mode="json"),
    }
