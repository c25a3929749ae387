"""The groups that users have submitted.

A group exists from the moment that its record is kept. Before, its submission is an opening: its
members are stored, and wait for the group's entry (`model.groups.entry_of`). After, they enter
their lines, and then the opening is closed. Whoever finds an opening can finish the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slotq_core.model.groups import Opening, StoredGroup


class Groups(Protocol):
    """The records and the openings. Every read is strongly consistent. Methods may raise
    Unavailable."""

    def get(self, name: str) -> StoredGroup | None: ...

    def open(self, name: str, *, digest: str, now: int) -> None:
        """Begin a submission, or begin the same one again. Raises Conflict while another one of
        that name is open, or this one is being withdrawn."""

    def keep(self, stored: StoredGroup) -> None:
        """Store the record. Raises Conflict if there is one, or if the submission is not open or is
        being withdrawn."""

    def openings(self) -> Sequence[Opening]:
        """All openings, in any order."""

    def withdraw(self, opening: Opening) -> None:
        """Make sure that the record is never kept. Raises Conflict if it has been, or if the
        submission was begun again since the opening was read."""

    def meet(self, name: str, *, job: str) -> None:
        """Note that this job has reached the goal of the sweep. A later note replaces it."""

    def close(self, name: str) -> None:
        """Forget the opening."""
