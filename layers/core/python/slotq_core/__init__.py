"""The core of SlotQ: a priority queue in front of SageMaker training.

Start at `policy.cycle`, the whole policy on one screen.
"""

__version__ = "0.1.0"
