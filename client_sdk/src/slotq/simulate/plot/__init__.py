"""A run as a picture: the pools over time, and below them its jobs (`slotq simulate --plot`).

The only part that needs matplotlib, which `slotq[plot]` brings.
"""

from slotq.simulate.plot.picture import KINDS, save

__all__ = ["KINDS", "save"]
