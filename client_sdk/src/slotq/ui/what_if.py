"""Forecasts of a change and of the starts of waiting jobs, by the simulator and never by the page;
applies the change. Uses the words of `slotq whatif`."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from slotq.client import QueueClient
from slotq.cost.instance_prices import prices_of
from slotq.document.document_text import compared as compared_documents
from slotq.document.document_text import diff_lines
from slotq.document.yaml_file import NOT_YAML
from slotq.errors import InvalidRequest, Outdated, SlotQError
from slotq.queue_calls import ServiceCalls
from slotq.simulate.whatif import (
    ForecastInput,
    MoreSlots,
    NewJob,
    WhatIfChange,
    WhatIfView,
    answer,
    changed,
    compared,
    forecast,
)
from slotq.simulate.whatif import changes as putting
from slotq.simulate.whatif.changes import described
from slotq.simulate.whatif.forecast import Forecast, Runtimes, Source
from slotq_core.timestamps import from_iso, iso
from slotq_core.wire.document.writing import written
from slotq_core.wire.setting_tags import PRIORITY_LIMIT

_NUMBER = re.compile(r"-?[0-9]{1,9}")
MOST_JOBS = 200
"""The most jobs of one kind of change: a whole group."""

Names = Annotated[list[str], Field(default=[], max_length=MOST_JOBS)]


class AddedBody(BaseModel):
    """A job of which there is no request yet."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=63)
    slots: int = Field(ge=1, le=9_999_999)
    pool: str
    priority: str = ""
    project: str = ""


class WhatIfBody(BaseModel):
    """Changes, all at one moment. Each field as the option of `slotq whatif` of that name."""

    model_config = ConfigDict(extra="forbid")
    pools: dict[str, Annotated[int, Field(ge=0, le=9_999_999)]] = Field(default={}, max_length=100)
    """Slots, by pool."""
    quotas: dict[str, Annotated[str, Field(max_length=1_000)]] = Field(default={}, max_length=100)
    """Slots, or a mapping such as `{p5: 2}`, by project."""
    more: dict[str, Annotated[str, Field(max_length=100)]] = Field(default={}, max_length=100)
    """Slots in addition and for how long, such as `2:1w`, by pool."""
    settings: dict[str, Annotated[str, Field(max_length=1_000)]] = Field(default={}, max_length=100)
    """Values as the configuration has them, by the setting's path; empty: its default."""
    priorities: dict[str, str] = Field(default={}, max_length=MOST_JOBS)
    """Numbers or classes, by job."""
    moves: dict[str, list[str]] = Field(default={}, max_length=MOST_JOBS)
    """The pools that a job shall accept."""
    cancels: Names
    holds: Names
    releases: Names
    adds: list[AddedBody] = Field(default=[], max_length=20)
    hours: float = Field(default=8, ge=0, le=72)
    runtime_hours: float | None = Field(default=None, gt=0, le=8_760)
    """How long jobs run in all that do not say so themselves."""


class ApplyBody(WhatIfBody):
    revision: int
    """The configuration's, in the answer that was looked at."""


class WhatIf:
    def __init__(self, queue: QueueClient) -> None:
        self._queue = queue

    def answer(self, asked: WhatIfBody) -> dict[str, Any]:
        """The answer as `slotq whatif --json` has it, with `words`. Raises SlotQError."""
        queue = ForecastInput.of(self._queue.service.scenario())
        change = self._change(asked)
        after = changed(queue, change)
        every = None if asked.runtime_hours is None else round(asked.runtime_hours * 3_600_000)
        view = compared(
            forecast(queue, hours=asked.hours, runtimes=Runtimes(every=every)),
            forecast(after, hours=asked.hours, runtimes=Runtimes(every=every)),
            touched=_touched(asked),
            prices=prices_of(self._queue.config),
        )
        return {**view.model_dump(), "words": in_words(view), "diff": _diff(queue, after)}

    def apply(self, asked: ApplyBody) -> dict[str, Any]:
        """Apply the change; returns the steps done, and why the next step was refused, if any.
        Raises SlotQError if no step was done."""
        if asked.adds:
            raise InvalidRequest("a job without a request cannot be submitted: use Submit")
        if asked.more:
            raise InvalidRequest("slots for a time are only asked: buy them, then change the pool")
        queue, change = ForecastInput.of(self._queue.service.scenario()), self._change(asked)
        if queue.revision != asked.revision:
            raise Outdated(
                "the configuration has changed since you asked: look at the answer again"
            )
        after = changed(queue, change)
        document = written(after.settings) if queue.settings != after.settings else None
        done: list[str] = []
        for said, do in putting.steps(self._queue, change, document, queue.revision):
            try:
                do()
            except SlotQError as error:
                if not done:
                    raise
                return {"done": done, "refused": str(error)}
            done.append(said)
        return {"done": done, "refused": ""}

    def _change(self, asked: WhatIfBody) -> WhatIfChange:
        return WhatIfChange(
            pools=asked.pools,
            more={name: MoreSlots.read(name, text) for name, text in asked.more.items()},
            quotas={
                name: _value(name, text, "slots, or a mapping such as {p5: 3}")
                for name, text in asked.quotas.items()
            },
            settings={
                path: _value(path, text, "a value as in the configuration")
                for path, text in asked.settings.items()
            },
            priorities={name: priority_of(text) for name, text in asked.priorities.items()},
            moves={name: tuple(pools) for name, pools in asked.moves.items()},
            cancels=tuple(asked.cancels),
            holds=tuple(asked.holds),
            releases=tuple(asked.releases),
            submits=self._new(asked.adds),
        )

    def _new(self, added: list[AddedBody]) -> tuple[NewJob, ...]:
        if not added:
            return ()
        me = self._queue.service.me()
        return tuple(
            described(
                me,
                name=job.name,
                slots=job.slots,
                pool=job.pool,
                priority=priority_of(job.priority) if job.priority.strip() else None,
                project=job.project,
            )
            for job in added
        )


def _touched(asked: WhatIfBody) -> set[str]:
    """The jobs that the change names."""
    added = (job.name for job in asked.adds)
    names = (asked.priorities, asked.moves, asked.cancels, asked.holds, asked.releases, added)
    return {name for part in names for name in part}


def in_words(view: WhatIfView) -> dict[str, Any]:
    """The answer as the terminal prints it. Rows in the order of `now` and `timeline`."""
    begin = from_iso(view.at)
    return {
        "head": answer.head(view),
        "quiet": answer.QUIET,
        "same": answer.same(view),
        "now": [
            {"before": answer.state(row.before), "after": answer.state(row.after)}
            for row in view.now
        ],
        "timeline": [
            {
                "event": answer.EVENTS[row.event],
                "before": answer.moment(row.before, begin),
                "after": answer.moment(row.after, begin),
            }
            for row in view.timeline
        ],
        "worlds": [
            {
                "project": row.project,
                "before": answer.world(row.before),
                "after": answer.world(row.after),
            }
            for row in view.worlds
        ],
        "costs": [
            {
                "pool": row.pool,
                "kind": row.kind,
                "before": answer.cost(row.before),
                "after": answer.cost(row.after),
            }
            for row in answer.costs_and_total(view)
        ],
        "prices": view.prices,
        "partial": [*answer.partial(view)],
    }


def _diff(queue: ForecastInput, after: ForecastInput) -> str:
    """The change of the configuration, as `slotq whatif --diff` prints it; empty: it stays."""
    changes = compared_documents(written(queue.settings), written(after.settings))
    lines = diff_lines(changes, old=f"queue (revision {queue.revision})", new="what if")
    return "".join(f"{line}\n" for line in lines)


def priority_of(text: str) -> int | str:
    """A number or a class. Raises InvalidRequest."""
    priority = text.strip()
    if not _NUMBER.fullmatch(priority):
        return priority
    if abs(int(priority)) > PRIORITY_LIMIT:
        raise InvalidRequest(f"a priority is from {-PRIORITY_LIMIT:,} to {PRIORITY_LIMIT:,}")
    return int(priority)


def _value(name: str, text: str, what: str) -> object:
    """Raises InvalidRequest. Anchors are refused: a few could make a very large document."""
    try:
        if not {"&", "*"}.intersection(text):
            return yaml.safe_load(text)
    except NOT_YAML:
        pass
    raise InvalidRequest(f"{name}={text}: give {what}")


HOURS = 24
KEPT = 20.0
"""Seconds for which one forecast serves all jobs: it reads the whole queue."""


class StartBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    job: str


class Starts:
    def __init__(self, service: ServiceCalls, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds."""
        self._service, self._clock = service, clock
        self._kept: tuple[float, Forecast] | None = None
        self._lock = threading.Lock()

    def answer(self, asked: StartBody) -> dict[str, Any]:
        """The job's next start (`starts`, null: not within `hours`), seen from `at`. `known`:
        whether the forecast has the job; `at_most`: whether the forecast uses a request's time
        limit, so that the start may be earlier. Raises SlotQError."""
        found = self._forecast()
        queue = found.queue
        starts = [
            event.t
            for event in found.record.events
            if event.job == asked.job and event.event == "start" and event.t >= queue.at
        ]
        sources = {found.runtimes.total(job, queue)[1] for job in queue.jobs}
        return {
            "at": iso(queue.at),
            "hours": HOURS,
            "known": queue.job(asked.job) is not None,
            "starts": iso(min(starts)) if starts else None,
            "at_most": bool(sources & {Source.MAX_RUNTIME, Source.DEFAULT}),
        }

    def _forecast(self) -> Forecast:
        with self._lock:  # Views that ask at once share one reckoning.
            if self._kept is None or self._clock() - self._kept[0] > KEPT:
                queue = ForecastInput.of(self._service.scenario())
                self._kept = self._clock(), forecast(queue, hours=HOURS, runtimes=Runtimes())
            return self._kept[1]
