"""What a story is, and the steps that it is made of.

Each is short: a few users' requests, faults of SageMaker, and the end that must come whatever
happens to the handlers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from slotq.local.services.expressions import Item
from slotq.local.training.knobs import Knobs
from slotq.local.training.request_check import PlaneError
from slotq.local.training.runner import WorkEnd
from slotq.local.training.training_job import TrainingJob
from slotq.local.training.training_plans import TrainingPlan, Window
from slotq.local.training.virtual_runner import EXIT_RELEASED, Work
from slotq_core.adapters.dynamodb.layout.table import CALLERS, LINES, YIELD_PREFIX, revision_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.sagemaker.observations import TOKEN_TAG
from slotq_core.adapters.sagemaker.sagemaker_errors import RELEASED
from slotq_core.model.attempts import AttemptOutcome, StopCause
from slotq_core.model.callers import NO_LIMITS, Access, Limits
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import CapacityKind, NodeRules, Pool
from slotq_core.model.projects import EVERYWHERE, Beyond, Budget, Project
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.names import JOB_TAG, QUEUE_TAG
from slotq_core.notices.job_answers import SUPERSEDED
from slotq_core.policy.lifecycle.start_attempts import CANNOT_SCHEDULE
from tests.faults.agents import AgentRules
from tests.faults.fake_dynamodb import Key
from tests.faults.gate import Gate
from tests.faults.tasks import job_of
from tests.faults.world import START, TABLE, TYPES, EventPolicy, World, delivered, pool
from tests.queue_world import request

RELEASE = WorkEnd(code=EXIT_RELEASED, failure=RELEASED)
"""The end of a script that gives its slots back."""

NODES = NodeRules(gpus=2, keep=60_000)
"""How a pool of these stories keeps nodes."""

S = JobState
Act = Callable[[World], None]
Ends = Mapping[str, frozenset[JobState | None]]


@dataclass(frozen=True)
class Step:
    """An action, `at` seconds after the start."""

    at: float
    label: str
    act: Act
    verb: str = ""
    """`submit` or `cancel` for a user's action, which may get no answer."""
    job: str = ""


@dataclass(frozen=True)
class Scenario:
    name: str
    steps: tuple[Step, ...]
    ends: Mapping[str, JobState]
    pools: tuple[Pool, ...] = (pool(),)
    work: Mapping[str, Work] = field(default_factory=dict)
    knobs: Mapping[str, Any] = field(default_factory=dict)
    runtime: int = 200_000
    most_actions: int | None = None
    """Actions in one transaction of a decision; None: as many as DynamoDB takes."""
    history: int | None = None
    """How long ended jobs are kept (ms); None: the default."""
    limits: Limits = NO_LIMITS
    sharing: Sharing = NO_SHARING
    agents: AgentRules | None = None
    """The agents of nodes; None: none ever reports."""
    answers: bool = False
    """Whether the queue answers the tasks of state machines."""
    or_else: Mapping[str, frozenset[JobState | None]] = field(default_factory=dict)
    """Other ends of a job, for when a fault puts another user's action before or after it."""
    uncancelled: JobState = JobState.COMPLETED
    """Where a job ends whose cancel had no effect."""
    then: Callable[[World], str] = lambda _: ""
    """A further check of the end: yields what does not hold."""

    def world(
        self, gate: Gate | None = None, *, events: EventPolicy = delivered, **more: Any
    ) -> World:
        world = World(
            *self.pools,
            work=self.work,
            knobs=Knobs(**self.knobs),
            gate=gate,
            events=events,
            runtime=self.runtime,
            most_actions=self.most_actions,
            history=self.history,
            limits=self.limits,
            sharing=self.sharing,
            agents=self.agents,
            answers=self.answers,
            **more,
        )
        for step in self.steps:
            world.after(round(step.at * 1000), step.label, partial(step.act, world))
        return world

    def _refused_with_another(self, world: World) -> set[str]:
        """The jobs that were refused where the submission of another had not got through: they may
        come after that one."""
        left = {s.job: s.label in world.refused for s in self.steps if s.verb == "submit"}
        left = {job: refused for job, refused in left.items() if job not in world.accepted}
        return {job for job, refused in left.items() if refused} if len(left) > 1 else set()

    def without(self, index: int) -> Scenario:
        """The same story without one of its steps, to find the shortest."""
        left = tuple(step for number, step in enumerate(self.steps) if number != index)
        return replace(self, steps=left)

    def allowed(self, world: World, *, unanswered: Iterable[Step] = ()) -> Ends:
        """The ends that each job may have. A request that was neither answered nor repeated may
        have had no effect."""
        submitted = {step.job for step in self.steps if step.verb == "submit"}
        ends: dict[str, set[JobState | None]] = {
            name: {state} for name, state in self.ends.items() if name in submitted
        }
        for name, others in self.or_else.items():
            ends.get(name, set()).update(others)
        for step in (step for step in unanswered if step.job in ends):
            if step.verb == "submit" and step.job not in world.accepted:
                ends[step.job].add(None)
            if step.verb == "cancel":
                ends[step.job].add(self.uncancelled)
        for step in (step for step in self.steps if step.job in ends):
            if step.verb == "cancel" and step.label in world.refused:
                # The cancel came before the submission had got through.
                ends[step.job].add(self.uncancelled)
            if step.label in world.limited and step.job not in world.accepted:
                ends[step.job].add(None)
        for name in self._refused_with_another(world):
            ends[name].add(None)
        return {name: frozenset(states) for name, states in ends.items()}


def submit(at: float, job: str, **fields: Any) -> Step:
    def act(world: World) -> None:
        world.submit(job, **fields)

    return Step(at, f"submit {job}", act, "submit", job)


def submit_processing(at: float, job: str, priority: int = 0, **tags: str) -> Step:
    """A processing job, in a pool for them."""
    settings = {f"slotq:{key}": value for key, value in tags.items()}
    cluster = {"InstanceType": TYPES["p"], "InstanceCount": 1, "VolumeSizeInGB": 1}
    body = {
        "ProcessingJobName": job,
        "ProcessingResources": {"ClusterConfig": cluster},
        "AppSpecification": {"ImageUri": "image"},
        "RoleArn": request(job)["RoleArn"],
        "Tags": [
            {"Key": key, "Value": value}
            for key, value in {"priority": str(priority), **settings}.items()
        ],
    }
    name = f"processing:{job}"
    return Step(at, f"submit {name}", lambda world: world.submit_body(body), "submit", name)


def submit_for_task(at: float, job: str, number: int = 1, **fields: Any) -> Step:
    """A job for whose end a task waits."""
    token = f"{job}-{number}"

    def act(world: World) -> None:
        world.submit_body({**request(job, **fields), "slotq:callback": {"task_token": token}})

    verb = "submit" if number == 1 else ""
    return Step(at, f"submit {job}", act, verb, job)


def stop_execution(at: float, token: str) -> Step:
    """Somebody stops the execution that waits with this token."""
    return Step(at, f"stop {token}", lambda world: world.tasks.stopped.add(token))


def submit_for_node(at: float, job: str, gpus: float = 1, **fields: Any) -> Step:
    """A job that asks for GPUs of a node."""

    def act(world: World) -> None:
        world.submit_for_node(job, gpus, **fields)

    return Step(at, f"submit {job}", act, "submit", job)


def submit_group(at: float, name: str, *jobs: str, **rules: Any) -> Step:
    """A group of these jobs. The first stands for them all."""

    def act(world: World) -> None:
        world.submit_group(name, *jobs, **rules)

    return Step(at, f"submit group {name}", act, "submit", jobs[0].partition("@")[0])


def submit_batch(at: float, *jobs: str) -> tuple[Step, ...]:
    """A batch of these jobs (`World.submit_batch`): a step for each, of which the first acts."""
    label = f"submit batch {' '.join(jobs)}"
    names = [job.partition(" ")[0].rstrip("!").partition("@")[0] for job in jobs]

    def act(world: World, *, first: bool) -> None:
        if first:
            world.submit_batch(*jobs)

    return tuple(
        Step(at, label, partial(act, first=number == 0), "submit", name)
        for number, name in enumerate(names)
    )


def submit_as(at: float, user: str, job: str) -> Step:
    """A job of this user that keeps checkpoints, so it may yield to a time slice."""
    body = {**request(job), "CheckpointConfig": {"S3Uri": f"s3://bucket/{job}"}}
    return Step(at, f"submit {job}", lambda world: world.submit_body(body, by=user), "submit", job)


def submit_wide(at: float, job: str, p: int = 1, q: int = 1, **fields: Any) -> Step:
    """A job over the pools p and q at once, with so many instances in each."""
    body = request(job, **fields)
    body["ResourceConfig"] = {
        "InstanceGroups": [
            {"InstanceGroupName": name, "InstanceType": TYPES[name], "InstanceCount": number}
            for name, number in (("p", p), ("q", q))
        ],
        "VolumeSizeInGB": 1,
    }
    return Step(at, f"submit {job}", lambda world: world.submit_body(body), "submit", job)


def submit_hostile(at: float, **settings: str) -> Step:
    def act(world: World) -> None:
        world.submit_body(hostile(**settings), by="eve")

    return Step(at, "submit hostile", act, "submit", "hostile")


def retry(at: float, job: str, becomes: str) -> Step:
    return Step(at, f"retry {job}", lambda world: world.retry(job), "submit", becomes)


def amend(at: float, job: str, **tags: str) -> Step:
    changed = {f"slotq:{key}": value for key, value in tags.items()}
    return Step(at, f"amend {job} {[*tags.values()]}", lambda world: world.amend(job, changed))


def requeue(at: float, job: str, attempt: int = 1) -> Step:
    return Step(at, f"requeue {job}", lambda world: world.requeue(job, attempt))


def cancel(at: float, job: str) -> Step:
    return Step(at, f"cancel {job}", lambda world: world.cancel(job), "cancel", job)


def configure(at: float, *pools: Pool) -> Step:
    return Step(at, "configure", lambda world: world.configure(*pools))


def configure_in_parts(at: float, *pools: Pool) -> Step:
    return Step(at, "configure in parts", lambda world: world.configure_in_parts(*pools))


def share(at: float, sharing: Sharing) -> Step:
    return Step(at, "share", lambda world: world.share(sharing))


def by_hand(at: float, what: str, key: Key, change: Callable[[Item], Item]) -> Step:
    """Somebody edits an item of the table."""
    return Step(at, what, lambda world: world.by_hand(key, change))


def doctor(at: float) -> Step:
    return Step(at, "doctor", lambda world: world.doctor())


def copy_table(at: float) -> Step:
    return Step(at, "copy the table", lambda world: world.copy_table())


def restore_table(at: float) -> Step:
    return Step(at, "restore the table", lambda world: world.restore_table())


def projects(budget: int | None = None, **quotas: int) -> Sharing:
    """Projects with these quotas, of which everybody is a member. `budget`: hard, of each of them,
    in seconds on one slot."""
    given = budget and Budget(slot_ms=budget * 1000, beyond=Beyond.HARD)
    everybody = Access(admins=("*",), default_for=("*",))
    return Sharing(
        projects=tuple(
            Project(
                name=name,
                quota={EVERYWHERE: Demand(slots=quota)},
                access=everybody,
                budget=given or None,
            )
            for name, quota in quotas.items()
        )
    )


def plane(at: float, operation: str, **body: Any) -> Step:
    """An action in SageMaker itself, outside the queue."""

    def act(world: World) -> None:
        with suppress(PlaneError):  # The training job may not exist (yet), which is no fault.
            world.plane.handle(operation, body)

    return Step(at, operation, act)


def reports(at: float, job: str) -> Step:
    """The job's script reports a step, and then nothing more."""

    def act(world: World) -> None:
        world.reported[job] = world.clock.now()

    return Step(at, f"{job} reports", act)


def knobs(at: float, **values: Any) -> Step:
    """From then on SageMaker answers differently."""
    return Step(at, f"knobs {values}", lambda world: world.plane.knobs.turn(values))


PLAN_ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/june"


def planned(**fields: Any) -> Pool:
    """The pool p on the training plan of `plans`."""
    return pool(capacity_kind=CapacityKind.PLAN, plan_arn=PLAN_ARN, **fields)


def plans(at: float, *windows: tuple[float, float, int], unhealthy: int = 0) -> Step:
    """The account's only training plan has these windows: begin and end, in seconds from the
    start, and instances. Without any, there is no plan."""

    def act(world: World) -> None:
        world.plane.set_plans(
            TrainingPlan(
                name="june",
                instance_type=TYPES["p"],
                unhealthy=unhealthy,
                windows=tuple(
                    Window(
                        begins=START + round(begins * 1000),
                        ends=START + round(ends * 1000),
                        instances=instances,
                    )
                    for begins, ends, instances in windows
                ),
            )
            for _ in windows[:1]
        )

    return Step(at, f"plans {windows}", act)


def attempts_of(job: str, *outcomes: tuple[str, AttemptOutcome]) -> Callable[[World], str]:
    """The job's attempts were in these pools and ended so, if its submission got through."""

    def look(world: World) -> str:
        found = DynamoStore(world.dynamo, TABLE).jobs.with_attempts(job)
        ran = tuple((it.pool, it.outcome) for it in found[1]) if found else outcomes
        return "" if ran == outcomes else f"{job} has run as {ran}"

    return look


def hostile(name: str = "hostile", hyperparameters: int = 300, **settings: str) -> dict[str, Any]:
    """A request as odd as the queue accepts: long keys and values, each a fragment of the others
    and of SageMaker's answers, in every script."""
    odd = ("Could not assume role ", "not authorized to perform: iam:PassRole ", "é😀")
    body = request(name, priority=-1_000_000, **settings)
    body["HyperParameters"] = {
        f"{'k' * (n % 200)}{n}": odd[n % len(odd)] * (1 + n % 9) for n in range(hyperparameters)
    }
    body["Environment"] = {f"E{n}": "x" * 512 for n in range(40)}
    return body


def beside_a_hostile_job(scenario: Scenario) -> Scenario:
    """The same story while SageMaker refuses another user's request at length, in another pool.
    That job fails and changes nothing for the others."""
    if "hostile" in scenario.ends:
        return scenario
    return replace(
        scenario,
        steps=(submit_hostile(0.25, pools="h"), *scenario.steps),
        ends={**scenario.ends, "hostile": S.FAILED},
        pools=(*scenario.pools, pool("h")),
    )


def all_have_heard(job: str) -> Callable[[World], str]:
    """Whoever was accepted has heard of the job's end, but for those whose place another has taken
    and whose executions were stopped."""

    def look(world: World) -> str:
        tasks = world.tasks
        waiting = [token for token in tasks.accepted if job_of(token) == job]
        deaf = [t for t in waiting if t not in tasks.ends and t not in tasks.stopped]
        if deaf:
            return f"{deaf[0]} has heard of no end"
        newest = waiting[-1] if waiting else ""
        # A later one may have got no answer, and have been kept all the same.
        later = [token for token, end in tasks.ends.items() if token > newest and end != SUPERSEDED]
        if tasks.ends.get(newest) == SUPERSEDED and not later:
            return f"{newest} is the newest, and has heard that another one is"
        return f"{job} has ended, and is still kept for somebody" if tasks.kept() else ""

    return look


def one_has_heard(job: str) -> Callable[[World], str]:
    """Of several tokens that came at once exactly one has heard of the job's end, and each other
    that its place is taken."""

    def look(world: World) -> str:
        ends = {t: end for t, end in world.tasks.ends.items() if job_of(t) == job}
        deaf = {t for t in world.tasks.accepted if job_of(t) == job} - ends.keys()
        if deaf:
            return f"{min(deaf)} has heard of no end"
        of_the_end = [token for token, end in ends.items() if end != SUPERSEDED]
        return "" if len(of_the_end) == 1 else f"{of_the_end} have heard of the end of {job}"

    return look


def lose_events(at: float, until: float) -> Step:
    """SageMaker's events from `at` on get lost."""

    def act(world: World) -> None:
        policy = world.event_policy

        def restore() -> None:
            world.event_policy = policy

        world.event_policy = lambda _: ()
        world.after(round((until - at) * 1000), "events arrive", restore)

    return Step(at, "events get lost", act)


def until(at: float) -> Step:
    """The story lasts at least until then."""
    return Step(at, "time goes by", lambda _: None)


def ghost(name: str) -> dict[str, Any]:
    """A training job with the queue's tags that no job expects."""
    body = request(name)
    tags = {QUEUE_TAG: TABLE, JOB_TAG: name, TOKEN_TAG: "unknown"}
    body["Tags"] += [{"Key": key, "Value": value} for key, value in tags.items()]
    return body


def one_training_job_of(*jobs: str) -> Callable[[World], str]:
    """Each of these jobs that was accepted has run as one training job: nothing has begun again."""

    def look(world: World) -> str:
        count = Counter(each.tags.get(JOB_TAG) for each in world.plane.jobs())
        wrong = {job: count[job] for job in jobs if job in world.accepted and count[job] != 1}
        return f"these have other numbers of training jobs than one: {wrong}" if wrong else ""

    return look


def completes_in(job: str, pool: str) -> Callable[[World], str]:
    """The training job that completes is in that pool."""

    def look(world: World) -> str:
        kinds = [
            [*each.instances]
            for each in world.plane.jobs()
            if each.tags.get(JOB_TAG) == job and each.status == "Completed"
        ]
        right = kinds == [[TYPES[pool]]] or job not in world.accepted
        return "" if right else f"{job} has completed on {kinds}, not on {TYPES[pool]}"

    return look


def is_now(training_job: str, status: str) -> Callable[[World], str]:
    def look(world: World) -> str:
        now = world.status_of(training_job)
        return "" if now == status else f"{training_job} is {now}, not {status}"

    return look


def ends_with_its_goal(group: str, met_by: str) -> Callable[[World], str]:
    """Once that member has completed, the record says so, and the others have ended for it."""

    def look(world: World) -> str:
        stored = DynamoStore(world.dynamo, TABLE).groups.get(group)
        if stored is None:
            return ""
        jobs = {name: world.watch.jobs[name] for name in stored.group.members}
        if stored.met_by != met_by:
            return f"{met_by} is {jobs[met_by].state}, and noted is '{stored.met_by}'"
        others = [job for name, job in jobs.items() if name != met_by]
        wrong = [job.name for job in others if job.cause != StopCause.GOAL_REACHED]
        return f"{wrong} ended otherwise" if wrong else ""

    return look


def creates_at_most(most: int) -> Callable[[World], str]:
    """Of all jobs together, refused ones included."""

    def look(world: World) -> str:
        asked = world.plane.calls["CreateTrainingJob"]
        return f"{asked} creates, not {most}" if asked > most else ""

    return look


def started_first(job: str) -> Callable[[World], str]:
    """Of all training jobs ever created."""

    def look(world: World) -> str:
        there = world.plane.jobs()
        first = there[0].tags.get(JOB_TAG, "") if there else ""
        return "" if first == job else f"{first} has started before {job}"

    return look


def one_started_before(at: float, *jobs: str) -> Callable[[World], str]:
    """One of these jobs at most. `at`: seconds after the start."""

    def look(world: World) -> str:
        began = {each.tags.get(JOB_TAG): each.created_at - START for each in world.plane.jobs()}
        early = [job for job in jobs if began.get(job, at * 1000) < at * 1000]
        return f"{early} have started before {at} s" if len(early) > 1 else ""

    return look


def began_before(at: float, *jobs: str) -> Callable[[World], str]:
    """`at`: seconds after the start. A job whose submission was refused or lost does not count."""

    def look(world: World) -> str:
        began = {each.tags.get(JOB_TAG) for each in world.plane.jobs() if _since(each) < at}
        late = [job for job in jobs if job in world.accepted and job not in began]
        return f"{late} have not started before {at} s" if late else ""

    return look


def _since(training_job: TrainingJob) -> float:
    return (training_job.created_at - START) / 1000


SOON_ENOUGH = 5_000
"""How late (ms) a grace may end, where nothing goes wrong."""


def orders_with_grace(world: World) -> Iterator[tuple[str, int]]:
    """The training jobs that had a grace, each with its end (ms)."""
    store = DynamoStore(world.dynamo, TABLE)
    for name in world.watch.jobs:
        found = store.jobs.with_attempts(name)
        for attempt in found[1] if found else ():
            if attempt.stop and attempt.stop.grace_until:
                yield attempt.training_job, attempt.stop.grace_until


def graces_end_in_time(world: World) -> str:
    """Who has a grace is asked, and stopped soon after the grace."""
    wrong = []
    for name, until in orders_with_grace(world):
        late = world.stopped.get(name, until) - until
        if late > SOON_ENOUGH:
            wrong.append(f"{name} is stopped {late} ms after its grace")
        if name not in world.marked:
            wrong.append(f"{name} was never asked")
    return "; ".join(wrong)


def all_are_asked(world: World) -> str:
    """Who has a long grace is asked, also if the handler that gave it dies; or is stopped at once
    where nobody knows whether it was asked."""
    wrong = [
        name
        for name, until in orders_with_grace(world)
        if name not in world.marked and world.stopped.get(name, until) >= until
    ]
    return f"{wrong} were never asked" if wrong else ""


def both_have_ended(world: World) -> str:
    """The second member, which no step names, ends as the first does."""
    first, second = (world.watch.jobs.get(name) for name in "ab")
    as_one = first and second and first.state is second.state
    return "" if as_one or not first else f"a is {first.state}, b {second and second.state}"


def stopped_before(at: float, training_job: str) -> Callable[[World], str]:
    """`at`: seconds after the start."""

    def look(world: World) -> str:
        stopped = world.stopped.get(training_job)
        on_time = stopped is not None and stopped < START + at * 1000
        return "" if on_time else f"{training_job} is not stopped before {at} s"

    return look


def began_at_most(job: str, attempts: int) -> Callable[[World], str]:
    def look(world: World) -> str:
        began = sum(each.tags.get(JOB_TAG) == job for each in world.plane.jobs())
        return "" if began <= attempts else f"{job} has begun {began} attempts"

    return look


def no_create_is_refused(world: World) -> str:
    """Without faults, each create starts a training job."""
    creates, begun = world.plane.calls["CreateTrainingJob"], len(world.plane.jobs())
    return "" if creates == begun else f"{creates} creates have begun {begun} training jobs"


def given_up_after(attempts: int) -> Callable[[World], str]:
    """Who is given up has failed so many attempts to start."""

    def look(world: World) -> str:
        given_up = [job for job in world.watch.jobs.values() if job.cause == CANNOT_SCHEDULE]
        wrong = {each.name: each.schedule_attempts for each in given_up}
        wrong = {name: tried for name, tried in wrong.items() if tried != attempts}
        return f"given up after so many attempts: {wrong}" if wrong else ""

    return look


def nothing_left_of(job: str) -> Callable[[World], str]:
    """Nothing but the record of what it used, which is kept for a week at least."""

    def look(world: World) -> str:
        keys = [
            key
            for key in world.table.items
            if job in key[0].split("#") + key[1].split("#") and not key[0].startswith("ENDED#")
        ]
        return f"of {job} there is still {keys}" if keys else ""

    return look


def yields_agree_with_attempts(world: World) -> str:
    """Every user's last yield is kept, and no other, whatever crashed."""
    store = DynamoStore(world.dynamo, TABLE)
    told: dict[str, int] = {}
    for name in ("a", "b", "c"):
        found = store.jobs.with_attempts(name)
        for attempt in found[1] if found else ():
            if attempt.stop and attempt.stop.cause is StopCause.YIELDED:
                told[name] = max(attempt.stop.at, told.get(name, 0))
    items = (item for key, item in world.table.items.items() if key[1].startswith(YIELD_PREFIX))
    kept = {item["user"]["S"]: int(item["at"]["N"]) for item in items}
    return "" if kept == told else f"kept are the yields {kept}, and the attempts tell {told}"


def counters_converge(world: World) -> str:
    """Once all has ended and two ticks have passed, nobody's jobs are counted as waiting."""
    world.go(130)
    items = [item for key, item in world.table.items.items() if key[0] == CALLERS]
    items += [world.table.items[revision_key()]]
    counts = [item["waiting"]["N"] for item in items if "waiting" in item]
    left = [count for count in counts if count != "0"]
    return f"nobody waits, and {left} are counted" if left else ""


def lines_are_paid_for(most: int) -> Callable[[World], str]:
    """Once all has ended and two ticks have passed, the counters know each line that a user has
    opened, and there are at most so many lines."""

    def check(world: World) -> str:
        if wrong := counters_converge(world):
            return wrong
        items = world.table.items.items()
        opened = sum(key[0] == LINES and "opener" in item for key, item in items)
        paid = sum(
            int(item["lines"]["N"]) for key, item in items if key[0] == CALLERS and "lines" in item
        )
        if opened != paid:
            return f"{opened} lines are opened by users, and {paid} are counted"
        ours = sum(key[0] == LINES for key, _ in items)
        return f"there are {ours} lines" if ours > most else ""

    return check


def done(*names: str) -> dict[str, JobState]:
    return dict.fromkeys(names, S.COMPLETED)


def minutes(count: float) -> Work:
    return Work(runtime=round(count * 60_000), stop=30_000)
