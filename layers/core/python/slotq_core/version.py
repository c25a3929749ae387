"""The version of SlotQ that this is."""

__version__ = "0.2.0"
