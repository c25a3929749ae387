"""The projects that hold more than they deserve in one scope, by who may reclaim from them.

Every turn asks for them, so the sets are kept, and an account that moves changes only its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set as AbstractSet

from slotq_core.model.demand import Demand
from slotq_core.model.projects import Department, Fairness
from slotq_core.policy.state.quotas.account import Account, Chain

Gives = tuple[bool, bool, bool, bool]
"""Whether a project is over its share and over its quota, and whether the top of its chain is."""


class Givers:
    """Sets of projects, each for one condition of the gate of reclaims (gate.py).

    The victim's project must be above its share, or above its quota while the reclaimer stays
    within its own. Both are asked where the two branches part: between departments where these
    differ, else between projects.

    See docs/policy-decisions.md#shares-and-reclaim.
    """

    def __init__(self) -> None:
        self._members: dict[str, set[str]] = defaultdict(set)
        """The projects below each account at the top of a chain, by the key of that account."""
        self._tops: dict[str, tuple[bool, bool]] = {}
        """The value of `Account.gives` of each of these accounts."""
        self._known: dict[str, Gives] = defaultdict(lambda: (False, False, False, False))
        self._by_share: set[str] = set()
        """Over their own share: they give within their department."""
        self._by_quota: set[str] = set()
        """Over their own quota: they give within their department to those within quota."""
        self._outside_by_share: set[str] = set()
        """These give to other departments."""
        self._outside_by_quota: set[str] = set()
        """These give to other departments that stay within quota."""
        self._in_full: set[str] = set()
        """These give even in-quota work to a department with full fairness."""

    def keep(self, project: str, chain: Chain) -> None:
        """Enter the project after a change of its accounts."""
        top, below = chain[-1], len(chain) > 1
        gives = top.gives()
        self._members[top.key].add(project)
        self._keep(project, chain[0].gives() + gives, below=below)
        if below and self._tops.get(top.key) != gives:
            self._tops[top.key] = gives
            for name in self._members[top.key]:
                self._keep(name, (*self._known[name][:2], *gives), below=below)

    def among(self, projects: AbstractSet[str], mine: Chain, demand: Demand) -> set[str]:
        """The projects among these from which a job may reclaim. `mine`: the job's accounts."""
        own, top = mine[0], mine[-1]
        branch = self._members[top.key]
        beside = projects & branch
        found = {*(projects & self._outside_by_share)}
        by_quota = projects & self._outside_by_quota
        if by_quota and top.in_quota(demand):
            found |= by_quota
        if is_full(top) and top.in_share(demand):
            found |= projects & self._in_full
        found -= beside
        found |= beside & self._by_share
        by_quota = beside & self._by_quota
        if by_quota and own.in_quota(demand):
            found |= by_quota
        found.discard(own.name)
        return found

    def _keep(self, project: str, gives: Gives, *, below: bool) -> None:
        if self._known[project] == gives:
            return
        self._known[project] = share, quota, top_share, top_quota = gives
        for projects, belongs in (
            (self._by_share, share),
            (self._by_quota, quota),
            (self._outside_by_share, top_share and (quota or not below)),
            (self._outside_by_quota, top_quota and (quota or not below)),
            (self._in_full, top_share and below),
        ):
            (projects.add if belongs else projects.discard)(project)


def is_full(top: Account) -> bool:
    """ "`full` lets a department below its share take in-quota work of a project whose department
    is above its own."
    """
    return isinstance(top.owner, Department) and top.owner.fairness is Fairness.FULL
