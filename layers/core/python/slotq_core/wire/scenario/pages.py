"""The pages of the queue snapshot, written and read back. The first page is a queue by itself, the
others hold its further jobs.

All pages show one state of the queue. Each page reads the store again, so a cursor carries a digest
of the earlier pages; after a decision that changes them, the caller starts again with the first
page. The first page has the number of jobs that it leaves out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Any, Self

from slotq_core import names
from slotq_core.errors import InvalidRequest, Outdated
from slotq_core.model.attempts import Attempt, StopOrder
from slotq_core.model.capacity.plans import PlanFacts, PlanStatus, PlanWindow
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import FailedNodes, MissingRight, PoolHealth, WarmSlot
from slotq_core.model.projects import EVERYWHERE, NO_PAST_USE, NOTHING_SPENT, PastUse, Spending
from slotq_core.model.sharing import Settings
from slotq_core.model.snapshot import QueueSnapshot
from slotq_core.model.users import Yielded
from slotq_core.timestamps import from_iso, milliseconds
from slotq_core.wire.scenario.views import (
    PastUseView,
    ScenarioView,
    SnapshotAttemptView,
    SnapshotGroupView,
    SnapshotJobView,
    SnapshotNodeView,
    SnapshotWarmView,
    SpentView,
    YieldedView,
    scenario_view,
)
from slotq_core.wire.views.forms import record_of
from slotq_core.wire.views.pools import PlanView, PoolHealthView

_CURSOR = re.compile(r"([0-9a-f]{12})~([0-9]{1,7})")
_FRAME = 200
"""Bytes of a page besides what is measured: the cursor, and the names of its lists."""

Part = SnapshotJobView | SnapshotGroupView | YieldedView


@dataclass(frozen=True, kw_only=True, slots=True)
class ScenarioCursor:
    """A position in the pages of one queue."""

    digest: str
    """Of the queue (`digest_of`)."""
    start: int
    """How many parts the pages before have shown."""

    def text(self) -> str:
        return f"{self.digest}~{self.start}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidRequest if no page has answered this."""
        found = _CURSOR.fullmatch(text)
        if found is None:
            raise InvalidRequest("next takes what the page before answered as next", field="next")
        return cls(digest=found[1], start=int(found[2]))


def digest_of(queue: QueueSnapshot, revision: int) -> str:
    """A digest of what users and passes have decided. Reports and passing time do not change it."""
    jobs = sorted(
        (
            job.name,
            job.entry_time,
            job.state.value,
            job.attempts,
            job.priority,
            job.project,
            job.pools,
            job.claim.pool if job.claim else "",
        )
        for job in queue.jobs
    )
    return hashlib.sha256(repr((revision, jobs)).encode()).hexdigest()[:12]


def scenario_page(
    queue: QueueSnapshot,
    settings: Settings,
    revision: int,
    after: ScenarioCursor | None = None,
    *,
    most: int,
) -> ScenarioView:
    """A page of at most `most` bytes as JSON without defaults, with at least one part. `after`: the
    cursor from the page before; None: the first page, which alone has the configuration, the pools
    and the sums of use. Raises Outdated if the queue has changed since the page before."""
    digest, start = digest_of(queue, revision), after.start if after else 0
    if after is not None and after.digest != digest:
        raise Outdated("the queue has changed between two pages; begin with the first again")
    whole = scenario_view(queue, settings, revision)
    parts = [*_parts(whole)]
    page = _with(whole, [])
    if after is not None:
        page = page.model_copy(
            update={
                "configuration": {},
                "pools": [],
                "nodes": [],
                "warm": [],
                "spent": None,
                "past_use": None,
            }
        )
    sizes = accumulate((_size(part) + 1 for part in parts[start:]), initial=_size(page) + _FRAME)
    fitting = sum(1 for _ in takewhile(most.__ge__, sizes)) - 1
    end = start + max(fitting, 1)
    left = sum(isinstance(part, SnapshotJobView) for part in parts[end:])
    following = ScenarioCursor(digest=digest, start=end).text() if parts[end:] else None
    return _with(page, parts[start:end], left_out=queue.left_out + left, next=following)


def _parts(view: ScenarioView) -> Iterator[Part]:
    """The parts of pages: the yields, and the jobs in their order, each behind its group."""
    yield from view.yields
    groups = {group.name: group for group in view.groups}
    for job in view.jobs:
        if job.group in groups:
            yield groups.pop(job.group)
        yield job
    yield from groups.values()


def _with(view: ScenarioView, parts: list[Part], **more: Any) -> ScenarioView:
    return view.model_copy(
        update={
            "jobs": [part for part in parts if isinstance(part, SnapshotJobView)],
            "groups": [part for part in parts if isinstance(part, SnapshotGroupView)],
            "yields": [part for part in parts if isinstance(part, YieldedView)],
            **more,
        }
    )


def _size(view: ScenarioView | Part) -> int:
    return len(view.model_dump_json(exclude_defaults=True).encode())


# Reading it back.


def job_of(view: SnapshotJobView) -> Job:
    return record_of(
        view,
        Job,
        person=view.user,
        claim=record_of(view.claim, Claim) if view.claim else None,
        attempt=_attempt(view.name, view.attempt) if view.attempt else None,
    )


def _attempt(job: str, view: SnapshotAttemptView) -> Attempt:
    return record_of(
        view,
        Attempt,
        training_job=names.training_job_name(job, view.number),
        token="",  # an attempt's, and nobody starts it from here # nosec B106
        stop=record_of(view.stop, StopOrder) if view.stop else None,
    )


def health_of(view: PoolHealthView | None) -> PoolHealth:
    if view is None:
        return PoolHealth()
    rights = tuple(record_of(missing, MissingRight) for missing in view.missing_rights)
    failed = tuple(record_of(nodes, FailedNodes) for nodes in view.failed_nodes)
    plan = _plan(view.plan) if view.plan else None
    starts = tuple(map(milliseconds, view.starts))
    return record_of(
        view,
        PoolHealth,
        missing_rights=rights,
        failed_nodes=failed,
        plan=plan,
        starts=starts,
    )


def _plan(view: PlanView) -> PlanFacts:
    windows = tuple(record_of(window, PlanWindow) for window in view.windows)
    return record_of(view, PlanFacts, status=PlanStatus(view.status), windows=windows)


def node_of(view: SnapshotNodeView) -> Node:
    return record_of(
        view,
        Node,
        state=NodeState(view.state),
        training_job="",
        token="",  # a node's, and nobody starts it from here # nosec B106
        created=True,
    )


def warm_slots_of(views: Iterable[SnapshotWarmView]) -> tuple[WarmSlot, ...]:
    """The warm slots, which have numbers for names."""
    return tuple(
        record_of(
            view,
            WarmSlot,
            training_job=f"warm-{number:05}",
            job="",
            number=0,
            reused_by="a training job outside the queue" if view.reused else "",
        )
        for number, view in enumerate(views)
    )


def group_of(view: SnapshotGroupView) -> Group:
    return record_of(view, Group)


def yielded_of(view: YieldedView) -> Yielded:
    return record_of(view, Yielded)


def spending_of(view: SpentView | None) -> Spending:
    if view is None:
        return NOTHING_SPENT
    return Spending(
        month=from_iso(view.month),
        slot_ms={name: milliseconds(duration) for name, duration in view.slot_seconds.items()},
        warned=frozenset(view.warned),
    )


def past_use_of(view: PastUseView | None) -> PastUse:
    if view is None:
        return NO_PAST_USE
    return PastUse(
        at=from_iso(view.at),
        by_pool=EVERYWHERE not in view.parts,
        parts=view.parts,
        slot_seconds=view.slot_seconds,
        users=view.users,
        user_slot_seconds=view.user_slot_seconds,
    )


def durations_of(views: Mapping[str, float | None]) -> dict[str, int]:
    """The durations that are known, in milliseconds."""
    return {
        name: milliseconds(duration) for name, duration in views.items() if duration is not None
    }
