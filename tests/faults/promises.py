"""The promises of docs/protocol.md, watched at every write of the store and every step of
the plane.

What is checked is read from the table's raw items and from the training plane itself, not from the
queue's own view of them. Nothing is raised, for the queue may survive an exception: what is broken
is noted in `broken`, and the campaign looks there after each step.

See docs/protocol.md#why-each-promise-holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from slotq.local.services.expressions import Item
from slotq_core.adapters.dynamodb.layout.items import demand_of, job_of, stored_group_of
from slotq_core.adapters.dynamodb.layout.lines import line_in
from slotq_core.adapters.dynamodb.layout.table import (
    ACTIVE_PREFIX,
    CLAIM_PREFIX,
    HEALTH,
    JOB,
    LEDGER,
    LINES,
    NODES_PREFIX,
    ON_NODE_PREFIX,
    WARM_PREFIX,
    revision_key,
    sharing_key,
    wake_key,
)
from slotq_core.adapters.dynamodb.layout.validation import node_at, whole_node
from slotq_core.adapters.dynamodb.sharing_documents import unpacked
from slotq_core.adapters.sagemaker.observations import TOKEN_TAG
from slotq_core.gpu_amounts import WHOLE as WHOLE_GPU
from slotq_core.lifecycle import TRANSITIONS
from slotq_core.model.attempts import StopCause
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node, NodeState, node_of_owner
from slotq_core.names import JOB_TAG, QUEUE_TAG, token_in_tags
from slotq_core.operations.jobs.groups import NOT_WHOLE
from slotq_core.policy.lifecycle.start_attempts import CANNOT_SCHEDULE, NOT_SCHEDULED
from slotq_core.usage.attempt_use import WARM
from tests.faults.fake_dynamodb import Change, Key
from tests.faults.whole_gangs import GANG, WholeGangs

if TYPE_CHECKING:
    from slotq.local.training.training_job import TrainingJob
    from tests.faults.world import World

K = TypeVar("K")

LOST = "1 nothing lost"
CAPACITY = "2 never over capacity"
ONE_LIVE = "3 one live attempt per job"
PLACE = "5 an evicted job keeps its place"
IDEMPOTENT = "6 idempotent"
CANCEL = "7 a cancel wins"
CONVERGENT = "8 convergent"
STABLE = "9 stable"
RECORDED = "each ended attempt has one record of its use"
GRACE = "who is asked to release has the whole grace"
WHOLE = "a group exists whole or not at all"
PARALLEL = "no more of a sweep hold slots than may"
BLAMELESS = "no job ends for want of a right"
NEIGHBOURS = "11 nobody pays for a neighbour"
ANNOUNCED = "what has changed moves the queue's version"
TENANT = "a node runs the jobs of one tenant"
LEASE = "a node without a lease runs nothing"
ANSWERED = "whoever waits for a job's end hears of that end"
ATTEMPTS = "each failed attempt to start is counted once, and the next one is never early"

_OF_A_RIGHT = ("AccessDenied", "is not authorized", "Could not assume role", "a right is missing")
_OF_THE_POOL = "{kind} for training job usage"
_OF_EVERY_POOL = "Number of instances across all training jobs"
_LATEST = 1 << 50
"""A time (ms) at which no moment is ahead."""
_QUOTES = "validation errors detected"
"""SageMaker refuses the request itself, whatever the refusal quotes from it."""


@dataclass(frozen=True)
class Broken:
    promise: str
    what: str

    def __str__(self) -> str:
        return f"promise {self.promise}: {self.what}"


@dataclass
class Watch:
    """Watches one world."""

    world: World
    broken: list[Broken] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    gone: dict[str, Job] = field(default_factory=dict)
    """Jobs whose history has expired, as they ended."""
    openings: dict[str, Item] = field(default_factory=dict)
    """Submissions of groups that are not finished."""
    decisions: int = 0
    """The number of writes that were neither the scheduler's own nor of lines: a pass keeps the
    bounds of what it has read."""
    _copies: dict[str, dict[Key, Item]] = field(default_factory=dict)
    _held: dict[str, dict[str, Demand]] = field(default_factory=dict)
    """The amounts that jobs hold, by pool."""
    _ledgers: dict[str, Item] = field(default_factory=dict)
    _capacity: dict[str, Demand] = field(default_factory=dict)
    _types: dict[str, str] = field(default_factory=dict)
    """The instance types of the pools."""
    _document: str = ""
    """The configuration's document."""
    in_document: bool = False
    """Whether that has the pools."""
    _lines: dict[str, Item] = field(default_factory=dict)
    _waiting: dict[str, set[str]] = field(default_factory=dict)
    """The sort keys in each line's partition."""
    _groups: dict[str, Item] = field(default_factory=dict)
    """The records of groups."""
    gangs: WholeGangs = field(init=False)
    _cancelled: set[str] = field(default_factory=set)
    _tokens: dict[str, str] = field(default_factory=dict)
    _version: tuple[object, object] = (None, None)
    _unannounced: bool = False
    """Whether a job has changed since the version moved."""
    _read: dict[int, tuple[Item, Job]] = field(default_factory=dict)
    """What stored items say, by their identity: nobody changes an item that is stored."""

    def __post_init__(self) -> None:
        self.gangs = WholeGangs(self.jobs)

    def note(self, promise: str, what: str) -> None:
        self.broken.append(Broken(promise, what))

    # --- the table

    def wrote(self, changes: Sequence[Change]) -> None:
        """Check one committed write, of an item or of a whole transaction."""
        if any(key[0] not in {"SCHEDULER", LINES} for key, _, _ in changes):
            self.decisions += 1
        self._note_version(changes)
        self._check_records(changes)
        touched: set[str] = set()
        pools: set[str] = set()
        were = dict(self.jobs)
        for key, before, after in changes:
            kind = key[1].partition("#")[0]
            if key[0].startswith("JOB#") and kind == "JOB":
                touched.add(self._job_changed(key[0].removeprefix("JOB#"), before, after))
            elif name := _copy_of(key):
                touched.add(name)
                _keep(self._copies.setdefault(name, {}), key, after)
                if kind == "ACTIVE":
                    pools.add(self._held_changed(key, name, after))
            elif pool := self._slots_changed(key, after):
                pools.add(pool)
            elif after:
                self._pool_changed(key, after)
        self._check_nodes(changes)
        self._check_gangs({name: were[name] for name in touched & were.keys()}, changes)
        for name in touched:
            self._check_copies(name)
        for pool in pools:
            self._check_ledger(pool)
        self._check_lines(changes)
        self._check_groups(changes)

    def _job_of(self, item: Item) -> Job:
        if id(item) not in self._read:
            self._read[id(item)] = item, job_of(item)
        return self._read[id(item)][1]

    def _pool_changed(self, key: Key, after: Item) -> None:
        if key[0].startswith("POOL#") and key[1] == HEALTH:
            self._check_neighbours(key[0].removeprefix("POOL#"), after)
        elif key[0] == "CONFIG" and key[1].startswith("POOL#"):
            name = key[1].removeprefix("POOL#")
            self._types[name] = after["instanceType"]["S"]
            amounts = after["capacity"]["M"].items()
            self._capacity[name] = Demand({what: int(value["N"]) for what, value in amounts})
        elif key == revision_key():
            self._document_changed(after.get("sharing", {}).get("S", ""))

    def _document_changed(self, name: str) -> None:
        """Take in the pools of the configuration, if they are in its document."""
        part = self.world.table.items.get(sharing_key(name, 0))
        pools = unpacked(part["data"]["B"])[1] if part and name != self._document else None
        self._document = name
        if pools is not None:
            self.in_document, self.world.pools = True, pools
            gone = dict.fromkeys(self._capacity, Demand())
            self._capacity = gone | {pool.name: pool.capacity for pool in pools}
            self._types |= {pool.name: pool.instance_type for pool in pools}
            for pool in self._capacity:
                self._check_ledger(pool)

    def _check_gangs(self, were: Mapping[str, Job], changes: Sequence[Change]) -> None:
        gangs = [it.group for it in self.world.groups.values() if it.max_parallel is None]
        for text in self.gangs.wrote(were, changes, gangs):
            self.note(GANG, text)

    def _check_groups(self, changes: Sequence[Change]) -> None:
        """No member waits for slots or holds any before its group exists, and no more hold any than
        the group says."""
        for (pk, sk), _, after in changes:
            if pk.startswith("GROUP#"):
                _keep(self._groups, pk.removeprefix("GROUP#"), after)
            elif pk == "OPENING":
                _keep(self.openings, sk, after)
        for name, wanted in self.world.groups.items():
            members = [self.jobs[it.name] for it, _ in wanted.members if it.name in self.jobs]
            early = [job.name for job in members if job.claim or job.attempt]
            if early and name not in self._groups:
                self.note(WHOLE, f"{early} hold or claim slots, and there is no group {name}")
            running = [job for job in self.jobs.values() if job.group == name and job.attempt]
            if running and name in self._groups:
                known = self._members_of(name)
                if strange := [job.name for job in running if job.name not in known]:
                    self.note(WHOLE, f"{strange} hold slots, and group {name} has no such member")
            holding = [job.name for job in members if job.attempt]
            if wanted.max_parallel is not None and len(holding) > wanted.max_parallel:
                self.note(PARALLEL, f"{holding} hold slots, of which {wanted.max_parallel} may")

    def _members_of(self, name: str) -> Sequence[str]:
        """The members in the group's record; none if there is no record."""
        return stored_group_of(self._groups[name]).group.members if name in self._groups else ()

    def _look_at_groups(self) -> None:
        """At the end each group is there with every member, or nothing of it has run."""
        if self.gangs.in_parts:
            self.note(CONVERGENT, "a decision about a group is never finished")
        for name, wanted in self.world.groups.items():
            members = self._members_of(name) or [it.name for it, _ in wanted.members]
            for member in members:
                job = self.jobs.get(member) or self.gone.get(member)
                given_up = job is None or job.cause == NOT_WHOLE
                if given_up == (name in self._groups):
                    there = "exists" if name in self._groups else "does not exist"
                    self.note(WHOLE, f"group {name} {there}, and {member} is {job and job.state}")
        if self.openings:
            self.note(CONVERGENT, f"the submissions of {sorted(self.openings)} stay open")

    def _check_records(self, changes: Sequence[Change]) -> None:
        """The write that ends an attempt makes its record, and that of a warm slot the record of
        the slot's time. No other write makes any."""
        ended = Counter(
            (now.name, was.attempt.number)
            for key, before, after in changes
            if key[0].startswith("JOB#") and key[1] == "JOB" and before and after
            for was, now in [(self._job_of(before), self._job_of(after))]
            if was.attempt and (now.attempt is None or now.attempt.number != was.attempt.number)
            if now.attempts >= was.attempts  # Otherwise the attempt is taken back.
        )
        recorded: Counter[tuple[str, int]] = Counter()
        for key, before, after in changes:
            if key[0].startswith("ENDED#") and after:
                of = after["job"]["S"], int(after["number"]["N"])
                if after.get("outcome", {}).get("S") == WARM:
                    self._check_warm_record(of, changes)
                else:
                    recorded[of] += 1
                if before:
                    self.note(RECORDED, f"{key} overwrites another record")
        if recorded != ended:
            self.note(RECORDED, f"the attempts {sorted(ended)} end, recorded: {sorted(recorded)}")

    def _check_warm_record(self, of: tuple[str, int], changes: Sequence[Change]) -> None:
        slots = {
            (before["job"]["S"], int(before["number"]["N"]))
            for key, before, _ in changes
            if key[1].startswith(WARM_PREFIX) and before
        }
        if of not in slots:
            self.note(RECORDED, f"warm time of {of} is recorded, and no slot of it changes")

    def _check_lines(self, changes: Sequence[Change]) -> None:
        """Each waiting job's line exists, and the line's bound hides none of its jobs."""
        concerned: set[Key] = set()
        for (pk, sk), _, after in changes:
            if pk == LINES:
                _keep(self._lines, sk, after)
                partition = f"WAITING#{sk}"
                concerned |= {(partition, each) for each in self._waiting.get(partition, ())}
            elif pk.startswith("WAITING#"):
                keys = self._waiting.setdefault(pk, set())
                (keys.discard if after is None else keys.add)(sk)
                concerned.add((pk, sk))
        waiting = {key: {} for key in concerned if key[1] in self._waiting[key[0]]}
        lines = {(LINES, pk.removeprefix("WAITING#")) for pk, _ in waiting}
        there = {key: self._lines[key[1]] for key in lines if key[1] in self._lines}
        for text in overlooked({**waiting, **there}):
            self.note(LOST, text)

    def restored(self, items: Mapping[Key, Item]) -> None:
        """The table is as it was once: begin again with what it holds."""
        kept = [*self.broken]
        known: tuple[dict[str, Any] | set[str], ...] = (
            *(self.jobs, self._copies, self._held, self._ledgers, self._lines),
            *(self._waiting, self._groups, self.openings, self._cancelled),
        )
        for each in known:
            each.clear()
        self.wrote([(key, None, item) for key, item in items.items()])
        self.broken[:] = kept

    def swept(self, key: Key) -> None:
        """An item has expired: only records of ended jobs and attempts may."""
        if key[0].startswith("ENDED#"):
            return
        if not key[0].startswith(("JOB#", "NAME#")):
            self.note(LOST, f"{key} has expired")
        elif key[1] == "JOB":
            job = self.jobs.pop(key[0].removeprefix("JOB#"))
            self.gone[job.name] = job
            self._cancelled.discard(job.name)
            self._tokens.clear()
            if not job.terminal:
                self.note(LOST, f"{job.name} has expired while it was {job.state}")

    def _job_changed(self, name: str, before: Item | None, after: Item | None) -> str:
        was = self.jobs.get(name)
        if after is None:
            self.note(LOST, f"{name}: the job's own item is gone ({before and before['jobState']})")
            return name
        now = self._job_of(after)
        self.jobs[name] = now
        if was is None:
            if now.state is not JobState.PENDING:
                self.note(LOST, f"{name} begins as {now.state}")
            return name
        if was.terminal and _essence(was) == _essence(now):
            return name  # Only its expiry was set.
        if now.version != was.version + 1:
            self.note(LOST, f"{name}: version {was.version} -> {now.version}: a change was lost")
        if now.entry_time != was.entry_time or now.priority != was.priority:
            self.note(PLACE, f"{name}: entered at {was.entry_time}, now at {now.entry_time}")
        if now.state is not was.state and now.state not in TRANSITIONS[was.state]:
            self.note(LOST, f"{name}: {was.state} -> {now.state} is no legal move")
        self._check_cancel(was, now)
        self._check_end(was, now)
        self._check_blame(now)
        self._check_attempts(was, now)
        return name

    def _check_cancel(self, was: Job, now: Job) -> None:
        if now.state is JobState.CANCELLED or _stop_cause(now) is StopCause.CANCELLED:
            self._cancelled.add(now.name)
        elif now.name in self._cancelled and now.state is not JobState.COMPLETED:
            self.note(CANCEL, f"{now.name} was cancelled, then {was.state} -> {now.state}")

    def _check_end(self, was: Job, now: Job) -> None:
        """An attempt that has ended in the queue has ended in SageMaker."""
        if was.attempt is None or now.attempt is not None:
            return
        name = was.attempt.training_job
        on_nodes = {attempt.order.attempt for _, attempt in self.world.agents.running()}
        ours_live = name in self.world.live_training_jobs() and name in self.world.ours
        if ours_live or name in on_nodes:
            self.note(CAPACITY, f"{now.name}: its slots are free while {name} still runs")
        if self.world.agents.may_begin(name):
            self.note(CAPACITY, f"{now.name}: its GPUs are free, and a node will begin {name}")
        if now.state is JobState.COMPLETED and self.world.status_of(name) != "Completed":
            self.note(LOST, f"{now.name} is completed, {name} is {self.world.status_of(name)}")

    def _check_blame(self, now: Job) -> None:
        said = now.message
        of_a_right = any(words in said for words in _OF_A_RIGHT) and _QUOTES not in said
        if now.state is JobState.FAILED and of_a_right:
            self.note(BLAMELESS, f"{now.name} has failed: {said[:120]}")

    def _check_neighbours(self, pool: str, health: Item) -> None:
        """A pool backs off and shrinks only for a quota that concerns it."""
        said = health["message"]["S"] if "message" in health else ""
        own = _OF_THE_POOL.format(kind=self._types.get(pool))
        if "service limit '" in said and f"'{_OF_EVERY_POOL}'" not in said and own not in said:
            self.note(NEIGHBOURS, f"pool {pool} has learned from another quota: {said[:120]}")
        if "learned" in health and f"'{own}'" not in said:
            self.note(NEIGHBOURS, f"pool {pool} has shrunk for another quota: {said[:120]}")

    def _check_attempts(self, was: Job, now: Job) -> None:
        """The write that counts a failed attempt also ends it."""
        counted, ended = now.schedule_attempts - was.schedule_attempts, _ends_an_attempt(was, now)
        if counted != ended and now.schedule_attempts:
            self.note(ATTEMPTS, f"{now.name}: {was.state} -> {now.state} counts {counted} attempts")
        waits_until = was.not_before if was.cause == NOT_SCHEDULED else None
        if was.state is JobState.BACKOFF and now.waits and waits_until is not None:
            early = waits_until - self.world.clock.now()
            if early > 0:
                self.note(ATTEMPTS, f"{now.name} is tried again {early} ms too early")

    def _slots_changed(self, key: Key, after: Item | None) -> str:
        """Note a ledger, or the slot of a node. Returns the pool; empty if it is neither."""
        pool = key[0].removeprefix("POOL#")
        if pool == key[0]:
            return ""
        if key[1] == LEDGER:
            self._ledgers[pool] = after or {}
            return pool
        if (node := node_at(key)) is None:
            return ""
        held = Demand() if after is None else demand_of(after)
        self._held.setdefault(pool, {})[f"node {node[1]}"] = held
        return pool

    def _held_changed(self, key: Key, name: str, after: Item | None) -> str:
        pool = key[0].removeprefix("POOL#")
        held = self._held.setdefault(pool, {})
        if after is None:
            held.pop(name, None)
        else:
            job = self._job_of(after)
            held[name] = dict(job.parts).get(pool, job.demand)
        return pool

    def _check_copies(self, name: str) -> None:
        job = self.jobs.get(name)
        found = self._copies.get(name, {})
        if job is None:
            if found:
                self.note(LOST, f"{name}: copies {sorted(found)} without a job")
            return
        kinds = sorted(_place(key) for key in found)
        if kinds != sorted(_places(job)):
            self.note(LOST, f"{name} is {job.state}, but stands in {kinds or 'no list'}")
        for key, item in found.items():
            if self._job_of(item).version != job.version:
                self.note(LOST, f"{name}: the copy {key} is of another version")

    def _check_ledger(self, pool: str) -> None:
        used = sum(self._held.get(pool, {}).values(), Demand())
        ledger = self._ledgers.get(pool, {})
        counted = _amounts(ledger, "used_")
        if used != counted:
            self.note(CAPACITY, f"pool {pool}: {used} is held, the ledger says {counted}")
        if pool in self._capacity and not used.within(self._capacity[pool]):
            self.note(CAPACITY, f"pool {pool}: {used} is held of {self._capacity[pool]}")

    # --- the training plane

    def created(self, training_job: TrainingJob) -> None:
        """A create of the queue has taken effect."""
        name, tags = training_job.name, training_job.tags
        owner = tags.get(JOB_TAG, "")
        job = self.jobs.get(owner)
        token = tags.get(TOKEN_TAG, "")
        if self._tokens.setdefault(name, token) != token:
            self.note(ONE_LIVE, f"{name} is created under two tokens")
        if self.gangs.in_parts and job is not None and job.group:
            self.note(GANG, f"{name} is created while a decision about a group is unfinished")
        if not tags.get(QUEUE_TAG):
            self.note(ONE_LIVE, f"{name} bears no queue's tag")
        if (place := node_of_owner(owner)) is not None:
            self._node_created(name, token, self.nodes().get(place))
        elif job is None or job.attempt is None or job.attempt.training_job != name:
            self.note(ONE_LIVE, f"{name} is created, but is not the live attempt of a job")
        elif job.attempt.token != token:
            self.note(ONE_LIVE, f"{name} bears a token that is not its attempt's")

    def _node_created(self, name: str, token: str, node: Node | None) -> None:
        if node is None or node.training_job != name:
            self.note(ONE_LIVE, f"{name} is created, but no node has it")
        elif token != token_in_tags(node.token):
            self.note(ONE_LIVE, f"{name} bears a token that is not its node's")

    def _check_nodes(self, changes: Sequence[Change]) -> None:
        for (pk, _), before, after in changes:
            if pk.startswith(NODES_PREFIX):
                self._node_changed(before, after)

    def _node_changed(self, before: Item | None, after: Item | None) -> None:
        """A node is ready once its own agent has begun, and gone once its training job has
        ended."""
        was = whole_node(before) if before and not after else None
        if was is not None and was.training_job in self.world.ours_live():
            self.note(CAPACITY, f"node {was.name} is gone while {was.training_job} still runs")
        now = whole_node(after) if after else None
        agents = self.world.agents
        ready = now is not None and now.state is NodeState.READY and agents.rules is not None
        if now is not None and ready and now.training_job not in agents.of:
            self.note(ONE_LIVE, f"node {now.name} is ready before {now.training_job} runs")

    def nodes(self) -> dict[tuple[str, str], Node]:
        """The nodes in the table that can be read, by pool and name."""
        items = self.world.table.items.items()
        found = [whole_node(item) for (pk, _), item in items if pk.startswith("NODES#")]
        return {(node.pool, node.name): node for node in found if node is not None}

    def stops(self, training_job: str) -> None:
        """The queue asks SageMaker to stop a training job."""
        self._check_lease(training_job)
        if training_job not in self.world.marked:
            return
        for job in self.jobs.values():
            attempt = job.attempt
            if attempt and attempt.stop and attempt.training_job == training_job:
                until = attempt.stop.grace_until or 0
                if until > self.world.clock.now():
                    left = until - self.world.clock.now()
                    self.note(GRACE, f"{training_job} is stopped {left} ms before its grace ends")

    def look_at_plane(self) -> None:
        """Check how much runs at this moment, by the plane's own count."""
        live = [
            job for name, job in self.world.live_training_jobs().items() if name in self.world.ours
        ]
        for pool in self.world.pools:
            used = sum(job.instances.get(pool.instance_type, 0) for job in live)
            if used > pool.capacity.slots:
                names = sorted(job.name for job in live)
                self.note(CAPACITY, f"{used} instances live in pool {pool.name}: {names}")
        seen: dict[str, str] = {}
        for job in live:
            owner = job.tags.get(JOB_TAG, "")
            if owner in seen:
                self.note(ONE_LIVE, f"{owner} has {seen[owner]} and {job.name} live at once")
            seen[owner] = job.name
        self._look_at_nodes(seen)

    def _look_at_nodes(self, seen: Mapping[str, str]) -> None:
        """Check what runs on nodes at this moment, by their agents' own count. `seen`: the live
        training job of each owner."""
        begun, gpus, tenants = {**seen}, Counter[tuple[str, int]](), dict[str, set[str]]()
        for agent, attempt in self.world.agents.running():
            order, node = attempt.order, agent.training_job
            if (other := begun.setdefault(order.job, order.attempt)) != order.attempt:
                self.note(ONE_LIVE, f"{order.job} has {other} and {order.attempt} live at once")
            gpus.update({(node, index): order.gpu_part or WHOLE_GPU for index in order.gpus})
            if order.job in self.jobs:
                tenants.setdefault(node, set()).add(self.jobs[order.job].tenant)
        if twice := [place for place, amount in gpus.items() if amount > WHOLE_GPU]:
            self.note(CAPACITY, f"attempts have more than all of the GPUs {twice}")
        if mixed := [node for node, found in tenants.items() if len(found) > 1]:
            self.note(TENANT, f"the nodes {mixed} run jobs of two tenants")

    def _check_lease(self, training_job: str) -> None:
        """SageMaker is asked to stop a node that the queue does not hear: it runs nothing."""
        agent = self.world.agents.of.get(training_job)
        node = next((it for it in self.nodes().values() if it.training_job == training_job), None)
        silent = node is not None and node.stop and node.stop.cause is StopCause.STALLED
        if silent and agent is not None and agent.keeps_time and (running := agent.running()):
            names = [attempt.order.attempt for attempt in running]
            self.note(LEASE, f"{training_job} is silent, and stopped while it runs {names}")

    # --- at quiet moments

    def _note_version(self, changes: Sequence[Change]) -> None:
        for key, _, item in changes:
            if key == wake_key() and item is not None:
                version = item.get("generation"), item.get("moves")
                self._unannounced &= version == self._version
                self._version = version
            self._unannounced |= key[1] == JOB

    def look_at_version(self, *, announced: bool, quiet: bool) -> None:
        """As an invocation ends. One that died, or could not say so, leaves its changes unseen for
        a minute; so may one that another runs beside."""
        if not announced:
            self._unannounced = False
        elif quiet and self._unannounced:
            self.note(ANNOUNCED, f"the version stays at {self._version}")
            self._unannounced = False

    def look_for_leftovers(self, older_than: int) -> None:
        """Check for intents and ends that nobody has seen to in that time (ms)."""
        now = self.world.clock.now()
        for job in self.jobs.values():
            if job.terminal and job.followed and now - job.changed_at > older_than:
                self.note(
                    CONVERGENT, f"{job.name}: its end is not handed on since {job.changed_at}"
                )
            if job.attempt is None:
                continue
            stop = job.attempt.stop
            since, done = (
                (stop.grace_until or stop.at, stop.sent)
                if stop
                else (job.attempt.admitted_at, job.attempt.created)
            )
            if not done and now - since > older_than:
                what = "stop" if stop else "create"
                self.note(CONVERGENT, f"{job.name}: its {what} is left undone for {now - since} ms")
        for node in self.nodes().values():
            stop, since = node.stop, node.started_at
            stopping = node.state is NodeState.STOPPING and stop is not None
            if stopping and stop is not None:
                since = stop.grace_until or stop.at
            done = stop.sent if stopping and stop is not None else node.created
            if not done and now - since > older_than:
                self.note(CONVERGENT, f"node {node.name} is left {node.state} for {now - since} ms")

    def look_at_end(self, expected: Mapping[str, Iterable[JobState | None]]) -> None:
        """At the end each job is where it should be, and nothing is held."""
        for name, allowed in expected.items():
            job = self.jobs.get(name) or self.gone.get(name)
            state = job.state if job else None
            if state not in set(allowed):
                wanted = " or ".join(sorted(str(each) for each in allowed))
                self.note(LOST, f"{name} is {state} in the end, not {wanted}")
        for name, job in self.jobs.items():
            if not job.terminal and job.state not in expected.get(name, ()):
                self.note(CONVERGENT, f"{name} never ends: it is {job.state}")
            elif job.followed:
                self.note(CONVERGENT, f"{name} has ended, and its end is never handed on")
        self._look_at_room()
        self._look_at_groups()
        ours = sorted(set(self.world.live_training_jobs()) & self.world.ours)
        if ours:
            self.note(CONVERGENT, f"training jobs go on for ever: {ours}")
        for pool in self._ledgers:
            self._check_ledger(pool)
            if held := sorted(name for name, more in self._held.get(pool, {}).items() if more):
                self.note(CONVERGENT, f"pool {pool} is held by {held}")

    def _look_at_room(self) -> None:
        """At the end no change of the configuration is left in parts, and each ledger offers what
        the configuration says. For pools in the configuration's document."""
        if not self.in_document:
            return
        if "changing" in self.world.table.items[revision_key()]:
            self.note(CONVERGENT, "a change of the configuration is never finished")
        for pool, capacity in self._capacity.items():
            free, used = (_amounts(self._ledgers[pool], kind) for kind in ("free_", "used_"))
            room = capacity - used
            if any(free[what] != room[what] for what in {"slots", *capacity, *free}):
                self.note(CONVERGENT, f"pool {pool}: {free} is free of {capacity}, {used} is used")


def _amounts(ledger: Item, kind: str) -> Demand:
    return Demand(
        {
            name.removeprefix(kind): int(value["N"])
            for name, value in ledger.items()
            if name.startswith(kind)
        }
    )


def overlooked(items: Mapping[Key, Item]) -> list[str]:
    """The waiting jobs that a pass would not look at: their line does not exist, or its bound is
    above them."""
    found = []
    for partition, key in items:
        if not partition.startswith("WAITING#"):
            continue
        line = items.get((LINES, partition.removeprefix("WAITING#")))
        name = key.rpartition("#")[2]
        if line is None or "touched" not in line:
            found.append(f"{name} waits in a line that is not in the table")
        elif (bound := line_in(line, now=_LATEST).bound) > key:
            found.append(f"{name} waits at {key}, below its line's bound {bound}")
    return found


def _essence(job: Job) -> tuple[object, ...]:
    return job.state, job.version, job.entry_time, job.message


def _ends_an_attempt(was: Job, now: Job) -> bool:
    """Whether this change of a waiting job is a failed attempt to start."""
    backs_off = now.state is JobState.BACKOFF and now.cause == NOT_SCHEDULED
    given_up = now.state is JobState.FAILED and now.cause == CANNOT_SCHEDULE
    return was.waits and (backs_off or given_up)


def _stop_cause(job: Job) -> StopCause | None:
    return job.attempt.stop.cause if job.attempt and job.attempt.stop else None


def _keep(items: dict[K, Item], key: K, item: Item | None) -> None:
    if item is None:
        items.pop(key, None)
    else:
        items[key] = item


def _copy_of(key: Key) -> str:
    """The job whose copy has this key; empty if none."""
    pk, sk = key
    if pk.startswith("WAITING#") or pk == "DUE" or sk.startswith("AFTER#"):
        return sk.rpartition("#")[2]
    if pk.startswith("POOL#") and sk.startswith((ACTIVE_PREFIX, CLAIM_PREFIX, ON_NODE_PREFIX)):
        return sk.partition("#")[2]
    return ""


def _place(key: Key) -> str:
    pk, sk = key
    if pk.startswith("POOL#"):
        return f"{sk.partition('#')[0]} {pk.removeprefix('POOL#')}"
    return pk.partition("#")[0]


def _places(job: Job) -> list[str]:
    """The lists in which a job of this state must be, and no others."""
    if job.active:
        if job.attempt is None:
            return ["an attempt"]
        if job.attempt.node:
            return [f"{ON_NODE_PREFIX[:-1]} {job.attempt.pool}"]
        pools = [pool for pool, _ in job.parts] or [job.attempt.pool]
        return [f"ACTIVE {pool}" for pool in pools]
    if job.state is JobState.BACKOFF:
        return ["DUE"]
    if job.waits:
        return ["WAITING", *([f"CLAIM {job.claim.pool}"] if job.claim else [])]
    if job.terminal:
        return ["DUE"] if job.followed else []
    return ["JOB"] * len(job.waits_for)
