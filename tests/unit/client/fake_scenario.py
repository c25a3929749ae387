"""The answer to GET /scenario of a small queue: two projects on one pool of three slots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import PoolHealth
from slotq_core.model.snapshot import QueueSnapshot
from slotq_core.timestamps import from_iso
from slotq_core.wire.document.contents import read
from slotq_core.wire.scenario.views import ScenarioView, scenario_view

AT = from_iso("2026-11-20T12:00:00.000Z")
MINUTE, HOUR = 60_000, 3_600_000
DOCUMENT: dict[str, Any] = {
    "pools": [{"name": "p5", "capacity": 3, "instance_type": "ml.p5.48xlarge"}],
    "projects": [
        {"name": "team-a", "quota": 1, "members": ["everyone"]},
        {"name": "team-b", "quota": 1, "members": ["everyone"]},
    ],
}


def job(name: str, *, running: int | None = None, **fields: Any) -> Job:
    """A job that waits since 11:00, or runs for so many ms."""
    attempt = None
    if running is not None:
        attempt = Attempt(
            number=1,
            training_job=name,
            token="",
            pool="p5",
            instance_type="ml.p5.48xlarge",
            admitted_at=AT - running,
            created=True,
            running_since=AT - running,
        )
    given = {
        "state": JobState.PENDING if attempt is None else JobState.RUNNING,
        "priority": 1,
        "entry_time": AT - HOUR,
        "changed_at": AT - HOUR,
        "demand": Demand(slots=1),
        "pools": ("p5",),
        "project": "team-a",
        "person": f"arn:aws:iam::123456789012:user/{fields.get('project', 'team-a')}",
        "attempts": 0 if attempt is None else 1,
        "attempt": attempt,
    }
    return Job(name=name, **{**given, **fields})


def fake_scenario(*more: Job, **fields: Any) -> ScenarioView:
    """bert, vit and llama run; resnet and whisper wait. bert says that it ends in half an hour."""
    settings = read(fields.pop("document", DOCUMENT))
    health = fields.pop("health", PoolHealth())
    jobs = (
        job("bert", running=2 * HOUR, priority=5),
        job("vit", running=HOUR, priority=5),
        job("llama", running=HOUR, priority=2, project="team-b"),
        job("resnet", priority=5),
        job("whisper", priority=1, project="team-b"),
        *more,
    )
    queue = QueueSnapshot(
        at=AT,
        pools=tuple(replace(pool, health=health) for pool in settings.pools),
        jobs=jobs,
        etas={"bert": 30 * MINUTE},
        limits=dict.fromkeys(("bert", "vit", "llama", "resnet", "whisper"), 6 * HOUR),
        **fields,
    )
    return scenario_view(queue, settings, 7)
