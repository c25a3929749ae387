"""Runs the policy on a virtual clock: `plan` over jobs that only take time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from slotq.errors import EndlessDecisions
from slotq.simulate.run.agenda import Agenda, Due, silences
from slotq.simulate.run.dependents import Dependents
from slotq.simulate.run.opening import (
    NO_SPOT,
    Course,
    Fate,
    InitialQueue,
    RunInputs,
    fate_of,
    opening_of,
    ranks,
    with_runtime,
)
from slotq.simulate.run.record import Record
from slotq.simulate.run.simulated_jobs import Past, SimulatedJobs, Spent
from slotq.simulate.run.simulated_nodes import SimulatedNodes
from slotq.simulate.run.simulated_spot import SimulatedSpot
from slotq.simulate.run.simulated_starts import SimulatedStarts
from slotq.simulate.run.simulated_warm import SimulatedWarm, with_warm_key
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import JobSpec
from slotq_core.admission.checkpoints import assured
from slotq_core.admission.rules import admit
from slotq_core.errors import Refused
from slotq_core.lifecycle import copied, move
from slotq_core.model.attempts import AttemptOutcome
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.reports import Report
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.status import looked_into, places
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import cancelled, steps
from slotq_core.policy.lifecycle.demotion import demoted_by_time
from slotq_core.policy.lifecycle.interruptions import interrupted, resumed
from slotq_core.policy.lifecycle.missing_rights import (
    ASSUME_ROLE,
    after_acceptance,
    after_refusal,
    once_running,
)
from slotq_core.policy.lifecycle.pool_health import after_a_start, after_capacity_error
from slotq_core.policy.lifecycle.retry import Ending, after_end
from slotq_core.policy.lifecycle.stall import heard
from slotq_core.policy.order import after_yield, precedence
from slotq_core.policy.plan import Plan
from slotq_core.ports.stored import Ahead, World
from slotq_core.storage.scheduled import scheduled

USER_CANCEL = "its user"

MOST_CHANGES = 1_000
"""How often one job may change in one moment. 100 retries failing at once are some 400 changes."""

Watcher = Callable[[Snapshot, Plan, int], None]


def simulate(scenario: Scenario, watch: Watcher | None = None) -> Record:
    """Run the scenario to its end. Returns the record. Raises EndlessDecisions if the policy never
    comes to an end at one moment.

    `watch` receives every snapshot with its plan and the moment (ms), before the plan takes effect.
    """
    return _World(scenario, opening_of(scenario), watch).run()


def go_on(inputs: RunInputs, opening: InitialQueue, watch: Watcher | None = None) -> Record:
    """Continue a queue from a snapshot. Returns the record. `watch`: as in `simulate`."""
    return _World(inputs, opening, watch).run()


class _World:
    def __init__(self, scenario: RunInputs, opening: InitialQueue, watch: Watcher | None) -> None:
        self._scenario = scenario
        self._watch = watch
        self._configuration = scenario.configuration()
        self._rights = scenario.rights
        self._pools = {pool.name: pool for pool in self._configuration.pools}
        self._changes = list(scenario.changes())
        self._stop_time = scenario.stop_times()
        self._opening = opening
        self._begins = opening.at
        self._specs = {spec.name: spec for spec in scenario.jobs}
        self._courses: dict[str, Course] = {**self._specs, **opening.courses}
        self._left = {spec.name: spec.runtime for spec in scenario.jobs} | dict(opening.left)
        self._jobs = SimulatedJobs(self._configuration)
        """Every accepted job that has not ended."""
        self._nodes = SimulatedNodes(scenario.node_start_times(), scenario.one_person_nodes())
        self._groups = {group.name: group for group in self._configuration.groups}
        self._refused = opening.refused
        self._yields = opening.yields
        self._spent = Spent(self._configuration, opening.spent)
        self._past = Past(self._configuration, opening.past_use)
        self._ranks = ranks(scenario)
        self._states: dict[str, JobState] = {}
        """The state of every accepted job."""
        self._dependents = Dependents(scenario, opening.jobs, self._jobs, self._states)
        self._agenda = Agenda()
        self.record = Record()
        self._warm = SimulatedWarm(scenario.release_times(), self._agenda, self.record.warm)
        self._moment = opening.at
        self._spot = SimulatedSpot(self._courses, self._agenda)
        self._starts = SimulatedStarts(scenario.start_times(), self._agenda)
        self._ends: dict[str, tuple[int, Fate | None]] = {}
        """When the work of each live attempt ends, and its failure then, if any."""
        self._changes_of: Counter[str] = Counter()
        """How often each job has changed at this moment."""
        self._asks = scenario.asks()

    def run(self) -> Record:
        for job in self._opening.jobs:
            self._go_on(job)
        for node in self._nodes.go_on(self._opening.nodes):
            ready = max(self._begins, self._nodes.ready_at(node))
            self._agenda.put(ready, Due.NODE, node.name, node.generation)
        self._warm.go_on(self._opening.warm, self._begins)
        at_first = self._dependents.at_first(self._begins)
        self._update_dependents(self._changed(at_first, self._begins), self._begins)
        for number, (t, pool, _) in enumerate(self._changes):
            self._agenda.put(t, Due.CHANGE, pool, number)
        for at in self._asks:
            self._agenda.put(at if isinstance(at, int) else None, Due.PASS)
        for spec in self._scenario.jobs:
            self._announce(spec)
        self._agenda.put(self._begins, Due.PASS)
        until = self._scenario.until
        while (now := self._agenda.next_at()) is not None and (until is None or now <= until):
            for entry in self._agenda.take(now):
                self._take_in(*entry)
            self._pass(now)
            self._answer(now, now)
            self.record.end = max(self.record.end, now)
        self._answer("end", self.record.end)
        return self.record

    def _answer(self, at: int | str, now: int) -> None:
        """Record why jobs wait, for the jobs that the scenario asks about at this moment."""
        for name in self._asks.get(at, ()):
            job = self._jobs.get(name)
            if job is not None and not job.active:
                heads, more = self._jobs.heads(self._world(now)), self._jobs.more
                world = World(snapshot=heads, ledgers={}, more=more, ahead_of=self._ahead_of)
                self.record.asked[now, name] = looked_into(job, world, now)

    def _ahead_of(self, job: Job) -> Ahead:
        everything = self._jobs.everything(self._world(self._moment))
        place = places(everything.waiting, precedence(everything)).get(job.name, 1)
        return Ahead(jobs=place - 1)

    def _go_on(self, job: Job) -> None:
        """Take in a job of the initial queue. An interrupted one gets instances at once."""
        since = job.attempt.interrupted_since if job.attempt else None
        if since is not None:
            job = resumed(job, max(self._begins, since + 1)) or job
        self._jobs.put(job)
        self._states[job.name] = job.state
        self.record.begin(job, self._begins)
        if job.state is JobState.RUNNING:
            began = self._began(job)
            self._run_on(job, self._begins if began is None else began)
        elif job.attempt is not None and job.attempt.stop is not None:
            self._push_stop(job, job.attempt.stop.at, self._opening.soonest)

    def _announce(self, spec: JobSpec) -> None:
        if spec.running_since is None:
            self._agenda.put(spec.submit_at, Due.SUBMIT, spec.name, rank=self._ranks[spec.name])
        if spec.cancel_at is not None:
            self._agenda.put(max(0, spec.cancel_at), Due.CANCEL, spec.name)

    def _take_in(self, now: int, due: Due, _rank: int, name: str, number: int) -> None:
        match due:
            case Due.CHANGE:
                self._pools[name] = self._changes[number][2].applied(self._pools[name])
            case Due.END | Due.STOPPED | Due.GRACE:
                self._attempt_over(self._jobs.get(name), due, number, now)
            case Due.WAITED | Due.INSTANCES | Due.TAKEN if name in self._jobs:
                self._instances_news(self._jobs[name], due, number, now)
            case Due.SUBMIT:
                self._submit(self._specs[name], now)
            case Due.CANCEL if name in self._jobs:
                self._cancel(self._jobs[name], now)
            case Due.SILENT if name in self._jobs:
                self._listen(self._jobs[name], number, now)
            case Due.NODE:
                self._nodes.be_ready(name, number, now)
            case Due.WARM:
                self._warm.go(name, now)

    def _submit(self, spec: JobSpec, now: int) -> None:
        submission = self._scenario.submission(spec)
        try:
            if submission.group in self._refused:
                raise self._refused[submission.group]
            pools = [*self._pools.values()]
            job = admit(
                submission,
                pools,
                submitter=spec.user,
                now=now,
                states=self._states,
                groups=self._dependents.progress(submission),
                rights=self._rights,
            )
            job = with_gpus(assured(job, pools), spec.gpus, pools)
            job = with_runtime(job, spec, pools)
            job = with_warm_key(job, spec.role, pools)
        except Refused as error:
            self.record.refuse(spec.name, max(0, now), error.message)
            self._groups.update(
                with_ended(self._groups, submission.group, spec.name, JobState.CANCELLED)
            )
        else:
            self._put(None, job, now)

    def _cancel(self, job: Job, now: int) -> None:
        after = cancelled(job, USER_CANCEL, now)
        stop = job.attempt.stop if job.attempt else None
        only_asked = stop is not None and stop.grace_until is not None and now < stop.grace_until
        if after.attempt and (stop is None or only_asked):
            self._push_stop(after, now)
        self._put(job, after, now)

    def _attempt_over(self, job: Job | None, due: Due, attempt: int, now: int) -> None:
        if job is None or job.attempt is None or job.attempt.number != attempt:
            return
        ending, message = Ending.STOPPED, ""
        if due is Due.END:
            end, fate = self._ends.get(job.name, (None, None))
            if end != now:
                return  # An interruption has put it off.
            ending, message = (fate.ending, fate.message) if fate else (Ending.COMPLETED, "")
        self._left[job.name] = self._work_left(job, now)
        ended = after_end(job, ending, at=now, now=now, message=message)
        self._put(job, demoted_by_time(ended.job, self._rights.classes), now)
        self._warm.leave(job, ended.attempt)

    def _fate_in_time(self, job: Job) -> Fate | None:
        """The failure of the live attempt if it comes before the work is done, else None."""
        fate, left = self._fate(job), self._left[job.name]
        if fate is None or fate.after is None:
            return None
        return fate if left is None or fate.after < left else None

    def _began(self, job: Job) -> int | None:
        """When the job got the instances that it has. None: it has none."""
        attempt = job.attempt
        if attempt is None or attempt.running_since is None:
            return None
        return attempt.running_since if attempt.resumed_at is None else attempt.resumed_at

    def _work_left(self, job: Job, now: int) -> int | None:
        course, left = self._courses[job.name], self._left[job.name]
        since = self._began(job)
        if left is None or since is None:
            return left
        return left - (now - since) if course.checkpoint else course.runtime

    def _pass(self, now: int) -> None:
        if now < self._begins:
            return  # Before the run begins, jobs enter but no pass decides.
        self._past.count(self._jobs.active(), now)
        while True:
            self._nodes.settle(self._jobs.active(), now)
            heads = self._jobs.heads(self._world(now))
            for status in self._spent.warnings(heads, now):
                self.record.warn(status, now)
            planned = plan(heads, now, more=self._jobs.more)
            if self._watch:
                self._watch(self._jobs.everything(self._world(now)), planned, now)
            for decision in planned.decisions:
                self._warm.carry_out(decision, now)
                for before, decided in steps(decision, self._pools, now):
                    # After the last plan, the answer comes with the instances.
                    after = decided if planned.is_last else _answered(decided)
                    self._put(self._jobs[before.name], after, now)
                    if after.state is JobState.STOPPING:
                        self._push_stop(after, now)
                if node := self._nodes.carry_out(decision, self._pools, now):
                    ready = self._nodes.ready_at(node)
                    self._agenda.put(ready, Due.NODE, node.name, node.generation)
            if planned.is_last and not self._happens(now):
                break
        self._agenda.put(planned.wake_at, Due.PASS)

    def _happens(self, now: int) -> bool:
        """Handle the immediate effects of decisions, once a pass has nothing more to decide: the
        queue learns of them only then. Returns whether they require another plan."""
        calls = False
        self._nodes.settle(self._jobs.active(), now)
        while True:
            if self._take_in_what_took_no_time(now) or self._nodes.end(self._jobs.active()):
                calls = True
            elif starting := [job for job in self._jobs.starting() if not self._waits(job, now)]:
                calls = self._take_in_starts(starting, now) or calls
            else:
                return calls

    def _waits(self, job: Job, now: int) -> bool:
        """Whether the starting job waits for its instances."""
        return self._spot.waits(job) or self._starts.waits(job, now)

    def _take_in_what_took_no_time(self, now: int) -> bool:
        """Take in the stops and the starts of nodes that took no time, and the ends of graces.
        Returns whether there were any."""
        happened = False
        for entry in self._agenda.take(now, last=Due.GRACE):
            self._take_in(*entry)
            happened = True
        return happened

    def _take_in_starts(self, starting: Sequence[Job], now: int) -> bool:
        """Let starting jobs run or fail at once, in the order of their starts. Returns whether that
        requires another plan; a job that begins to run on an instance of its own does not."""
        pools, failed = dict(self._pools), False
        for job in starting:
            self._be_accepted(job)
            if self._starts.start(job, now):
                self._put(job, _answered(job), now)
            elif not self._spot.start(job, now):
                failed = self._start(job, now) or failed
        return failed or pools != self._pools or self._matters(starting)

    def _start(self, job: Job, now: int) -> bool:
        """Let a job run, or fail at its start. Returns whether it failed."""
        fate = self._fate(job)
        failed = fate is not None and fate.after is None
        if fate is not None and failed:
            self._fail_to_start(job, fate, now)
        else:
            self._begin_to_run(job, now)
        return failed

    def _instances_news(self, job: Job, due: Due, number: int, now: int) -> None:
        """Take in that instances come or go, unless the job is being stopped."""
        attempt = job.attempt
        if attempt is None or attempt.number != number or attempt.stop is not None:
            return
        if due is Due.TAKEN:
            self._take_back(job, now)
        elif due is Due.WAITED:
            self._fail_to_start(job, NO_SPOT, now)
        elif job.state is JobState.STARTING:
            self._start(job, now)
        elif (after := resumed(job, now)) is not None:
            self._learn_of_start(job)
            self._put(job, after, now)
            self._run_on(after, now)

    def _take_back(self, job: Job, now: int) -> None:
        """Take the instances of a running job back. It works until its script has stopped, and may
        complete until then."""
        after = interrupted(job, now)
        if after is None:
            return
        lost_at = now + self._stop_takes(job)
        end, fate = self._ends.get(job.name, (None, None))
        if end is not None and (fate or end > lost_at):
            lost_at = min(lost_at, end)
            del self._ends[job.name]
        self._left[job.name] = self._work_left(job, lost_at)
        self._put(job, after, now)
        self._spot.lose(after, lost_at)

    def _matters(self, starting: Iterable[Job]) -> bool:
        """Whether the start of these jobs may affect a plan: others may then join a gang or
        reclaim, and some rules count the time from the start. A watcher sees all plans."""
        pools = any(
            pool.nodes is not None
            or pool.time_slice is not None
            or pool.min_runtime
            or pool.max_min_runtime
            or pool.pending_timeout
            for pool in self._pools.values()
        )
        return (
            self._watch is not None
            or bool(self._groups)
            or pools
            or bool(self._configuration.projects)
            or any(job.priority_class or job.admitted_class for job in starting)
        )

    def _be_accepted(self, job: Job) -> None:
        assert job.attempt is not None
        if job.attempt.probes:
            pool = self._pools[job.attempt.pool]
            health = after_acceptance(pool.health, job.role)
            self._pools[pool.name] = replace(pool, health=health)

    def _begin_to_run(self, job: Job, now: int) -> None:
        assert job.attempt is not None
        self._learn_of_start(job)
        attempt = copied(job.attempt, created=True, running_since=now)
        accepted = once_running(job)
        running = move(accepted, JobState.RUNNING, at=now, attempt=attempt, faults=0)
        self._put(job, running, now)
        self._run_on(running, now)

    def _learn_of_start(self, job: Job) -> None:
        """Let the pool know that there are instances. How long they take it knows already, for all
        starts take as long."""
        assert job.attempt is not None
        pool = self._pools[job.attempt.pool]
        if pool.health.errors:
            self._pools[pool.name] = replace(pool, health=after_a_start(pool.health))

    def _run_on(self, job: Job, began: int) -> None:
        """Plan what happens to a job that has had its instances since then (ms)."""
        self._push_end(job)
        self._push_silence(job)
        self._spot.come(job, began)

    def _fail_to_start(self, job: Job, fate: Fate, now: int) -> None:
        ended = after_end(job, fate.ending, at=now, now=now, message=fate.message)
        self._put(job, demoted_by_time(ended.job, self._rights.classes), now)
        if ended.attempt.outcome is AttemptOutcome.NO_CAPACITY:
            pool = self._pools[ended.attempt.pool]
            health = after_capacity_error(pool, now=now, message=fate.message)
            self._pools[pool.name] = replace(pool, health=health)
        if ended.attempt.outcome is AttemptOutcome.NO_RIGHTS and job.role:
            pool = self._pools[ended.attempt.pool]
            health = after_refusal(
                pool.health, role=job.role, action=ASSUME_ROLE, message=fate.message, now=now
            )
            self._pools[pool.name] = replace(pool, health=health)

    def _fate(self, job: Job) -> Fate | None:
        """The failure of the job's live attempt. None: no failure by itself."""
        assert job.attempt is not None
        return fate_of(self._courses[job.name].fails, job.attempt.number)

    def _world(self, now: int) -> Snapshot:
        """The snapshot without the jobs."""
        return copied(
            self._configuration,
            pools=tuple(scheduled(self._pools.values(), now)),
            nodes=self._nodes.all(),
            warm=self._warm.all(),
            groups=tuple(self._groups.values()),
            yields=self._yields,
            spent=self._spent.spending(),
            past_use=self._past.use,
        )

    def _put(self, before: Job | None, after: Job, now: int) -> None:
        self._keep(before, after, now)
        if after.terminal:
            self._update_dependents([after], now)

    def _keep(self, before: Job | None, after: Job, now: int) -> None:
        self._count(after.name, now)
        self.record.change(before, after, now)
        self._yields = after_yield(self._yields, before, after)
        self._spent.note(before, after, now)
        self._past.note(before, after, now)
        self._states[after.name] = after.state
        self._jobs.put(after)
        if after.terminal:
            self._groups.update(with_ended(self._groups, after.group, after.name, after.state))

    def _count(self, name: str, now: int) -> None:
        if now != self._moment:
            self._moment = now
            self._changes_of.clear()
        self._changes_of[name] += 1
        if self._changes_of[name] > MOST_CHANGES:
            most = ", ".join(f"{job} {times}" for job, times in self._changes_of.most_common(5))
            raise EndlessDecisions(
                f"at {now / 1000:g} s the policy repeats its decisions without end; changes in "
                f"that moment by job: {most}. This is a fault of SlotQ: report it with the scenario"
            )

    def _update_dependents(self, ended: list[Job], now: int) -> None:
        """Free or cancel the jobs that come after jobs which have ended, or after their groups."""
        for job in ended:  # Grows by those that are cancelled.
            ended += self._changed(self._dependents.changes(job, now), now)

    def _changed(self, changes: Iterable[tuple[Job, Job]], now: int) -> list[Job]:
        """Keep these changes. Returns the jobs that have ended."""
        over = []
        for before, after in changes:
            self._keep(before, after, now)
            over += [after] if after.terminal else []
        return over

    def _push_end(self, job: Job) -> None:
        fate = self._fate_in_time(job)
        left, began = fate.after if fate else self._left[job.name], self._began(job)
        if left is not None and job.attempt and began is not None:
            end = max(self._begins, began + left)
            self._ends[job.name] = end, fate
            self._agenda.put(end, Due.END, job.name, job.attempt.number)

    def _push_silence(self, job: Job) -> None:
        assert job.attempt is not None
        limits = self._pools[job.attempt.pool].stall_after, self._heartbeat(job)
        for at in silences(job, self._courses[job.name].silent_from, limits):
            self._agenda.put(at, Due.SILENT, job.name, job.attempt.number)

    def _heartbeat(self, job: Job) -> int | None:
        return self._groups[job.group].heartbeat if job.group in self._groups else None

    def _listen(self, job: Job, attempt: int, now: int) -> None:
        """Check whether an attempt has become silent, as the queue does."""
        if job.state is not JobState.RUNNING or job.attempt is None:
            return
        if job.attempt.number == attempt and job.attempt.running_since is not None:
            silent_from = self._courses[job.name].silent_from
            assert silent_from is not None
            report = Report(step=1, at=job.attempt.running_since + silent_from)
            pool, heartbeat = self._pools[job.attempt.pool], self._heartbeat(job)
            self._put(job, heard(job, pool, report, now, heartbeat), now)

    def _stop_takes(self, job: Job) -> int:
        return max(self._stop_time.get(pool, 0) for pool, _ in job.holds)

    def _push_stop(self, job: Job, now: int, soonest: int = 0) -> None:
        assert job.attempt is not None
        release = self._courses[job.name].release_seconds
        stop = job.attempt.stop
        asked = stop.grace_until - stop.at if stop and stop.grace_until else 0
        takes = self._stop_takes(job)
        if job.attempt.running_since is None:  # Only the start, or the rest of a script.
            takes = max(0, self._spot.lost_at(job) - now)
        due = Due.STOPPED if takes or not asked else Due.GRACE
        takes += asked
        if asked and release is not None and release <= takes:
            due, takes = Due.STOPPED, release
        self._agenda.put(max(soonest, now + takes), due, job.name, job.attempt.number)


def _answered(job: Job) -> Job:
    """The job after SageMaker's answer to the create, which comes at once. From then on, the start
    may be stopped."""
    if job.state is not JobState.STARTING or job.attempt is None:
        return job
    return copied(job, attempt=copied(job.attempt, created=True))


def with_gpus(job: Job, gpus: int, pools: Iterable[Pool]) -> Job:
    """The job with the GPUs that it takes of a node. Jobs of one project and role share nodes,
    and those of one role where the nodes are shared."""
    kept = [pool.nodes for pool in pools if pool.name in job.pools and pool.nodes]
    if not gpus or not kept:
        return job
    shared = all(rules.shared for rules in kept)
    tenant = job.tenant or f"{'' if shared else job.project}:{job.role}"
    return copied(job, gpus=gpus, tenant=tenant)


def with_ended(
    groups: Mapping[str, Group], member_of: str, job: str, state: JobState
) -> dict[str, Group]:
    """The ended job's group, with the end recorded. Empty if the job has no group. A refused member
    counts as cancelled, because its gang never had it."""
    if member_of not in groups:
        return {}
    group = groups[member_of]
    return {group.name: replace(group, ended={**group.ended, job: state})}
