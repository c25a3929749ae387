"""The start of a scenario: running jobs, jobs that follow other jobs, and gangs refused at
submission."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slotq.simulate.run.opening import Given, Opening
from slotq.simulate.scenario.scenario import INSTANCE_TYPE, Scenario
from slotq.simulate.scenario.sections import JobSpec
from slotq_core.admission.contents import with_contents
from slotq_core.admission.gangs import check_gang
from slotq_core.admission.requirements import needs_of
from slotq_core.admission.rules import classed
from slotq_core.errors import Refused
from slotq_core.model.attempts import Attempt
from slotq_core.model.groups import end_of
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.model.pools import Pool
from slotq_core.policy.lifecycle.demotion import admitted_in
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.user_limits import UserBooks


def opening_of(scenario: Scenario) -> Opening:
    """How the scenario begins."""
    jobs = tuple(running_jobs(scenario))
    specs = {spec.name: spec for spec in scenario.jobs}
    return Opening(
        jobs=jobs,
        courses={job.name: specs[job.name] for job in jobs},
        left={job.name: specs[job.name].runtime for job in jobs},
        refused=refused_gangs(scenario),
    )


def followers_of(given: Given, jobs: Iterable[Job] = ()) -> dict[str, list[str]]:
    """The jobs that come after each job or group (`group:NAME`): of those submitted in the run, and
    of `jobs`."""
    found: dict[str, list[str]] = {}
    awaited = [(spec.name, (*spec.after, *spec.after_any)) for spec in given.jobs]
    for follower, names in (*awaited, *((job.name, job.waits_for) for job in jobs)):
        for name in names:
            found.setdefault(name, []).append(follower)
    return found


def ranks(scenario: Given) -> dict[str, int]:
    """The length of the longest chain of dependencies that leads to each job. Jobs that are
    submitted at one moment enter in this order, so that those they come after exist."""
    members = {end_of(group.name): group.members for group in scenario.configuration().groups}
    after = {
        spec.name: {
            job for name in (*spec.after, *spec.after_any) for job in members.get(name, (name,))
        }
        for spec in scenario.jobs
    }
    followers: dict[str, list[str]] = {}
    for follower, awaited in after.items():
        for name in awaited:
            followers.setdefault(name, []).append(follower)
    found = dict.fromkeys(after, 0)
    missing = {name: len(awaited) for name, awaited in after.items()}
    ready = [name for name, number in missing.items() if not number]
    for name in ready:  # Grows: there is no circle, so that every job comes up.
        for follower in followers.get(name, ()):
            found[follower] = max(found[follower], found[name] + 1)
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    return found


def refused_gangs(scenario: Scenario) -> dict[str, Refused]:
    """The gangs that even empty pools cannot hold. All of their jobs are refused at submission."""
    found: dict[str, Refused] = {}
    configuration = scenario.configuration()
    for group in (each for each in configuration.groups if each.max_parallel is None):
        members: dict[str, list[Submission]] = {}
        for job in scenario.jobs:
            if job.group == group.name:
                members.setdefault(job.user, []).append(scenario.submission(job))
        try:
            check_gang(group, members, configuration.pools, scenario.rights)
        except Refused as error:
            found[group.name] = error
    return found


def running_jobs(scenario: Scenario) -> list[Job]:
    """The jobs that run when the scenario begins, in the file's order. An AUTO job gets the class
    in which its user had room at the time, else the lowest."""
    world = scenario.configuration()
    books = UserBooks(world, Journal())
    found = []
    for spec in scenario.jobs:
        if spec.running_since is None or spec.at is None:
            continue
        job = classed(_running(spec, scenario, world.pools), books)
        if job.auto:
            waiting = replace(job, attempt=None)
            its = books.admits_in(waiting, spec.at) or list(books.classes)[-1]
            job = admitted_in(job, books.classes[its], books.classes)
        books.take(job, spec.at)
        found.append(job)
    return found


def _running(spec: JobSpec, scenario: Scenario, pools: Iterable[Pool]) -> Job:
    assert spec.running_since is not None and spec.at is not None
    attempt = Attempt(
        number=1,
        training_job=spec.name,
        token="",  # an attempt's, and there is none # nosec B106
        pool=spec.at,
        instance_type=INSTANCE_TYPE,
        admitted_at=spec.running_since,
        created=True,
        running_since=spec.running_since,
    )
    submission = scenario.submission(spec)
    needs = needs_of(submission.demand, submission.parts, scenario.property_names)
    met = [pool for pool in pools if pool.name in submission.pools and needs.met_by(pool)]
    needs = with_contents(needs, met)
    entry = spec.entry_at if spec.entry_at is not None else spec.running_since
    return Job(
        name=spec.name,
        state=JobState.RUNNING,
        priority=scenario.priority_of(spec),
        priority_class=scenario.class_of(spec),
        checkpoints=spec.checkpoint,
        entry_time=entry,
        changed_at=spec.running_since,
        demand=needs.demand,
        pools=tuple(sorted((pool.name for pool in met), key=submission.pools.index)),
        parts=needs.parts,
        requires=needs.requires,
        preemptible=spec.preemptible,
        min_runtime=spec.min_runtime,
        workload=spec.workload,
        project=spec.project or "",
        group=spec.group or "",
        submitter=spec.user,
        person=spec.user,
        role=spec.role,
        attempts=1,
        attempt=attempt,
    )
