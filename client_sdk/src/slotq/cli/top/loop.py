"""Keep a scene up to date. Requests to the queue run in the background, one at a time, so that keys
respond even while the queue is slow."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from slotq.cli.top.draw import Frame, lines
from slotq.cli.top.scene import LIVING, Scene, TopRequest, press, seen, with_message
from slotq.errors import SlotQError
from slotq.jobs.follow import Pace
from slotq.jobs.job_calls import MOST_AT_ONCE

if TYPE_CHECKING:
    from rich.text import Text

    from slotq.cli.top.keyboard import KeySource
    from slotq.client import QueueClient

AT_FIRST = 200
"""How many jobs to ask for, and how many more at the end of the list: they cost what is shown."""
KEY_PAUSE = 0.1
"""Seconds to wait for a key before updating the screen."""

Work = Callable[[], Any]


class Task:
    """Work in a thread that ends with the program."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._answer: Any = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answer = self._work()
        except Exception as error:  # noqa: BLE001 - raised by `answer`
            self._error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def answer(self) -> Any:
        """Wait for the work and return its result. Raises what the work raised."""
        self._thread.join()
        if self._error:
            raise self._error
        return self._answer


class TerminalScreen(Protocol):
    """A screen that shows lines."""

    def size(self) -> tuple[int, int]:
        """Columns and lines."""

    def show(self, drawn: list[Text]) -> None: ...


class Top:
    """One run of `slotq top`."""

    def __init__(
        self,
        client: QueueClient,
        screen: TerminalScreen,
        keys: KeySource,
        *,
        projects: tuple[str, ...] = (),
        every: float,
        clock: Callable[[], float],
        now: Callable[[], int],
        begin: Callable[[Work], Task] = Task,
    ) -> None:
        """`projects`: whose jobs are shown (none: all jobs); `clock` counts seconds; `now` returns
        the time of day (ms); `begin` starts work."""
        self._client, self._screen, self._keys = client, screen, keys
        self._every, self._clock, self._now, self._begin = every, clock, now, begin
        self._scene = Scene(projects=projects)
        self._requests: deque[TopRequest] = deque()
        self._task: Task | None = None
        self._request: TopRequest | None = None
        self._next_look = 0.0
        self._seen_at: float | None = None
        self._trouble = ""
        self._drawn: list[Text] = []
        self._pace, self._most, self._more = Pace(every), AT_FIRST, False

    def run(self) -> None:
        """Run until the user quits. Raises what the first look at the queue raises."""
        self._look_in(self._client_view())
        while not self._scene.quits:
            self._collect()
            self._start()
            self._draw()
            for key in self._keys.read(KEY_PAUSE):
                self._scene, request = press(self._scene, key)
                if request:
                    self._requests.append(request)
            self._ask_for_more()

    def _ask_for_more(self) -> None:
        """Ask for more jobs once the last known one is chosen."""
        known = len(self._scene.jobs)
        if self._more and self._scene.at == known - 1 and self._most == known < MOST_AT_ONCE:
            self._most, self._next_look = min(self._most + AT_FIRST, MOST_AT_ONCE), 0.0

    def _client_view(self) -> Any:
        projects = self._scene.projects
        if projects:
            return self._client.pools.view(), self._client.jobs(LIVING, project=projects)
        jobs = self._client.jobs(LIVING, limit=self._most, places=True)
        return self._client.pools.view(), jobs

    def _start(self) -> None:
        if self._task is not None:
            return
        if self._requests:
            self._request = request = self._requests.popleft()
            self._task = self._begin(lambda: self._carry_out(request))
        elif self._clock() >= self._next_look:
            self._task = self._begin(self._client_view)

    def _collect(self) -> None:
        """Take the result of the work in progress, if done."""
        if self._task is None or not self._task.done:
            return
        task, request = self._task, self._request
        self._task = self._request = None
        try:
            answer = task.answer()
        except SlotQError as error:
            self._failed(request, error)
        else:
            if request is None:
                self._look_in(answer)
            else:
                self._scene = with_message(self._scene, answer)
                self._next_look = 0.0

    def _failed(self, request: TopRequest | None, error: SlotQError) -> None:
        if request is not None:
            self._scene = with_message(
                self._scene, f"{request.verb} {request.job}: {error}", failed=True
            )
            self._next_look = 0.0
            return
        since = self._clock() - (self._seen_at or self._clock())
        self._trouble = f"as of {since:.0f} s ago; {error}"
        self._next_look = self._clock() + self._every

    def _look_in(self, answer: Any) -> None:
        configuration, jobs = answer
        self._scene = seen(self._scene, configuration.pools, jobs)
        self._seen_at, self._trouble = self._clock(), ""
        self._more = jobs.more
        self._next_look = self._clock() + self._pace.after(jobs, configuration)

    def _carry_out(self, request: TopRequest) -> str:
        """Carry out the request; returns the message to show."""
        match request.verb:
            case "cancel":
                job = self._client.jobs.cancel(request.job)
            case "hold":
                job = self._client.jobs.hold(request.job)
            case "release":
                job = self._client.jobs.release(request.job)
            case _:
                job = self._client.jobs.set_priority(request.job, request.priority)
                return f"{job.name}: priority {job.priority}"
        return f"{job.name}: {job.state}"

    def _draw(self) -> None:
        width, height = self._screen.size()
        frame = Frame(
            width=width,
            height=height,
            now=self._now() // 1000 * 1000,
            every=self._every,
            trouble=self._trouble,
        )
        drawn = lines(self._scene, frame)
        if drawn != self._drawn:
            self._screen.show(drawn)
            self._drawn = drawn
