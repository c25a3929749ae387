"""`queue.sweeps`, and a submitted sweep: its results, the best of them, and verbs for it whole."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from slotq.errors import InvalidRequest, NoSuchGroup
from slotq.groups.group_calls import GroupCalls
from slotq.jobs.job_calls import JobCalls
from slotq.jobs.many import Many
from slotq.jobs.notices import print_line
from slotq.jobs.rendering import Bundle, Column, bundle
from slotq.jobs.verbs import Outcome
from slotq.sweeps.definition import Definition, define, has_ended, round_name
from slotq.sweeps.space import Parameters
from slotq.transport.connection import ConnectedCalls, Connection
from slotq_core.model.jobs import JobState
from slotq_core.wire.groups.sweep import SweepView, TrialView, ranked
from slotq_core.wire.groups.views import GroupView

POLL = 10.0
"""Seconds between two looks at a sweep while waiting."""

_EACH = 0.02
"""Seconds more for each member: a look reads them all."""


_NOTHING_SOUGHT = {"metric": "", "maximize": False, "goal": None}


class Sweep:
    """A sweep in the queue. Its trials come in one round, or in several groups one after the
    other: `NAME`, `NAME-round-2` … ."""

    def __init__(
        self, queue: Connection, rounds: Sequence[GroupView], definition: Definition | None = None
    ) -> None:
        """`definition`: the source of further rounds; None: unknown to this process."""
        self._queue, self._definition = queue, definition
        self.rounds = [*rounds]
        """The groups so far, as last looked at."""

    def __repr__(self) -> str:
        return f"<sweep {status_line(self)}>"

    def __str__(self) -> str:
        """The sweep in one line, and a table with a line for each trial, as last looked at."""
        return f"{status_line(self)}\n{self._bundle()['text/plain']}"

    def _repr_mimebundle_(self, **_: object) -> Bundle:
        return self._bundle()

    def _bundle(self) -> Bundle:
        results = self.results()
        columns: list[Column] = [
            ("Trial", lambda trial: trial.job or trial.name),
            ("State", lambda trial: trial.state or "expired"),
        ]
        names = dict.fromkeys(name for trial in results for name in trial.parameters or {})
        columns += [(name, partial(_parameter, name=name)) for name in names]
        if self._view.metric:
            columns.append((self._view.metric, lambda trial: trial.objective))
        return bundle(tuple(columns), results)

    @property
    def name(self) -> str:
        return self.rounds[0].name

    @property
    def states(self) -> dict[str, int]:
        """How many trials are in each state."""
        return dict(Counter(trial.state or "expired" for trial in self.results()))

    def refresh(self) -> Sweep:
        """Look at the queue again."""
        self.rounds = rounds_of(self._queue, self.name)
        return self

    def results(self, sort: str = "") -> list[TrialView]:
        """One line for each trial, as last looked at (`refresh` looks again). A trial that went on
        in a later round has the line of that round. `sort` as `sorted_by` takes it."""
        latest = {
            trial.name.removeprefix(f"{round_.name}-"): trial
            for round_ in self.rounds
            for trial in _trials(round_)
        }
        return sorted_by(list(latest.values()), sort, maximize=self._view.maximize)

    def best(self) -> TrialView | None:
        """The best completed trial; with halving, of the last round that has one. None: no trial
        has completed with an objective."""
        halving = self._definition is None or self._definition.halving is not None
        rounds = [_trials(round_) for round_ in reversed(self.rounds)]
        groups = rounds if halving else [[trial for trials in rounds for trial in trials]]
        found = (ranked(trials, maximize=self._view.maximize) for trials in groups)
        return next((trials[0] for trials in found if trials), None)

    @property
    def ended(self) -> bool:
        """Whether all trials of the rounds so far have ended."""
        return all(has_ended(trial) for round_ in self.rounds for trial in _trials(round_))

    def cancel(self) -> list[Outcome]:
        """Cancel every trial that waits or runs."""
        return self._many(self._living()).cancel()

    def retry(self) -> list[Outcome]:
        """Submit the trials that failed, were cancelled or stopped once more, in the same sweep and
        under the same limit."""
        vain = {JobState.FAILED, JobState.CANCELLED, JobState.STOPPED}
        jobs = [trial.job for trial in self.results() if trial.state in vain]
        return self._many(job for job in jobs if job).retry()

    def wait(
        self,
        timeout: float | None = None,
        *,
        poll: float = POLL,
        say: Callable[[str], None] = print_line,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Sweep:
        """Wait until all trials have ended, submitting further rounds, and say how it goes.

        An interrupted wait loses nothing: the queue goes on with the present round, and another
        `wait` for the same sweep submits the next. Raises TimeoutError.
        """
        until = None if timeout is None else clock() + timeout
        said = ""
        while True:
            self.refresh()
            line = status_line(self)
            if line != said:
                say(line)
                said = line
            if self.ended and not self._begin_next():
                return self
            if self.ended:
                continue
            pause = poll + _EACH * len(_trials(self.rounds[-1]))
            if until is not None and clock() >= until:
                raise TimeoutError(f"sweep {self.name} has not ended within {timeout:g} s")
            sleep(pause if until is None else max(0.0, min(pause, until - clock())))

    def _many(self, jobs: Iterable[str]) -> Many:
        return Many(JobCalls(self._queue), jobs)

    def _begin_next(self) -> bool:
        """Submit the next round, if any. Returns whether one exists."""
        if self._definition is None or self._view.met_by:
            return False
        trials = self._definition.following([_trials(round_) for round_ in self.rounds])
        if not trials:
            return False
        number = len(self.rounds) + 1
        self.rounds.append(submit_round(self._queue, self._definition, number, trials))
        return True

    def _living(self) -> Iterable[str]:
        for trial in self.results():
            if trial.job and not has_ended(trial):
                yield trial.job

    @property
    def _view(self) -> SweepView:
        sweep = self.rounds[-1].sweep
        assert sweep is not None
        return sweep


def submitted(queue: Connection, definition: Definition) -> Sweep:
    """Submit the first round, or find the sweep: the same sweep again is the same sweep, also where
    its code was uploaded again. Raises NameTaken, and what a submission of a group raises."""
    trials = definition.first()
    if not trials:
        raise InvalidRequest("the space proposes no trials", field="space")
    there = _known(queue, definition.name)
    if there and _is_that(there[0], definition, trials):
        return Sweep(queue, there, definition)
    group = submit_round(queue, definition, 1, trials)
    return Sweep(queue, [group, *there[1:]], definition)


def submit_round(
    queue: Connection,
    definition: Definition,
    number: int,
    trials: Mapping[int, Parameters],
    *,
    dry_run: bool = False,
) -> GroupView:
    """Submit the trials, or check the submission (`QueueClient.submit`)."""
    return GroupCalls(queue).submit(
        definition.group_name(number),
        definition.requests(number, trials),
        max_parallel=definition.max_parallel,
        sweep=definition.sweep_body(trials),
        dry_run=dry_run,
    )


def rounds_of(queue: Connection, name: str) -> list[GroupView]:
    """The groups of a sweep, round after round, without groups that are not sweeps. Raises
    NoSuchGroup, and InvalidRequest if the group is not a sweep with parameters or a metric."""
    first = GroupCalls(queue).view(name)
    if first.sweep is None:
        raise InvalidRequest(
            f"group {name} was submitted without saying what its members try; "
            f"`slotq show {name}` shows its jobs",
            field="name",
        )
    found = [first]
    for number in count(2):
        try:
            later = GroupCalls(queue).view(round_name(name, number))
        except NoSuchGroup:
            return found
        if later.sweep is None:
            return found
        found.append(later)
    return found


def _known(queue: Connection, name: str) -> list[GroupView]:
    try:
        return rounds_of(queue, name)
    except (NoSuchGroup, InvalidRequest):
        return []


def _is_that(group: GroupView, definition: Definition, trials: Mapping[int, Parameters]) -> bool:
    """Whether the group has the definition's trials, objective and parallelism."""
    if group.sweep is None or group.max_parallel != definition.max_parallel:
        return False
    found = group.sweep.model_dump(include={"metric", "maximize", "goal"})
    there = {**found, "parameters": [trial.parameters for trial in group.sweep.trials]}
    return there == {**_NOTHING_SOUGHT, **definition.sweep_body(trials)}


def _trials(group: GroupView) -> list[TrialView]:
    return group.sweep.trials if group.sweep else []


def sorted_by(trials: Sequence[TrialView], key: str, *, maximize: bool) -> list[TrialView]:
    """The trials in the order of a column: `objective` (the best first, then those that have
    not completed), `state`, `name` or a parameter; with `-` before it the other way round. Those
    without a value come last. Empty: as
    submitted. Raises InvalidRequest."""
    if not key:
        return [*trials]
    column, down = key.removeprefix("-"), key.startswith("-")
    known = {"objective", "state", "name", *(name for t in trials for name in t.parameters or {})}
    if column not in known:
        raise InvalidRequest(
            f"sort takes one of {', '.join(sorted(known))}, not {column!r}", field="sort"
        )

    def value(trial: TrialView) -> Any:
        if column in {"objective", "state", "name"}:
            return getattr(trial, column)
        return (trial.parameters or {}).get(column)

    having = [trial for trial in trials if value(trial) is not None]
    rest = [trial for trial in trials if value(trial) is None]
    if column == "objective":
        down = down != maximize
    mixed = len({isinstance(value(trial), str) for trial in having}) > 1
    order = (lambda trial: str(value(trial))) if mixed else value
    having.sort(key=order, reverse=down)
    if column == "objective":
        having.sort(key=lambda trial: trial.state != JobState.COMPLETED)
    return [*having, *rest]


def _parameter(trial: TrialView, *, name: str) -> object:
    return (trial.parameters or {}).get(name)


def status_line(sweep: Sweep) -> str:
    """The sweep's states and best trial, in one line."""
    results = sweep.results()
    states = Counter(trial.state or "expired" for trial in results)
    parts = [f"{states[state]} {state.value}" for state in JobState if states.get(state)]
    last = sweep.rounds[-1].name
    of = f" ({last})" if last != sweep.name else ""
    best = sweep.best()
    value = best.objective if best else None
    found = f"; best {value:g} ({best.name})" if best and value is not None else ""
    return f"{sweep.name}{of}: {', '.join(parts)}{found}"


class SweepCalls(ConnectedCalls):
    """Sweeps by name."""

    def submit(
        self,
        name: str,
        request: Mapping[str, Any],
        space: Any,
        *,
        max_parallel: int,
        trials: int | None = None,
        seed: int = 0,
        first: int = 1,
        objective: str | Mapping[str, Any] | None = None,
        halving: Mapping[str, Any] | None = None,
    ) -> Sweep:
        """Try many values of a training's parameters: one job for each point of `space`, all under
        one name, at most `max_parallel` at once.

        `request`: the CreateTrainingJob request that they share. `space`: a grid (lists by
        parameter), a list of dicts, samplers by parameter (`slotq.uniform` …; then `trials` from
        number `first` on, by `seed`), or a function from the trials so far to those of the next
        round. A parameter is a hyperparameter, or with a dot another field (`Environment.SEED`).
        `objective`: a metric to minimise, or `{"metric": …, "maximize": True, "goal": …}`.
        `halving`: `{"parameter": …, "rungs": [1, 3, 9], "keep": 3}`.

        The same sweep again is the same sweep; `wait` goes on with its rounds. Raises
        InvalidRequest, and what `groups.submit` raises.
        """
        definition = define(
            name=name,
            template={key: item for key, item in request.items() if key != "TrainingJobName"},
            space=space,
            max_parallel=max_parallel,
            trials=trials,
            seed=seed,
            first=first,
            objective=objective,
            halving=halving,
        )
        return submitted(self._connection, definition)

    def get(self, name: str) -> Sweep:
        """A sweep that any caller has submitted earlier. Raises NoSuchGroup, and InvalidRequest if
        the group is not a sweep."""
        return Sweep(self._connection, rounds_of(self._connection, name))
