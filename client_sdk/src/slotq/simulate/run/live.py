"""Runs a scenario through the real manager, store and training plane, on a virtual clock.

This module decides nothing, so its record and the policy's can be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from slotq.errors import ScenarioError
from slotq.local.services.training_service import PlaneClient
from slotq.local.training.knobs import Knobs
from slotq.local.training.life import Event
from slotq.local.training.plane import Plane
from slotq.local.training.training_plans import TrainingPlan, Window
from slotq.local.training.virtual_runner import VirtualClock, VirtualRunner, Work
from slotq.simulate.run.agenda import Agenda, Due, silences
from slotq.simulate.run.engine import USER_CANCEL
from slotq.simulate.run.opening import (
    SCRIPT,
    fate_of,
    ranks,
    refused_gangs,
    running_jobs,
    runtime_limit,
)
from slotq.simulate.run.played_nodes import LastingDocuments, PlayedNodes, node_of
from slotq.simulate.run.record import Record
from slotq.simulate.run.simulated_spot import SpotTurn, turn_of
from slotq.simulate.scenario.fields import NO_CAPACITY, NO_ROLE
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import INSTANCE_TYPE, JobSpec
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.adapters.sagemaker.observations import observation_of
from slotq_core.adapters.sagemaker.service import SageMakerTraining
from slotq_core.errors import NoSuchJob, Refused, TooLate
from slotq_core.lifecycle import move
from slotq_core.manager import QueueManager
from slotq_core.model.attempts import Attempt
from slotq_core.model.callers import NO_LIMITS
from slotq_core.model.capacity.work import WorkKind, bare, work_of
from slotq_core.model.groups import StoredGroup
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.model.nodes import Node, node_of_owner
from slotq_core.model.notices import Callback
from slotq_core.model.pools import Pool
from slotq_core.model.reports import Report
from slotq_core.model.sharing import Settings, Subscription
from slotq_core.policy.lifecycle.retry import Ending
from slotq_core.ports.decisions import Decisions, Worlds
from slotq_core.ports.jobs import StoredJobs
from slotq_core.ports.scripts import NoScripts
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, Ledger, NodeChange, Part, WarmChange, World
from slotq_core.ports.surroundings import Notifier
from slotq_core.ports.training import Request
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.writing import written
from slotq_core.wire.training.processing_request import NAME, TRAINING_NAME, job_name


def live_record(scenario: Scenario, store: Store | None = None) -> Record:
    """Run the scenario to its end through the queue itself. `store` must be fresh; by default it is
    in memory. Raises ScenarioError if a job on a node would fail as no such job does."""
    if (job := _fails_as_an_instance(scenario)) is not None:
        raise ScenarioError(
            f"jobs.{job}.fails: on a node no start fails for capacity or a role; leave --live out"
        )
    return _Live(scenario, store or MemoryStore()).run()


def _fails_as_an_instance(scenario: Scenario) -> str | None:
    """The first job that may run on a node and fails there as only an instance's start does."""
    kept = {pool.name for pool in scenario.pools if pool.nodes}
    for job in scenario.jobs:
        pools = kept & {*(job.pools or scenario.pool_names)}
        if job.gpus and pools and {NO_CAPACITY, NO_ROLE} & {*job.fails}:
            return job.name
    return None


class _Silent(Notifier):
    """Sends nothing: the driver runs a pass at every moment anyway."""

    def wake(self) -> None:
        pass

    def wake_at(self, at: int) -> None:
        pass


class _Recording:
    """A store that records its accepted changes."""

    def __init__(self, store: Store, record: Record, clock: VirtualClock) -> None:
        self._store = store
        self.worlds = _WithRefused(store.worlds)
        self.jobs = _RecordingJobs(store.jobs, record, clock)
        self.decisions = _RecordingDecisions(store.decisions, record, clock)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _WithRefused:
    """Loads groups with their refused members. A real queue has none, because it refuses the whole
    group."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds
        self._refused: dict[str, dict[str, JobState]] = {}
        """The refused members of each group."""

    def load(self, now: int) -> World:
        return self._with_refused(self._worlds.load(now))

    def load_all(self, now: int) -> World:
        return self._with_refused(self._worlds.load_all(now))

    def pools(self, now: int) -> Sequence[tuple[Pool, Ledger]]:
        return self._worlds.pools(now)

    def nodes(self, now: int) -> Sequence[Node]:
        return self._worlds.nodes(now)

    def _with_refused(self, world: World) -> World:
        if not self._refused:
            return world
        groups = tuple(
            replace(group, ended={**self._refused.get(group.name, {}), **group.ended})
            for group in world.snapshot.groups
        )
        return replace(world, snapshot=replace(world.snapshot, groups=groups))

    def refused(self, submission: Submission) -> None:
        if submission.group:
            ended = self._refused.setdefault(submission.group, {})
            ended[submission.name] = JobState.CANCELLED


class _RecordingJobs:
    def __init__(self, jobs: StoredJobs, record: Record, clock: VirtualClock) -> None:
        self._jobs, self._record, self._clock = jobs, record, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    def submit(
        self,
        job: Job,
        request: Request,
        *,
        opens_line: bool = True,
        opener: str = "",
        watched: Sequence[str] = (),
        callback: Callback | None = None,
    ) -> Job:
        kept = self._jobs.submit(
            job,
            request,
            opens_line=opens_line,
            opener=opener,
            watched=watched,
            callback=callback,
        )
        self._record.change(None, kept, self._clock.now())
        return kept


class _RecordingDecisions:
    def __init__(self, decisions: Decisions, record: Record, clock: VirtualClock) -> None:
        self._decisions, self._record, self._clock = decisions, record, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decisions, name)

    def commit(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        nodes: Sequence[NodeChange] = (),
        warm: Sequence[WarmChange] = (),
        group_decisions: int | None = None,
        part: Part | None = None,
        opens_line: bool = True,
        opener: str = "",
    ) -> tuple[Job, ...]:
        jobs = self._decisions.commit(
            changes,
            seen=seen,
            nodes=nodes,
            warm=warm,
            group_decisions=group_decisions,
            part=part,
            opens_line=opens_line,
            opener=opener,
        )
        for change, job in zip(changes, jobs, strict=True):
            self._record.change(change.before, job, self._clock.now())
        return jobs


class _Scripts(NoScripts):
    """Scripts that report all the time, until the scenario silences them, and release their slots
    when asked, if the scenario says so."""

    def __init__(
        self,
        store: Store,
        specs: Mapping[str, JobSpec],
        clock: VirtualClock,
        runner: VirtualRunner,
    ) -> None:
        self._store, self._specs, self._clock, self._runner = store, specs, clock, runner

    def ask(self, attempt: Attempt) -> bool:
        self._runner.ask(attempt.training_job)
        return True

    def reports(self, attempts: Sequence[Attempt]) -> Mapping[str, Report]:
        return {attempt.training_job: self._reported(attempt) for attempt in attempts}

    def _reported(self, attempt: Attempt) -> Report:
        spec, now = (
            self._specs[self._store.jobs.owner_of(attempt.training_job) or ""],
            self._clock.now(),
        )
        if spec.silent_from is None or attempt.running_since is None:
            return Report(step=1, at=now)
        return Report(step=1, at=min(now, attempt.running_since + spec.silent_from))


class _Fates(Knobs):
    """Knobs that make attempts fail at their start, and spot instances come and go, as the scenario
    says."""

    _ENDINGS: ClassVar = {
        "fail_provisioning": Ending.NO_CAPACITY,
        "fail_internally": Ending.FAULT,
        "fail_assuming": Ending.NO_RIGHTS,
    }

    def __init__(
        self, fails: Callable[[str], Ending | None], spot: Callable[[str, int], SpotTurn]
    ) -> None:
        """`spot`: how a training job gets spot instances for the nth time, from 0."""
        super().__init__(plan_end_seconds=0.001)  # The queue comes first: it knows the moment.
        self._fails, self._spot = fails, spot
        self._turns = Counter[str]()
        """How often each training job has got spot instances."""

    def spot_delay(self, training_job: str) -> float:
        return (self._spot(training_job, self._turns[training_job]).late or 0) / 1000

    def interruption(self, training_job: str) -> float | None:
        keeps = self._spot(training_job, self._turns[training_job]).keeps
        self._turns[training_job] += 1
        return None if keeps is None else keeps / 1000

    def take(self, knob: str, training_job: str = "") -> bool:
        if knob == "stick_spot":
            return self._spot(training_job, self._turns[training_job]).late is None
        wanted = self._ENDINGS.get(knob) if not self._turns[training_job] else None
        return wanted is not None and self._fails(training_job) is wanted


class _Live:
    def __init__(self, scenario: Scenario, store: Store) -> None:
        self._scenario = scenario
        self._specs = {spec.name: spec for spec in scenario.jobs}
        self._some_fail = any(spec.fails for spec in scenario.jobs)
        self._heartbeats = {group.name: group.heartbeat_seconds for group in scenario.groups}
        self._some_stall = any(pool.stall_after for pool in scenario.pools) or any(
            self._heartbeats.values()
        )
        self._refused = refused_gangs(scenario)
        self._running = {job.name: job for job in running_jobs(scenario)}
        self._agenda = Agenda()
        moments = [spec.running_since or spec.submit_at or 0 for spec in scenario.jobs]
        self._clock = VirtualClock(min([0, *moments]))
        self._events: list[Event] = []
        runner = VirtualRunner(clock=self._clock, work_of=self._work)
        documents = LastingDocuments(self._clock)
        self._nodes = PlayedNodes(
            runner,
            documents,
            self._clock,
            find=store.nodes.get,
            gpus={pool.name: pool.nodes.gpus for pool in scenario.pools if pool.nodes},
            one_person=scenario.one_person_nodes(),
            is_faulty=lambda attempt: self._fails_to_start(attempt) is Ending.FAULT,
        )
        self._plane = Plane(
            clock=self._clock,
            runner=self._nodes,
            emit=self._events.append,
            knobs=_Fates(self._fails_to_start, self._spot_turn),
            max_runtime_counts=False,
        )
        self._asks = scenario.asks()
        self.record = Record()
        self._store = store
        self._pools = {pool.name: pool for pool in scenario.configuration().pools}
        self._changes = list(scenario.changes())
        plan_types = {pool.plan_arn: pool.instance_type for pool in self._pools.values()}
        self._training = SageMakerTraining(
            queue="simulation",
            clock=self._clock,
            make_client=lambda: _Client(
                self._plane, self._start_time, self._release_time, plan_types
            ),
        )
        self._recording = _Recording(store, self.record, self._clock)
        self._manager = QueueManager(
            store=self._recording,
            training=self._training,
            clock=self._clock,
            notifier=_Silent(),
            scripts=_Scripts(self._store, self._specs, self._clock, runner),
            documents=documents,
            new_token=lambda: "0" * 64,  # a node's, and nobody else is there # nosec B106
        )
        self._configure()
        for pool in self._pools.values():
            if pool.health.starts:
                known = store.health.get(pool.name)
                store.health.set(pool.name, replace(known, starts=pool.health.starts))
        self._keep_groups()

    def run(self) -> Record:
        for number, (t, pool, _) in enumerate(self._changes):
            self._agenda.put(t, Due.CHANGE, pool, number)
        for at in self._asks:
            self._agenda.put(at if isinstance(at, int) else None, Due.PASS)
        order = ranks(self._scenario)
        for spec in self._scenario.jobs:
            self._agenda.put(spec.submit_at, Due.SUBMIT, spec.name, rank=order[spec.name])
            self._agenda.put(spec.running_since, Due.SUBMIT, spec.name)
            self._agenda.put(spec.cancel_at and max(0, spec.cancel_at), Due.CANCEL, spec.name)
        self._agenda.put(0, Due.PASS)
        until = self._scenario.until
        while (now := self._next()) is not None and (until is None or now <= until):
            self._clock.set(now)
            self._take_in(now)
            self._answer(now, now)
            self.record.end = max(self.record.end, now)
        self._answer("end", self.record.end)
        return self.record

    def _start_time(self, request: Request) -> int:
        """How long the start of this training job takes (ms)."""
        if (node := node_of(request)) is not None:
            return self._scenario.node_start_times()[node[0]]
        owner = self._store.jobs.owner_of(job_name(request)) or ""
        times, job = self._scenario.start_times(), self._store.jobs.get(owner)
        assert job is not None
        ran_before = self._specs[job.name].running_since is not None and job.attempts == 1
        return 0 if ran_before else max(times.get(pool, 0) for pool, _ in job.holds)

    def _release_time(self, training_job: str) -> int:
        """How long it takes until the instances of this training job are gone (ms)."""
        now = self._clock.now()
        warm = self._store.worlds.load(now).snapshot.warm
        (pool,) = [slot.pool for slot in warm if slot.training_job == training_job]
        return self._scenario.release_times()[pool]

    def _answer(self, at: int | str, now: int) -> None:
        """Ask the queue why these jobs wait."""
        for name in self._asks.get(at, ()):
            with suppress(NoSuchJob):  # The job was refused, or is not submitted yet.
                status = self._manager.jobs.status(name)
                if not (status.job.active or status.job.terminal):
                    self.record.asked[now, name] = status

    def _keep_groups(self) -> None:
        """Store the groups. Their members come later, each in its time."""
        for group in self._scenario.configuration().groups:
            self._store.groups.open(group.name, digest="", now=0)
            self._store.groups.keep(StoredGroup(group=group, submitter="", digest=""))

    def _configure(self) -> None:
        self._plane.set_plans(_plans(self._pools.values()))
        document = written(_settings(self._scenario, self._pools.values()))
        self._manager.configuration.apply(read(document), by="scenario")
        for pool in self._pools.values():
            if not pool.plan_arn:  # Else its plan says so.
                self._store.health.set_foreign(pool.name, pool.foreign)

    def _next(self) -> int | None:
        moments = (self._agenda.next_at(), self._plane.next_due())
        return min((at for at in moments if at is not None), default=None)

    def _take_in(self, now: int) -> None:
        """Take in everything due at one moment, then run the pass, until nothing more follows."""
        self._observe()
        for _, due, _, name, number in self._agenda.take(now):
            if due is Due.CHANGE:
                self._pools[name] = self._changes[number][2].applied(self._pools[name])
                self._configure()
            elif due is Due.SUBMIT:
                self._enter(self._specs[name], now)
            elif due is Due.CANCEL:
                self._cancel(name)
        self._observe()  # A job that stops in no time has stopped before the pass.
        if now < 0:
            return
        while True:
            self._manager.periodic.listen()
            self._manager.periodic.count_spending()
            self._manager.periodic.count_past_use()
            released = self._plane.calls["UpdateTrainingJob"]
            done = self._manager.passes.run(looks=True)
            for status in done.budget_warnings:
                self.record.warn(status, now)
            self._agenda.put(done.wake_at, Due.PASS)
            if not self._observe() and released == self._plane.calls["UpdateTrainingJob"]:
                return

    def _observe(self) -> bool:
        """Take in all news up to now. Returns whether there were any."""
        self._nodes.obey()
        self._plane.advance()
        events, self._events[:] = list(self._events), []
        for event in events:
            self._manager.observe(observation_of(event["detail"], at=self._clock.now()))
            self._push_silence(job_name(event["detail"]))
        reports = [*self._nodes.report()]
        for node, report in reports:
            self._look_at(node)
            for one in report.attempts:
                self._push_silence(one.attempt)
        return bool(events or reports)

    def _look_at(self, node: Node) -> None:
        assert self._manager.periodic.nodes is not None
        self._manager.periodic.nodes.look_at(node.pool, node.name)

    def _push_silence(self, training_job: str) -> None:
        """Schedule a check for the moment when the attempt has been silent for its pool's
        `stall_after` or its group's heartbeat; a tick checks within the minute."""
        if not self._some_stall:
            return
        job = self._store.jobs.get(self._store.jobs.owner_of(training_job) or "")
        if job is not None and job.attempt is not None and job.state is JobState.RUNNING:
            limits = self._pools[job.attempt.pool].stall_after, self._heartbeats.get(job.group)
            for at in silences(job, self._specs[job.name].silent_from, limits):
                if at > self._clock.now():
                    self._agenda.put(at, Due.SILENT, job.name)

    def _enter(self, spec: JobSpec, now: int) -> None:
        if spec.running_since is not None:
            self._begin_running(spec)
            return
        submission = self._scenario.submission(spec)
        try:
            if submission.group in self._refused:
                raise self._refused[submission.group]
            self._manager.submissions.submit(submission, _request(spec), submitter=spec.user)
        except Refused as error:
            self.record.refuse(spec.name, max(0, now), error.message)
            self._recording.worlds.refused(submission)

    def _begin_running(self, spec: JobSpec) -> None:
        """Put a running job into the store and the plane, past the queue and the record."""
        running = self._running[spec.name]
        attempt = replace(running.attempt, running_since=None) if running.attempt else None
        waiting = replace(running, state=JobState.PENDING, attempt=None, attempts=0)
        pending = self._store.jobs.submit(waiting, _request(spec))
        starting = move(
            pending, JobState.STARTING, at=running.changed_at, attempts=1, attempt=attempt
        )
        (job,) = self._store.decisions.commit([Change(before=pending, after=starting)])
        assert job.attempt is not None
        self._training.create(_request(spec), job, job.attempt)
        self.record.begin(running)

    def _cancel(self, name: str) -> None:
        with suppress(NoSuchJob, TooLate):  # The job was refused, or has ended.
            self._manager.changes.cancel(name, by=USER_CANCEL)

    def _work(self, job: str, _request: Mapping[str, Any]) -> Work:
        if node_of_owner(job) is not None:
            return Work()
        kept = self._store.jobs.get(job)
        assert kept is not None and kept.attempt is not None
        spec = self._specs[job]
        held_in = spec.held_in(kept.attempt.pool)
        stop = max(pool.stop_seconds for pool in self._scenario.pools if pool.name in held_in)
        fate = fate_of(spec.fails, kept.attempt.number)
        return Work(
            runtime=spec.runtime,
            stop=stop,
            release=spec.release_seconds,
            checkpoint=spec.checkpoint,
            fails_after=fate.after if fate else None,
            failure=SCRIPT,
        )

    def _spot_turn(self, training_job: str, turn: int) -> SpotTurn:
        job = self._store.jobs.get(self._store.jobs.owner_of(training_job) or "")
        assert job is not None and job.attempt is not None
        return turn_of(self._specs[job.name].interruptions, job.attempt.number, turn)

    def _fails_to_start(self, training_job: str) -> Ending | None:
        """The error that prevents a training job from running. None: no error."""
        if not self._some_fail:  # Saves reads of the store.
            return None
        job = self._store.jobs.get(self._store.jobs.owner_of(training_job) or "")
        if job is None or job.attempt is None:
            return None
        fate = fate_of(self._specs[job.name].fails, job.attempt.number)
        return fate.ending if fate and fate.after is None else None


class _Client(PlaneClient):
    """SageMaker's calls. Jobs of pools without an instance type get one that SageMaker has."""

    def __init__(
        self,
        plane: Plane,
        start_time: Callable[[Request], int],
        release_time: Callable[[str], int],
        plan_types: Mapping[str, str],
    ) -> None:
        """`start_time`: of the training job that a request creates (ms). `release_time`: of the
        instances of a training job (ms). `plan_types`: the instance type by training plan."""
        super().__init__(plane)
        self._plan_types = plan_types
        self._release_time = release_time
        self._knobs, self._start_time = plane.knobs, start_time

    def create_training_job(self, **request: Any) -> dict[str, Any]:
        self._knobs.start_seconds = self._start_time(request) / 1000
        resources = request["ResourceConfig"]
        for place in (resources, *resources.get("InstanceGroups", ())):
            if "InstanceType" in place:
                place["InstanceType"] = _known(place["InstanceType"])
        return super().create_training_job(**request)

    def create_processing_job(self, **request: Any) -> dict[str, Any]:
        self._knobs.start_seconds = self._start_time(request) / 1000
        place = request["ProcessingResources"]["ClusterConfig"]
        place["InstanceType"] = _known(place["InstanceType"])
        return super().create_processing_job(**request)

    def describe_training_plan(self, **request: Any) -> dict[str, Any]:
        said = super().describe_training_plan(**request)
        for part in said["ReservedCapacitySummaries"]:
            part["InstanceType"] = self._plan_types[said["TrainingPlanArn"]]
        return said

    def update_training_job(self, **request: Any) -> dict[str, Any]:
        self._knobs.release_seconds = self._release_time(request["TrainingJobName"]) / 1000
        return super().update_training_job(**request)


def _settings(scenario: Scenario, pools: Iterable[Pool]) -> Settings:
    """The scenario's world as a queue's settings. Everybody is an admin of each project, and no
    quota is checked: "Checks on changes of quotas do not apply here." """
    projects = tuple(
        replace(project, access=replace(project.access, admins=("*",)))
        for project in scenario.shared.projects
    )
    return Settings(
        pools=tuple(pools),
        limits=NO_LIMITS,
        sharing=replace(scenario.shared, projects=projects, unchecked=frozenset(Subscription)),
    )


def _plans(pools: Iterable[Pool]) -> Iterator[TrainingPlan]:
    """The training plans that the account has."""
    for pool in pools:
        facts = pool.health.plan
        if facts is not None and facts.windows:
            yield TrainingPlan(
                name=pool.plan_arn.rpartition("/")[2],
                instance_type=_known(pool.instance_type),
                windows=tuple(
                    Window(begins=window.begins, ends=window.ends, instances=window.slots)
                    for window in facts.windows
                ),
                unhealthy=facts.unhealthy,
                used_elsewhere=pool.foreign.slots,
            )


def _known(instance_type: str) -> str:
    """An instance type that SageMaker has, in place of one that it has not."""
    return "ml.m5.large" if instance_type == INSTANCE_TYPE else instance_type


def _request(spec: JobSpec) -> Request:
    """The smallest request that SageMaker and nodes take, as the queue stores it."""
    processes = work_of(spec.name) is WorkKind.PROCESSING
    return {
        NAME if processes else TRAINING_NAME: bare(spec.name),
        "AlgorithmSpecification": {
            "TrainingImage": "image",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["train"],
        },
        "RoleArn": f"arn:aws:iam::123456789012:role/{spec.role or 'scenario'}",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {
            "InstanceType": INSTANCE_TYPE,
            "InstanceCount": spec.needed.slots,
            "VolumeSizeInGB": 1,
        },
        **runtime_limit(spec.max_runtime),
    }
