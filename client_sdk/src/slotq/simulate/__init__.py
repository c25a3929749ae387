"""The policy on a virtual clock: `slotq simulate`.

scenario  the file: read and checked
run       the world on a virtual clock, and its record
report    expectations of the file that the run does not meet
plot      the run as a picture
whatif    the present queue, with a change and without

See docs/simulate.md.
"""

from slotq.errors import ScenarioError
from slotq.simulate.run.engine import simulate
from slotq.simulate.run.record import Record, RecordedEvent
from slotq.simulate.scenario.scenario import Scenario, load

__all__ = ["Record", "RecordedEvent", "Scenario", "ScenarioError", "load", "simulate"]
