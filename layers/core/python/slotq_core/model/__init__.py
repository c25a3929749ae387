"""The words of SlotQ as data: frozen, keyword-only, without behaviour beyond arithmetic.

Every time is a whole number of milliseconds since the epoch (in a simulation: since its start), and
every duration a whole number of milliseconds, so that equal moments compare equal on every path.
Seconds and ISO 8601 exist only at the edges (`wire`, the adapters, the scenario loader).

Each kind of thing has its module; a name is imported from there, and from nowhere else.
"""
