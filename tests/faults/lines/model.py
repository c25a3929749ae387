"""Explore all orders of the calls that a few handlers make, with explicit states.

A handler is real code on the real store. It is deterministic, so the answers that it has had so far
are its whole state: to go on, the code runs again from its beginning on these answers, up to its
next call. A state is the table's items, the time, and each handler's answers. From each state,
either one handler makes its next call or time goes on. Every state is visited once.

A handler that has died is one that makes no further call, so every crash before a call is a prefix
of what is explored. Time that goes on beyond a handler's life ends it. A transaction is one step;
the campaign's interleavings try what others see of its middle.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from slotq.local.services.expressions import Item
from slotq_core.adapters.dynamodb.layout.table import LINES, table_definition
from slotq_core.adapters.dynamodb.reading.in_parallel import one_by_one
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import SlotQError
from slotq_core.operations.effects import HANDLER_LIFETIME
from tests.faults.clients import no_time_passes
from tests.faults.fake_dynamodb import FakeDynamo, Key, Table
from tests.faults.promises import LOST, STABLE, Broken, overlooked

TABLE = "queue"
ALONE: dict[str, Any] = {"pause": no_time_passes, "in_parallel": one_by_one}
"""A handler makes one call after the other."""
Clock = Callable[[], int]
Body = Callable[[DynamoStore, Clock], object]


@dataclass(frozen=True)
class Handler:
    name: str
    body: Body
    skew: int = 0
    """How far its clock is ahead (ms)."""
    version: Callable[[], AbstractContextManager[object]] = nullcontext
    """Puts another version's code in place while the handler runs."""

    @property
    def code(self) -> tuple[object, ...]:
        """What decides its calls: two handlers of one code make the same ones."""
        return self.body, self.skew, self.version


@dataclass(frozen=True)
class Case:
    name: str
    before: Callable[[Callable[[int], DynamoStore]], None]
    """Prepares the table. Its argument makes a store at a time (ms)."""
    handlers: tuple[Handler, ...]
    time: tuple[int, ...]
    """The steps (ms) by which time goes on, in this order, at any moments."""
    begin: int
    """The time (ms) at which the handlers may begin."""
    raises: bool = True
    """Whether some order raises a bound: otherwise the case would show little."""


@dataclass
class Found:
    """What an exploration has found."""

    states: int = 0
    raised: int = 0
    """How many steps have raised a bound."""
    broken: list[Broken] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    """The shortest way to the state in which a job may be overlooked."""

    @property
    def watch(self) -> Found:
        """As of a campaign's world, where `broken` is."""
        return self


class Wrong(Exception):
    """A handler has seen what must not be."""


Items = frozenset[tuple[Key, int]]


@dataclass(frozen=True, slots=True)
class _Answer:
    time: int
    said: Mapping[str, Any] | None = None
    refused: ClientError | None = None


@dataclass(frozen=True, slots=True)
class _Effect:
    """What one call does to a table of these items."""

    items: Items
    answer: int
    """The number of its answer's text."""
    said: Mapping[str, Any] | None = None
    refused: ClientError | None = None
    raised: int = 0
    """How many bounds it has raised."""


@dataclass(frozen=True, slots=True)
class _State:
    items: Items
    time: int
    gone: int
    """How many of the case's steps of time are over."""
    handlers: tuple[tuple[int, ...] | None, ...]
    """The answers of each handler; none: it has not begun. None: it has ended or died."""


class _Asked(BaseException):
    """The handler's next call. Nothing in the queue catches this."""


class _Replayed:
    """A client that gives the known answers again, and stops the handler at its next call."""

    def __init__(self, answers: list[_Answer]) -> None:
        self._answers = iter(answers[1:])
        self.time = answers[0].time

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def ask(**request: Any) -> Any:
            answer = next(self._answers, None)
            if answer is None:
                raise _Asked(operation, request)
            self.time = answer.time
            if answer.refused is not None:
                raise answer.refused.with_traceback(None)
            return answer.said

        return ask


def explore(case: Case, most: int | None = None) -> Found:
    """Visit every state, the nearest first, until one is broken. With `most`: so many states at
    most, and the farthest as well as the nearest."""
    return _Exploration(case).run(most)


class _Exploration:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._numbers: dict[object, int] = {}
        """Of the texts of items and answers, and of answers at a time."""
        self._items: dict[int, Item] = {}
        self._answers: dict[int, _Answer] = {}
        self._codes = [_first_of(case.handlers, handler) for handler in case.handlers]
        """For each handler the first one of its code."""
        self._calls: dict[tuple[int, tuple[int, ...]], tuple[str, Mapping[str, Any]] | None] = {}
        self._effects: dict[tuple[Items, int, tuple[int, ...]], _Effect] = {}
        """Of each call on each content of the table: many orders come to the same."""
        self._checked: set[Items] = set()
        self._came: dict[_State, tuple[_State, int] | None] = {}
        """For each state the one before, and the handler that went on; −1: time."""
        self._found = Found()

    def run(self, most: int | None) -> Found:
        first = self._first()
        self._came[first] = None
        waiting = deque([first])
        while waiting and not self._lost and (most is None or len(self._came) < most):
            deep = most is not None and len(self._came) % 2
            state = waiting.pop() if deep else waiting.popleft()
            for index, after in self._next(state):
                if after not in self._came:
                    self._came[after] = state, index
                    waiting.append(after)
                    self._check(after)
                if self._lost:
                    self._found.steps = self._way(after)
                    break
        self._found.states = len(self._came)
        return self._found

    @property
    def _lost(self) -> bool:
        """Whether a job may be overlooked. (A bound that falls is wrong, but hides nothing.)"""
        return any(broken.promise == LOST for broken in self._found.broken)

    def _first(self) -> _State:
        dynamo = FakeDynamo()
        dynamo.create_table(**table_definition(TABLE))

        def at(time: int) -> DynamoStore:
            return DynamoStore(dynamo, TABLE, clock=lambda: time, **ALONE)

        self._case.before(at)
        self._table = dynamo.tables[TABLE]
        items = frozenset((key, self._kept(item)) for key, item in self._table.items.items())
        return _State(items, self._case.begin, 0, ((),) * len(self._case.handlers))

    def _next(self, state: _State) -> Iterator[tuple[int, _State]]:
        for index, answers in enumerate(state.handlers):
            if answers is not None:
                yield index, self._go_on(state, index, answers)
        if state.gone < len(self._case.time) and any(h is not None for h in state.handlers):
            yield -1, self._wait(state)

    def _wait(self, state: _State) -> _State:
        step = self._case.time[state.gone]
        now = state.time + step
        left = tuple(
            answers
            if not answers or self._answers[answers[0]].time + HANDLER_LIFETIME > now
            else None
            for answers in state.handlers
        )
        return _State(state.items, now, state.gone + 1, left)

    def _go_on(self, state: _State, index: int, answers: tuple[int, ...]) -> _State:
        """Let the handler begin, or make its next call."""
        effect = _Effect(state.items, -1)
        if answers:
            effect = self._effect(state.items, self._codes[index], answers)
            self._found.raised += effect.raised
        more = (*answers, self._answered(state.time, effect))
        ended = self._call(index, more) is None
        handlers = (*state.handlers[:index], None if ended else more, *state.handlers[index + 1 :])
        return _State(effect.items, state.time, state.gone, handlers)

    def _call(self, index: int, answers: tuple[int, ...]) -> tuple[str, Mapping[str, Any]] | None:
        """The call that a handler makes after these answers; None: it ends."""
        known = self._codes[index], answers
        if known not in self._calls:
            self._calls[known] = self._run(self._case.handlers[index], answers)
        return self._calls[known]

    def _run(
        self, handler: Handler, answers: tuple[int, ...]
    ) -> tuple[str, Mapping[str, Any]] | None:
        client = _Replayed([self._answers[number] for number in answers])

        def clock() -> int:
            return client.time + handler.skew

        store = DynamoStore(client, TABLE, clock=clock, **ALONE)
        try:
            with handler.version():
                handler.body(store, clock)
        except _Asked as asked:
            operation, request = asked.args
            return operation, request
        except SlotQError:
            return None
        except Wrong as wrong:
            self._found.broken.append(Broken(LOST, f"{handler.name}: {wrong}"))
        return None

    def _effect(self, items: Items, index: int, answers: tuple[int, ...]) -> _Effect:
        """What the next call of that handler does to a table of these items."""
        known = items, index, answers
        if known not in self._effects:
            call = self._call(index, answers)
            assert call is not None
            self._effects[known] = self._perform(items, *call)
        return self._effects[known]

    def _perform(self, items: Items, operation: str, request: Mapping[str, Any]) -> _Effect:
        dynamo, table = FakeDynamo(), Table({})
        table.indexes, dynamo.tables[TABLE] = self._table.indexes, table
        for key, number in items:
            table.put(key, self._items[number])
        written: list[Key] = []
        dynamo.on_write = lambda changes: written.extend(key for key, _, _ in changes)
        try:
            said = getattr(dynamo, operation)(**request)
        except ClientError as error:
            return _Effect(items, self._number(repr(error)), refused=error)
        answer = self._number(json.dumps(said, default=repr))
        if not written:
            return _Effect(items, answer, said)
        raised = self._watch_bounds(items, table, written)
        left = frozenset(item for item in items if item[0] not in written)
        new = {(key, self._kept(table.items[key])) for key in written if key in table.items}
        return _Effect(left | new, answer, said, raised=raised)

    def _watch_bounds(self, items: Items, table: Table, written: list[Key]) -> int:
        """A write raises a bound or removes it. Returns how many it has raised."""
        raised = 0
        before = {key: self._items[number] for key, number in items if key in written}
        for key in written:
            line = table.items.get(key, {})
            if key[0] != LINES or "S" not in line.get("bound", {}):
                continue
            was, bound = before.get(key, {}).get("bound", {}).get("S", ""), line["bound"]["S"]
            raised += bound > was
            if bound < was and not self._found.broken:
                self._found.broken.append(Broken(STABLE, f"a bound falls from {was} to {bound}"))
            if "touched" not in line:
                self._found.broken.append(Broken(LOST, f"nobody has touched line {key[1]}"))
        return raised

    def _check(self, state: _State) -> None:
        if state.items in self._checked:
            return
        self._checked.add(state.items)
        items = {key: self._items[number] for key, number in state.items if _concerned(key)}
        self._found.broken += [Broken(LOST, text) for text in overlooked(items)]

    def _kept(self, item: Item) -> int:
        number = self._number(json.dumps(item, sort_keys=True, default=repr))
        self._items.setdefault(number, item)
        return number

    def _answered(self, time: int, effect: _Effect) -> int:
        number = self._number((time, effect.answer))
        if number not in self._answers:
            self._answers[number] = _Answer(time, effect.said, effect.refused)
        return number

    def _number(self, what: object) -> int:
        return self._numbers.setdefault(what, len(self._numbers))

    def _way(self, state: _State) -> list[str]:
        steps: list[str] = []
        while (came := self._came[state]) is not None:
            state, index = came
            steps.append(self._step(state, index))
        return steps[::-1]

    def _step(self, state: _State, index: int) -> str:
        """What happens in a state, for people."""
        if index < 0:
            return f"{self._case.time[state.gone] // 1000} s pass"
        name, answers = self._case.handlers[index].name, state.handlers[index]
        call = self._call(index, answers) if answers else None
        return f"{name}: {call[0]} {_request_text(call[1])}" if call else f"{name} begins"


def _first_of(handlers: Sequence[Handler], like: Handler) -> int:
    return next(number for number, each in enumerate(handlers) if each.code == like.code)


def _concerned(key: Key) -> bool:
    return key[0] == LINES or key[0].startswith("WAITING#")


def _request_text(request: Mapping[str, Any]) -> str:
    """What a call is about, for people."""
    if actions := request.get("TransactItems"):
        each = [next(iter(action.values())) for action in actions]
        keys = [one.get("Key") or one["Item"] for one in each]
        return ", ".join(f"{key['pk']['S']}/{key['sk']['S']}" for key in keys)
    words = [request.get("UpdateExpression", ""), request.get("KeyConditionExpression", "")]
    values = request.get("ExpressionAttributeValues", {})
    found = {name: next(iter(value.values())) for name, value in values.items()}
    key = request.get("Key", {}).get("sk", {}).get("S", "")
    return " ".join(filter(None, [key, *words, str(found or "")]))
