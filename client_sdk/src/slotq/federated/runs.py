"""The runs of a federated job: each submission of the folder is one, under a name of its own.

The first run has the job's name, the next ones `NAME-r2`, `NAME-r3` …, as other jobs that are
submitted again. The queue takes a group with a known name and body for a repeated request; so each
submission carries an id in its members' environment, which a repeated request has, too. A retry
after a lost answer makes no second run, and two submissions at the same moment are two runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, islice
from typing import Any

from slotq.federated.meta import Meta
from slotq_core import names
from slotq_core.wire.resubmission import MOST_NAMES, next_names

RUN = "SLOTQ_RUN"
"""Environment variable of each member: the id of the submission."""


def runs_of(meta: Meta, taken: Collection[str]) -> list[str]:
    """The names to try for a new run, in order. `taken`: names of groups that exist."""
    room = names.LONGEST - max(len(name) - len(meta.name) for name in meta.members.values())
    every = chain([meta.name], next_names(meta.name, longest=room))
    return [*islice((name for name in every if name not in taken), MOST_NAMES)]


def marked(members: Iterable[Mapping[str, Any]], run: str | None) -> list[dict[str, Any]]:
    """The members with the id of this submission; None: without one."""
    if run is None:
        return [dict(member) for member in members]
    return [
        {**member, "Environment": {**(member.get("Environment") or {}), RUN: run}}
        for member in members
    ]
