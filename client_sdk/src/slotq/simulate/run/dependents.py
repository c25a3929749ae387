"""The jobs that come after others, or after groups, in a run of the policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slotq.simulate.run.opening import RunInputs, followers_of
from slotq.simulate.run.simulated_jobs import SimulatedJobs
from slotq_core.admission.dependencies import (
    GroupProgress,
    after_end_of,
    after_end_of_group,
    progress_at_end,
)
from slotq_core.model.groups import LEFT_OUT, Group, end_of
from slotq_core.model.jobs import GROUP_END, Job, JobState, Submission

Change = tuple[Job, Job]
"""A job before and after."""


class Dependents:
    """Finds the jobs that an end frees or cancels. Changes nothing."""

    def __init__(
        self,
        inputs: RunInputs,
        begun: Iterable[Job],
        jobs: SimulatedJobs,
        states: Mapping[str, JobState],
    ) -> None:
        """`begun`: the jobs of the beginning. As the run goes on, `jobs` holds those that have not
        ended, and `states` the states of all accepted ones."""
        self._followers = followers_of(inputs, begun)
        self._groups = {group.name: group for group in inputs.configuration().groups}
        self._jobs, self._states = jobs, states
        self._left_out: set[str] = set()

    def changes(self, ended: Job, now: int) -> Iterator[Change]:
        """The changes that follow from the end of this job. Apply each change before you take the
        next."""
        if ended.cause == LEFT_OUT:
            self._left_out.add(ended.name)
        for job in self._waiting(ended.name):
            yield job, after_end_of(job, ended.name, ended.state, now)
        if ended.group in self._groups:
            yield from self._changes_of(self._groups[ended.group], now)

    def at_first(self, now: int) -> Iterator[Change]:
        """The same for the groups that have ended before the run."""
        for group in self._groups.values():
            yield from self._changes_of(group, now)

    def progress(self, submission: Submission) -> dict[str, GroupProgress]:
        """The progress of the groups that the job comes after."""
        awaited = (*submission.after, *submission.after_any)
        names = (name.removeprefix(GROUP_END) for name in awaited if name.startswith(GROUP_END))
        return {end_of(name): self._progress(self._groups[name]) for name in names}

    def _changes_of(self, group: Group, now: int) -> Iterator[Change]:
        name = end_of(group.name)
        if not self._followers.get(name):
            return
        progress = self._progress(group)
        for job in self._waiting(name):
            after = after_end_of_group(job, group.name, progress, now)
            if after != job:
                yield job, after

    def _progress(self, group: Group) -> GroupProgress:
        living = next((self._jobs[name] for name in group.members if name in self._jobs), None)
        if living is not None:
            return GroupProgress(living=living)
        ended = {
            name: self._states.get(name, group.ended.get(name))
            for name in group.members
            if name not in self._left_out
        }
        return progress_at_end(group, ended)

    def _waiting(self, name: str) -> Iterator[Job]:
        for follower in self._followers.get(name, ()):
            job = self._jobs.get(follower)
            if job is not None and name in job.waits_for:
                yield job
