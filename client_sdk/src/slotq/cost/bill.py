"""Compute the bill from counts, prices and assumptions: per job and per month."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slotq.cost.rates import Counts

NEEDED_EVENTS = 3
"""Training events per attempt that the counts of a job already include."""
PER_HOUR = 3600

METRICS_EACH_PROJECT = 4
"""Metrics of a project, for each resource that quotas name."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """How a queue is used. Averages, except `jobs`."""

    jobs: float
    """Jobs per month."""
    evictions: float
    """Evictions per job."""
    ahead: float
    """Waiting jobs ahead of a new job."""
    watched: float
    """Hours per job during which a user watches it wait or run."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """A line of the bill. `amount` is in the unit of its price."""

    name: str
    amount: float
    usd: float


@dataclass(frozen=True, kw_only=True)
class Bill:
    per_job: tuple[Item, ...]
    fixed: tuple[Item, ...]
    """Monthly cost, independent of the number of jobs."""
    jobs: float

    @property
    def usd_per_job(self) -> float:
        return sum(item.usd for item in self.per_job)

    @property
    def usd_fixed(self) -> float:
        return sum(item.usd for item in self.fixed)

    @property
    def usd_per_month(self) -> float:
        return self.usd_fixed + self.jobs * self.usd_per_job


def bill(
    usage: Usage,
    counts: Mapping[str, Counts],
    *,
    prices: Mapping[str, float],
    assumed: Mapping[str, float],
) -> Bill:
    """The bill for `usage`. `prices`: USD per unit."""
    measured = assumed["project_metrics"]
    minute = counts["minute, projects measured" if measured else "minute"]
    minutes = minute * assumed["minutes_a_month"]
    standing = {name: assumed[name] for name in ("metrics", "alarm_metrics", "kms_keys")}
    standing["metrics"] += measured * METRICS_EACH_PROJECT
    standing["endpoint_hours"] = assumed["endpoint_zones"] * assumed["minutes_a_month"] / 60
    standing["sqs_requests"] = assumed["polls_a_minute"] * assumed["minutes_a_month"]
    idle = _amounts(minutes, assumed) | standing
    lines = measured * assumed["minutes_a_month"]
    idle["log_gigabytes"] += lines * assumed["log_bytes_each_project"] / 1e9
    return Bill(
        per_job=_items(_amounts(job_counts(usage, counts, assumed), assumed), prices),
        fixed=_items(idle, prices),
        jobs=usage.jobs,
    )


def job_counts(usage: Usage, counts: Mapping[str, Counts], assumed: Mapping[str, float]) -> Counts:
    """The counts of one average job. It costs the same whatever waits. Only a look at it grows with
    the jobs ahead: linearly, up to the thousand that are counted."""
    job, thousands = counts["job"], min(1.0, usage.ahead / 1000)
    looked, looked_behind = (
        counts["look at a job that waits"],
        counts[("look at a job behind 1,000")],
    )
    look = looked + (looked_behind - looked) * thousands
    idle_events = max(0.0, assumed["events_each_attempt"] - NEEDED_EVENTS) * (1 + usage.evictions)
    return (
        job
        + (counts["job, evicted once"] - job) * usage.evictions
        + counts["event that changes nothing"] * idle_events
        + look * (usage.watched * PER_HOUR / assumed["seconds_between_looks"])
    )


def _amounts(counts: Counts, assumed: Mapping[str, float]) -> dict[str, float]:
    milliseconds = (
        counts.invocations * assumed["ms_each_invocation"]
        + counts.dynamodb_calls * assumed["ms_each_dynamodb_call"]
        + counts.sagemaker_calls * assumed["ms_each_sagemaker_call"]
        + (counts.invoke_calls + counts.events_put) * assumed["ms_each_other_call"]
    )
    return {
        "api_requests": counts.requests,
        "lambda_requests": counts.invocations,
        "lambda_gb_seconds": milliseconds / 1000 * assumed["memory_gb"],
        "dynamodb_reads": counts.read_units,
        "dynamodb_writes": counts.write_units,
        "events_put": counts.events_put,
        "log_gigabytes": counts.invocations * assumed["log_bytes_each_invocation"] / 1e9,
        "traces": counts.invocations * assumed["traced_share"],
    }


def _items(amounts: Mapping[str, float], prices: Mapping[str, float]) -> tuple[Item, ...]:
    return tuple(
        Item(name=name, amount=amount, usd=amount * prices[name])
        for name, amount in amounts.items()
    )
