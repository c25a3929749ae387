"""Whether the training plans that a configuration names fit its pools. SageMaker is asked once
about each plan that a change sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from slotq_core.errors import InvalidRequest, Unavailable
from slotq_core.model.capacity.plans import PlanFacts
from slotq_core.model.pools import Pool
from slotq_core.model.reasons import units
from slotq_core.operations.training_plans.looks import described, with_plans
from slotq_core.ports.configuration import Health
from slotq_core.ports.training import SageMakerService
from slotq_core.wire.capacity.plan_windows import fault_in


class PlanChecks:
    """What SageMaker said of the plans, during one change of the configuration."""

    def __init__(self, training: SageMakerService, now: int) -> None:
        self._training, self._now = training, now
        self._asked: dict[str, PlanFacts | str] = {}

    def check(self, before: Iterable[Pool], after: Iterable[Pool]) -> None:
        """Raises InvalidRequest for a pool whose plan, set by this change, has another instance
        type, is over, or is not for training jobs. A pool whose plan is over may still shrink."""
        for pool in changed(before, after, but_sizes=True):
            said = self._facts(pool)
            if isinstance(said, PlanFacts) and (fault := fault_in(said, pool.instance_type)):
                raise InvalidRequest(f"pool '{pool.name}': {fault}", field="plan_arn")

    def warnings(self, before: Iterable[Pool], after: Iterable[Pool]) -> Iterator[str]:
        """Yield what the change's own plans are accepted with, as sentences."""
        for pool in changed(before, after):
            said = self._facts(pool)
            if isinstance(said, str):
                yield f"pool {pool.name}: its training plan was not checked: {said}"
            elif pool.capacity.slots > (most := _most(said)):
                yield (
                    f"pool {pool.name} has {units(pool.capacity.slots, 'slots')}, and its training "
                    f"plan at most {most}: it offers what the plan has"
                )

    def keep(self, before: Iterable[Pool], after: Iterable[Pool], health: Health) -> None:
        """Store what SageMaker said, so that jobs start there before the next tick."""
        for pool in changed(before, after):
            if isinstance(said := self._facts(pool), PlanFacts):
                health.set(pool.name, replace(health.get(pool.name), plan=said))

    def _facts(self, pool: Pool) -> PlanFacts | str:
        """The plan; if SageMaker cannot say, why."""
        if pool.plan_arn not in self._asked:
            try:
                self._asked[pool.plan_arn] = described(self._training, pool.plan_arn, self._now)
            except Unavailable as error:
                self._asked[pool.plan_arn] = str(error)
        return self._asked[pool.plan_arn]


def changed(
    before: Iterable[Pool], after: Iterable[Pool], *, but_sizes: bool = False
) -> Sequence[Pool]:
    """The pools whose plan, type or size a change sets; `but_sizes`: whose plan or type."""

    def key(pool: Pool) -> tuple[object, ...]:
        size = 0 if but_sizes else pool.capacity.slots
        return pool.name, pool.plan_arn, pool.instance_type, size

    known = set(map(key, before))
    return [pool for pool in with_plans(after) if key(pool) not in known]


def _most(facts: PlanFacts) -> int:
    return max((window.slots for window in facts.windows), default=0)
