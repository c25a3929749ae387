"""When waiting jobs will probably start: the queue as it stands, reckoned on by the simulator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

from slotq.calls.service_calls import ServiceCalls
from slotq.simulate.whatif import Told, forecast
from slotq.simulate.whatif.forecast import Forecast, Runtimes, Source
from slotq_core.timestamps import iso

HOURS = 24
KEPT = 20.0
"""Seconds for which one reckoning answers for all jobs: it costs a reading of the whole queue."""


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
        """When the job starts next (`starts`, null: not within `hours`), seen from `at`. `known`:
        whether the reckoning has the job; `at_most`: whether a running time is only the longest
        that a request allows, so that it will rather be earlier. Raises SlotQError."""
        found = self._forecast()
        told = found.told
        starts = [
            each.t
            for each in found.record.events
            if each.job == asked.job and each.event == "start" and each.t >= told.at
        ]
        sources = {found.runtimes.total(job, told)[1] for job in told.jobs}
        return {
            "at": iso(told.at),
            "hours": HOURS,
            "known": told.job(asked.job) is not None,
            "starts": iso(min(starts)) if starts else None,
            "at_most": bool(sources & {Source.MAX_RUNTIME, Source.DEFAULT}),
        }

    def _forecast(self) -> Forecast:
        with self._lock:  # Views that ask at once share one reckoning.
            if self._kept is None or self._clock() - self._kept[0] > KEPT:
                told = Told.of(self._service.scenario())
                self._kept = self._clock(), forecast(told, hours=HOURS, runtimes=Runtimes())
            return self._kept[1]
