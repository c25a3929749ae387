"""The training plans of a scenario's pools: for the emulator, and as the queue would read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from slotq.local.training.training_plans import TrainingPlan, Window
from slotq.simulate.scenario.sections import ChangeSpec, PlanWindowSpec, PoolSpec
from slotq_core.model.capacity.plans import PlanFacts, PlanStatus, PlanWindow
from slotq_core.model.pools import CapacityKind, Pool


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayedPlan:
    """The training plan of a pool at a moment of the run. Without windows it is gone."""

    windows: tuple[PlanWindowSpec, ...]
    unhealthy: int

    def after(self, change: ChangeSpec) -> PlayedPlan:
        windows, unhealthy = change.plan_windows, change.unhealthy
        return PlayedPlan(
            windows=self.windows if windows is None else windows,
            unhealthy=self.unhealthy if unhealthy is None else unhealthy,
        )


class SimulatedPlans:
    """The plans of a run, by pool."""

    def __init__(self, pools: Iterable[PoolSpec]) -> None:
        self._plans = {
            pool.name: PlayedPlan(windows=pool.plan_windows, unhealthy=pool.unhealthy)
            for pool in pools
            if pool.capacity_kind is CapacityKind.PLAN
        }

    def change(self, pool: str, change: ChangeSpec) -> None:
        if pool in self._plans:
            self._plans[pool] = self._plans[pool].after(change)

    def bought(self, pools: Mapping[str, Pool], instance_type: str) -> Iterator[TrainingPlan]:
        """The plans as the account has them, all of this instance type."""
        for name, played in self._plans.items():
            if played.windows:
                yield _plan(played, pools[name], instance_type)

    def known(self, pools: Iterable[Pool], now: int) -> Iterator[Pool]:
        """The pools with what the queue reads of their plans at a moment (ms)."""
        for pool in pools:
            if pool.name not in self._plans:
                yield pool
                continue
            facts = _facts(self._plans[pool.name], pool, now)
            yield replace(pool, health=replace(pool.health, plan=facts))


def _plan(played: PlayedPlan, pool: Pool, instance_type: str) -> TrainingPlan:
    return TrainingPlan(
        name=pool.plan_arn.rpartition("/")[2],
        instance_type=instance_type,
        windows=tuple(
            Window(begins=window.begins, ends=window.ends, instances=window.slots)
            for window in played.windows
        ),
        unhealthy=played.unhealthy,
        used_elsewhere=pool.foreign.slots,
    )


def _facts(played: PlayedPlan, pool: Pool, now: int) -> PlanFacts:
    if not played.windows:
        return PlanFacts(arn=pool.plan_arn, status=PlanStatus.NOT_FOUND, read_at=now)
    plan = _plan(played, pool, pool.instance_type)
    return PlanFacts(
        arn=pool.plan_arn,
        status=PlanStatus(plan.status_at(now).lower()),
        instance_type=pool.instance_type,
        windows=tuple(
            PlanWindow(begins=window.begins, ends=window.ends, slots=window.slots)
            for window in played.windows
        ),
        in_use=pool.foreign.slots,
        unhealthy=played.unhealthy,
        read_at=now,
    )
