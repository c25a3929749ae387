"""SageMaker's managed warm pools: instances that stay when a training job ends, for the next one
that matches. Not safe for threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slotq.local.training.knobs import Knobs
from slotq.local.training.request_check import PlaneError
from slotq.local.training.training_job import WARM_QUOTA, TrainingJob
from slotq_core.ports.surroundings import Clock

_FIELDS = (
    ("RoleArn",),
    ("ResourceConfig", "InstanceType"),
    ("ResourceConfig", "InstanceCount"),
    ("ResourceConfig", "VolumeKmsKeyId"),
    ("ResourceConfig", "VolumeSizeInGB"),
    ("VpcConfig", "SecurityGroupIds"),
    ("VpcConfig", "Subnets"),
    ("EnableInterContainerTrafficEncryption",),
    ("EnableNetworkIsolation",),
    ("SessionChainingConfig", "EnableSessionTagChaining"),
)
"""The fields that a training job must have in common with the last one of a warm pool."""


class WarmPools:
    """The warm pools that are available, by the name of their last training job."""

    def __init__(self, clock: Clock, knobs: Knobs) -> None:
        self.available: dict[str, TrainingJob] = {}
        self._clock, self._knobs = clock, knobs

    def keep(self, job: TrainingJob) -> None:
        """Keep the instances of a job that has just ended, as far as the account's quota goes."""
        now = self._clock.now()
        job.warm_since = now
        fits = all(
            used + count <= self._knobs.quotas.get(f"{kind} {WARM_QUOTA}", used + count)
            for kind, count in job.instances.items()
            for used in [self.used(f"{kind} {WARM_QUOTA}")]
        )
        if fits:
            job.warm, job.warm_until = "Available", now + 1000 * job.keep_alive
            self.available[job.name] = job
        else:
            job.warm = ""

    def match(self, job: TrainingJob) -> TrainingJob | None:
        """The job whose instances a new one starts on; None: SageMaker provisions others."""
        if job.is_spot or job.plan or job.request["ResourceConfig"].get("InstanceGroups"):
            return None
        wanted = _key(job.request)
        kept = (it for it in self.available.values() if not it.lets_go)
        return next((it for it in kept if _key(it.request) == wanted), None)

    def give(self, kept: TrainingJob, to: TrainingJob) -> None:
        """Let a new job start on these instances."""
        self._close(kept, "Reused")
        kept.reused_by = to.name
        to.is_warm = True

    def change(self, job: TrainingJob, seconds: int) -> None:
        """Keep the instances of an ended job for another time, 0: let them go."""
        if job.name not in self.available:
            raise PlaneError(
                "ValidationException",
                "KeepAlivePeriodInSeconds can only be updated while the warm pool is Available.",
            )
        if seconds:
            job.warm_until = job.warm_since + 1000 * seconds
        else:
            gone = self._clock.now() + round(self._knobs.release_seconds * 1000)
            job.warm_until = min(job.warm_until, gone)
            job.lets_go = True
        self.expire()

    def expire(self) -> bool:
        """Let go what has been kept for its time. Returns whether there was any."""
        now = self._clock.now()
        over = [kept for kept in self.available.values() if kept.warm_until <= now]
        for kept in over:
            self._close(kept, "Terminated")
        return bool(over)

    def dues(self) -> Iterator[int]:
        yield from (kept.warm_until for kept in self.available.values())

    def used(self, quota: str, without: TrainingJob | None = None) -> int:
        """How many of the kept instances count in a quota."""
        return sum(
            _counts_in(quota, kept) for kept in self.available.values() if kept is not without
        )

    def _close(self, kept: TrainingJob, status: str) -> None:
        del self.available[kept.name]
        kept.warm, kept.warm_until = status, min(kept.warm_until, self._clock.now())


def _key(request: dict[str, Any]) -> tuple[Any, ...]:
    def at(path: tuple[str, ...]) -> Any:
        found: Any = request
        for name in path:
            found = (found or {}).get(name)
        return found or None

    return tuple(map(at, _FIELDS))


def _counts_in(quota: str, kept: TrainingJob) -> int:
    """How many of the instances that stay after a job's end count in a quota of the account."""
    if quota.endswith(WARM_QUOTA):
        return kept.instances.get(quota.partition(" for ")[0], 0)
    return kept.counts_in(quota) if "training" in quota else 0
