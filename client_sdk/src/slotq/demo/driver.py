"""Runs the demo from its first line to its last."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

from slotq.client import QueueClient
from slotq.demo.evidence import Evidence
from slotq.demo.play import Player
from slotq.demo.proof import checks
from slotq.demo.screen import ConsoleScreen, heading, timeline, verdict
from slotq.demo.sdk import quiet
from slotq.demo.story import EVICTED, INSTANCE_TYPE, POOL, SLOTS
from slotq.demo.world import emulator


def run(console: Console, *, speed: float) -> bool:
    """Play the story. Returns whether every check held. Cleans up, after Ctrl-C too."""
    console.print(f"Pool {POOL} has {SLOTS} slots. One second here is {speed:g} s of the story.")
    with _terminated_as_interrupted(), quiet(), emulator(f"{POOL}={SLOTS}@{INSTANCE_TYPE}") as aws:
        evidence = Evidence(EVICTED, aws.bucket)
        screen = ConsoleScreen(console)
        player = Player(screen=screen, evidence=evidence, queue=QueueClient(), speed=speed)
        jobs = player.play()
        found = checks(jobs, evidence)
    console.print(heading("every attempt on one timeline"))
    console.print(timeline(jobs))
    console.print(heading("checks"))
    console.print(verdict(found))
    held = all(check.held for check in found)
    console.print("\nAll checks passed." if held else "\nA check failed.")
    return held


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Make SIGTERM end the demo as Ctrl-C does, with the same cleaning up."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
