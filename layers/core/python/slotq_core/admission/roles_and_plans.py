"""The execution roles and training plans that a submission may name, and who may name them.

The queue passes the role to SageMaker with its own right, not the caller's. So admission checks the
caller's choice; otherwise a user could run code under a role that the user may not pass. The same
holds for a training plan, which is paid, reserved capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slotq_core.errors import InvalidRequest, PlanNotAllowed, RoleNotAllowed
from slotq_core.model.callers import fits
from slotq_core.model.pools import Pool

ROLE_FIELD = "RoleArn"
PLAN_FIELD = "ResourceConfig.TrainingPlanArn"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutionRoles:
    """The execution roles that training jobs may run under."""

    allowed: tuple[str, ...] | None = None
    """The roles' ARNs; None: any role, as in the emulator, where roles grant nothing."""
    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Patterns of callers' ARNs, by role ARN; one must match, and `*` matches any text. A role that
    is not listed is open to every caller."""

    def check(self, role: str, *, submitter: str) -> None:
        """Check that the submitter may name the role. Raises RoleNotAllowed, listing the roles that
        the caller may name."""
        if self.allowed is None:
            return
        open_to_them = [rule for rule in self.allowed if self._is_for(rule, submitter)]
        if role in open_to_them:
            return
        choice = ", ".join(open_to_them) or "none at all"
        asked = f"'{role[:200]}' is not a role" if role else "there is no role"
        raise RoleNotAllowed(
            f"{asked} that you may use in this queue; you may use: {choice}",
            field=ROLE_FIELD,
        )

    def check_nodes(self, before: Iterable[Pool], after: Iterable[Pool]) -> None:
        """Check the roles that pools give jobs that name none, where a change sets them. Raises
        InvalidRequest."""
        known = {pool.nodes.role for pool in before if pool.nodes}
        for pool in after:
            role = pool.nodes.role if pool.nodes else ""
            if role and self.allowed is not None and role not in {*self.allowed, *known}:
                choice = ", ".join(self.allowed) or "none at all"
                raise InvalidRequest(
                    f"pool '{pool.name}': nodes.role '{role}' is not a role that this queue may "
                    f"use; it may use: {choice}",
                    field="nodes.role",
                )

    def _is_for(self, role: str, submitter: str) -> bool:
        patterns = self.users.get(role)
        return patterns is None or any(fits(pattern, submitter) for pattern in patterns)


ANY_ROLE = ExecutionRoles()


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingPlans:
    """The training plans that jobs may use."""

    allowed: tuple[str, ...] | None = None
    """The plans' ARNs; None: any plan, as in the emulator, where plans reserve nothing."""

    def check(self, plan: str) -> None:
        """Raises PlanNotAllowed, listing the allowed plans. An empty plan is always allowed."""
        if not plan or self.allowed is None or plan in self.allowed:
            return
        choice = ", ".join(self.allowed) or "none at all"
        raise PlanNotAllowed(
            f"'{plan[:200]}' is not a training plan that this queue may use; it may use: {choice}",
            field=PLAN_FIELD,
        )

    def check_pools(self, before: Iterable[Pool], after: Iterable[Pool]) -> None:
        """Check the plans of pools, where a change sets them. Raises InvalidRequest."""
        known = {"", *(self.allowed or ()), *(pool.plan_arn for pool in before)}
        for pool in after:
            if self.allowed is not None and pool.plan_arn not in known:
                raise InvalidRequest(
                    f"pool '{pool.name}': this queue may not start jobs on the training plan "
                    f"'{pool.plan_arn}': add it to the stack's parameter TrainingPlanArns first",
                    field="plan_arn",
                )


ANY_PLAN = TrainingPlans()
