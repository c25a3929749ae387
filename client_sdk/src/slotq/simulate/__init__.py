"""The policy on a virtual clock: `slotq simulate`.

scenario  the file: read and checked
run       the world on a virtual clock, and its record
report    what the file expects and the run does not show
plot      the run as a picture
whatif    a queue as it stands, with a change and without

See docs/simulate.md.
"""

from slotq.errors import ScenarioError
from slotq.simulate.run.engine import simulate
from slotq.simulate.run.record import Record, RecordedEvent
from slotq.simulate.scenario.scenario import Scenario, load

__all__ = ["Record", "RecordedEvent", "Scenario", "ScenarioError", "load", "simulate"]
