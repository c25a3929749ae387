"""The demo's story and its expected results, as data.

Two slots and four jobs, twenty seconds apart. A training step is one second of the story, and the
demo plays `speed` steps per second.
"""

from __future__ import annotations

from dataclasses import dataclass

POOL = "p5"
SLOTS = 2
INSTANCE_TYPE = "ml.p5.48xlarge"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoryMoment:
    """When the story goes on."""

    at: int
    """The earliest time, in seconds of the story."""
    after: dict[str, str]
    """The states that jobs must have reached."""
    after_checkpoint: bool = False
    """Whether to wait until EVICTED has a checkpoint to resume from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoryJob(StoryMoment):
    """One job of the story, submitted at its moment."""

    name: str
    priority: int
    steps: int


PARTS = (
    StoryJob(name="job1", at=0, priority=1, steps=300, after={}),
    StoryJob(name="job2", at=20, priority=2, steps=100, after={"job1": "running"}),
    StoryJob(
        name="job3", at=40, priority=1, steps=100, after={"job1": "running", "job2": "running"}
    ),
    StoryJob(
        name="job4",
        at=60,
        priority=3,
        steps=200,
        after={"job1": "running", "job2": "running", "job3": "pending"},
        after_checkpoint=True,
    ),
)

EVICTION = StoryMoment(at=60, after={"job1": "preempted", "job4": "running"})
"""No job ends before this moment, however slow the machine is."""

STARTS = (("job1", 1), ("job2", 1), ("job4", 1), ("job1", 2), ("job3", 1))
"""Jobs and attempts, in the order in which they must run."""
EVICTED = "job1"
FOR = "job4"

EXPLANATIONS = {
    "job1": "a slot is free, so it starts",
    "job2": "the other slot is free, so it starts",
    "job3": "no slot is free and no running job has a lower priority, so it waits",
    "job4": "no slot is free, so job1, the running job of lowest priority, is evicted for it",
}
