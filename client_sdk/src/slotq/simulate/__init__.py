"""The policy on a virtual clock: `slotq simulate` (DESIGN 6.2)."""

from slotq.errors import ScenarioError
from slotq.simulate.run.engine import simulate
from slotq.simulate.run.record import Event, Record
from slotq.simulate.scenario.scenario import Scenario, load

__all__ = ["Event", "Record", "Scenario", "ScenarioError", "load", "simulate"]
