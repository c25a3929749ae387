"""A run as a picture. Needs matplotlib.

picture    the whole picture
pool_area  a pool over time
job_rows   jobs over time
curves     amounts over time as curves
palette    colours
times      lengths of time
"""

from slotq.simulate.plot.picture import KINDS, save

__all__ = ["KINDS", "save"]
