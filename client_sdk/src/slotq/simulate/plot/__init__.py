"""A run as a picture. Needs matplotlib.

picture  the whole picture
panels   a pool over time, and the jobs
scales   curves, colours and the axis of time
"""

from slotq.simulate.plot.picture import KINDS, save

__all__ = ["KINDS", "save"]
