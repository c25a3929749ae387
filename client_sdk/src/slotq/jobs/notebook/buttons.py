"""Buttons below a card, where ipywidgets is installed: hold or release the job, cancel it.

A press acts on the job with the caller's own client, as the method of that name does. Cancel wants
a second press, because a card is easily hit and what a job has not saved would be lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from slotq.errors import SlotQError
from slotq.jobs.follow import ended
from slotq.jobs.job_calls import JobCalls
from slotq.jobs.rendering import clean
from slotq_core.model.jobs import ACTIVE_STATES, JobState
from slotq_core.wire.views.jobs import JobView

SURE = 10.0
"""Seconds within which the second press on cancel must come."""
_CANCEL, _SURE = "Cancel", "Cancel: sure?"


class Buttons:
    def __init__(
        self,
        job: JobView,
        jobs: JobCalls,
        on_change: Callable[[JobView], None],
        *,
        widgets: Any,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change` receives the job after each verb. `widgets`: the module ipywidgets."""
        self._job, self._jobs, self._on_change, self._clock = job, jobs, on_change, clock
        self._asked_at: float | None = None
        self.hold = widgets.Button(description="Hold", tooltip="It shall not start")
        self.release = widgets.Button(description="Release", tooltip="It may start again")
        self.cancel = widgets.Button(description=_CANCEL, tooltip="It ends and does not run again")
        self.trouble = widgets.Label()
        self.hold.on_click(lambda _: self._do(jobs.hold))
        self.release.on_click(lambda _: self._do(jobs.release))
        self.cancel.on_click(lambda _: self._cancel())
        self.box = widgets.HBox()
        self.update(job)

    def update(self, job: JobView) -> None:
        """Offer what the job's state allows; nothing once it has ended."""
        self._job = job
        if ended(job):
            self.box.close()
            return
        offered = []
        if job.state == JobState.HELD:
            offered = [self.release]
        elif job.state not in ACTIVE_STATES:
            offered = [self.hold]
        children = (*offered, self.cancel, self.trouble)
        if children != self.box.children:
            self.box.children = children

    def _cancel(self) -> None:
        now = self._clock()
        if self._asked_at is None or now - self._asked_at > SURE:
            self._asked_at, self.cancel.description = now, _SURE
            return
        self._do(self._jobs.cancel)

    def _do(self, verb: Callable[[str], JobView]) -> None:
        self._asked_at, self.cancel.description = None, _CANCEL
        try:
            job = verb(self._job.name)
        except SlotQError as error:
            self.trouble.value = clean(error)
            return
        self.trouble.value = ""
        self._on_change(job)


def buttons_of(
    job: JobView, jobs: JobCalls, on_change: Callable[[JobView], None]
) -> Buttons | None:
    """The buttons for a card; None where ipywidgets is not installed."""
    if find_spec("ipywidgets") is None:
        return None
    return Buttons(job, jobs, on_change, widgets=import_module("ipywidgets"))
