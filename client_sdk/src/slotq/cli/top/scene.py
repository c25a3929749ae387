"""What `slotq top` shows at one moment, and what a key changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from slotq_core.model.jobs import TERMINAL_STATES, JobState
from slotq_core.wire.setting_tags import PRIORITY_LIMIT

if TYPE_CHECKING:
    from slotq_core.wire.views.jobs import JobView
    from slotq_core.wire.views.pools import PoolView

LIVING = tuple(state.value for state in JobState if state not in TERMINAL_STATES)
"""The states of the jobs to fetch."""
PAGE = 10
"""Jobs that PgUp and PgDn move by."""


class Mode(StrEnum):
    """What the keys mean now."""

    BROWSE = "browse"
    CANCEL = "cancel"
    """Asks for confirmation to cancel the chosen job."""
    PRIORITY = "priority"
    """Takes a new priority for the chosen job."""
    HELP = "help"


@dataclass(frozen=True, kw_only=True, slots=True)
class TopRequest:
    """What the user wants done to a job."""

    verb: str
    """`cancel`, `hold`, `release` or `priority`."""
    job: str
    priority: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """All that is drawn, except the time and the screen's size."""

    pools: tuple[PoolView, ...] = ()
    projects: tuple[str, ...] = ()
    """The projects whose jobs are shown; empty: all jobs are."""
    jobs: tuple[JobView, ...] = ()
    """The jobs that have not ended, in the order of the queue."""
    chosen: str = ""
    """The name of the job that the keys act on; empty without jobs."""
    mode: Mode = Mode.BROWSE
    typed: str = ""
    """The digits of a priority typed so far."""
    said: str = ""
    """The result of the last request."""
    failed: bool = False
    """Whether the last request failed."""
    quits: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether the jobs are of several projects."""
        return len({job.project for job in self.jobs}) > 1

    @property
    def job(self) -> JobView | None:
        """The chosen job."""
        return next((job for job in self.jobs if job.name == self.chosen), None)

    @property
    def at(self) -> int:
        """The index of the chosen job among the jobs; 0 without a chosen job."""
        return next((n for n, job in enumerate(self.jobs) if job.name == self.chosen), 0)


def seen(scene: Scene, pools: Sequence[PoolView], jobs: Sequence[JobView]) -> Scene:
    """The scene with the queue's latest answer. The chosen job stays chosen while it is listed;
    then the job in its place is chosen."""
    names = [job.name for job in jobs]
    chosen = scene.chosen
    if chosen not in names:
        chosen = names[min(scene.at, len(names) - 1)] if names else ""
    after = replace(scene, pools=tuple(pools), jobs=tuple(jobs), chosen=chosen)
    gone = scene.mode in {Mode.CANCEL, Mode.PRIORITY} and chosen != scene.chosen
    if gone:
        return with_message(browsing(after), f"{scene.chosen} has ended", failed=True)
    return after


def with_message(scene: Scene, said: str, *, failed: bool = False) -> Scene:
    return replace(scene, said=said, failed=failed)


def browsing(scene: Scene) -> Scene:
    return replace(scene, mode=Mode.BROWSE, typed="")


def press(scene: Scene, key: str) -> tuple[Scene, TopRequest | None]:
    """The scene after a key, and the request that the key makes, if any."""
    if scene.mode is Mode.CANCEL:
        return _confirming(scene, key)
    if scene.mode is Mode.PRIORITY:
        return _typing(scene, key)
    if scene.mode is Mode.HELP:
        return replace(browsing(scene), quits=key == "q"), None
    return _browsing(replace(scene, said="", failed=False), key)


def _browsing(scene: Scene, key: str) -> tuple[Scene, TopRequest | None]:
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -PAGE, "pagedown": PAGE}
    far = {"home": -len(scene.jobs), "g": -len(scene.jobs), "end": len(scene.jobs)}
    if key in steps or key in far:
        return _moved(scene, steps.get(key, 0) or far.get(key, 0)), None
    if key == "q":
        return replace(scene, quits=True), None
    if key in {"?", "f1"}:
        return replace(scene, mode=Mode.HELP), None
    if key in {"c", "h", "+", "=", "-", "p"}:
        return _acting(scene, key) if scene.job else (with_message(scene, "no job is chosen"), None)
    return scene, None


def _moved(scene: Scene, by: int) -> Scene:
    if not scene.jobs:
        return scene
    at = max(0, min(len(scene.jobs) - 1, scene.at + by))
    return replace(scene, chosen=scene.jobs[at].name)


def _acting(scene: Scene, key: str) -> tuple[Scene, TopRequest | None]:
    job = scene.job
    assert job is not None
    if key == "c":
        return replace(scene, mode=Mode.CANCEL), None
    if key == "p":
        return replace(scene, mode=Mode.PRIORITY, typed=""), None
    if key == "h":
        verb = "release" if job.state == JobState.HELD else "hold"
        return _requesting(scene, TopRequest(verb=verb, job=job.name))
    priority = job.priority + (-1 if key == "-" else 1)
    return _requesting(scene, TopRequest(verb="priority", job=job.name, priority=priority))


def _confirming(scene: Scene, key: str) -> tuple[Scene, TopRequest | None]:
    if key == "y":
        return _requesting(scene, TopRequest(verb="cancel", job=scene.chosen))
    return with_message(browsing(scene), f"{scene.chosen} is not cancelled"), None


def _typing(scene: Scene, key: str) -> tuple[Scene, TopRequest | None]:
    if key == "escape":
        return with_message(browsing(scene), "the priority stays"), None
    if key == "backspace":
        return replace(scene, typed=scene.typed[:-1]), None
    if key == "enter":
        return _typed(scene)
    number = key.isdecimal() or (key == "-" and not scene.typed)
    room = len(scene.typed) < len(str(-PRIORITY_LIMIT))
    return (replace(scene, typed=scene.typed + key) if number and room else scene), None


def _typed(scene: Scene) -> tuple[Scene, TopRequest | None]:
    if not scene.typed.lstrip("-"):
        return with_message(browsing(scene), "the priority stays"), None
    priority = int(scene.typed)
    if abs(priority) > PRIORITY_LIMIT:
        limit = f"a priority ranges from {-PRIORITY_LIMIT:,} to {PRIORITY_LIMIT:,}"
        return with_message(browsing(scene), limit, failed=True), None
    return _requesting(scene, TopRequest(verb="priority", job=scene.chosen, priority=priority))


def _requesting(scene: Scene, request: TopRequest) -> tuple[Scene, TopRequest]:
    return with_message(browsing(scene), f"{request.verb} {request.job} …"), request
