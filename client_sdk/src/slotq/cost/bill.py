"""Compute the bill from counts, prices and assumptions: per job and per month.

The prices are public on-demand list prices of us-east-1 in USD, without free tiers, as known in
autumn 2026. They were not read from AWS's price list: check them there before you rely on the sum,
and pass other prices if they differ. `benchmarks/cost_of_a_job.py` counts the use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

AS_OF = "us-east-1, autumn 2026, not read from AWS's price list"

MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Price:
    """USD for `per` units."""

    usd: float
    per: float
    unit: str

    @property
    def usd_each(self) -> float:
        return self.usd / self.per


PRICES: Mapping[str, Price] = {
    "api_requests": Price(usd=3.50, per=MILLION, unit="requests to a REST API"),
    "lambda_requests": Price(usd=0.20, per=MILLION, unit="invocations"),
    "lambda_gb_seconds": Price(usd=13.3334, per=MILLION, unit="GB-seconds on arm64"),
    "dynamodb_reads": Price(usd=0.125, per=MILLION, unit="read request units"),
    "dynamodb_writes": Price(usd=0.625, per=MILLION, unit="write request units"),
    "events_put": Price(usd=1.00, per=MILLION, unit="events of one's own on EventBridge"),
    "sqs_requests": Price(usd=0.40, per=MILLION, unit="requests to a standard SQS queue"),
    "log_gigabytes": Price(usd=0.50, per=1, unit="GB of logs ingested"),
    "traces": Price(usd=5.00, per=MILLION, unit="X-Ray traces"),
    "metrics": Price(usd=0.30, per=1, unit="metrics of one's own a month"),
    "alarm_metrics": Price(usd=0.10, per=1, unit="metrics in alarms a month"),
    "endpoint_hours": Price(usd=0.01, per=1, unit="hours of a VPC endpoint in one zone"),
    "kms_keys": Price(usd=1.00, per=1, unit="customer managed keys a month"),
}
"""Not listed because free: EventBridge's AWS events and schedules, SageMaker's API, a standard SSM
parameter."""


@dataclass(frozen=True, kw_only=True)
class Assumption:
    value: float
    meaning: str


ASSUMED: Mapping[str, Assumption] = {
    "memory_gb": Assumption(
        value=1,
        meaning="the queue manager's memory, as in template.yaml; the other functions' is half",
    ),
    "ms_each_invocation": Assumption(value=25, meaning="the handler's own time"),
    "ms_each_dynamodb_call": Assumption(value=8, meaning="until DynamoDB answers"),
    "ms_each_sagemaker_call": Assumption(value=150, meaning="until SageMaker answers"),
    "ms_each_other_call": Assumption(value=20, meaning="until Lambda or EventBridge answers"),
    "events_each_attempt": Assumption(
        value=6, meaning="state changes that SageMaker reports; the queue needs three"
    ),
    "log_bytes_each_invocation": Assumption(value=2000, meaning="with metrics and Lambda's lines"),
    "traced_share": Assumption(
        value=1, meaning="of the invocations; X-Ray samples above 1 a second"
    ),
    "metrics": Assumption(value=15, meaning="the queue's own"),
    "project_metrics": Assumption(
        value=0, meaning="projects with metrics (`ProjectMetrics`), and one more for all others"
    ),
    "log_bytes_each_project": Assumption(value=500, meaning="of a project's metrics, each minute"),
    "alarm_metrics": Assumption(value=15, meaning="in the eleven alarms that every stack has"),
    "polls_a_minute": Assumption(
        value=15, meaning="of Lambda, five at once and 20 s each, for ends of graces"
    ),
    "endpoint_zones": Assumption(
        value=0, meaning="zones in which the stack makes a VPC endpoint (`SubnetIds`)"
    ),
    "kms_keys": Assumption(value=0, meaning="keys of your own for the queue alone (`TableKeyArn`)"),
    "seconds_between_looks": Assumption(
        value=5, meaning="of fit(wait=True) and `slotq watch NAME`"
    ),
    "minutes_a_month": Assumption(value=43_800, meaning="730 hours"),
}


FILE = Path(__file__).with_name("counts.json")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """AWS usage of one activity of the queue; averages, so values may be fractional."""

    requests: float = 0.0
    """Requests to the API."""
    invocations: float = 0.0
    """Invocations of both functions, including those made by the API."""
    dynamodb_calls: float = 0.0
    read_units: float = 0.0
    write_units: float = 0.0
    sagemaker_calls: float = 0.0
    invoke_calls: float = 0.0
    """Invocations by which the queue manager asks itself for another pass."""
    events_put: float = 0.0
    """State changes published as events."""

    def __add__(self, other: Counts) -> Counts:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Counts) -> Counts:
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, times: float) -> Counts:
        return Counts(**{name: value * times for name, value in asdict(self).items()})

    def __truediv__(self, parts: float) -> Counts:
        return self * (1 / parts)

    def _with(self, other: Counts, join: Callable[[float, float], float]) -> Counts:
        return Counts(
            **{
                field.name: join(getattr(self, field.name), getattr(other, field.name))
                for field in fields(self)
            }
        )

    def as_json(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in asdict(self).items()}


def measured() -> Mapping[str, Counts]:
    """The counts by activity: `job`, `minute` …, the keys of the benchmark's MEASURED."""
    return {name: Counts(**counts) for name, counts in json.loads(FILE.read_text()).items()}


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
    fixed = {name: assumed[name] for name in ("metrics", "alarm_metrics", "kms_keys")}
    fixed["metrics"] += measured * METRICS_EACH_PROJECT
    fixed["endpoint_hours"] = assumed["endpoint_zones"] * assumed["minutes_a_month"] / 60
    fixed["sqs_requests"] = assumed["polls_a_minute"] * assumed["minutes_a_month"]
    idle = _amounts(minutes, assumed) | fixed
    lines = measured * assumed["minutes_a_month"]
    idle["log_gigabytes"] += lines * assumed["log_bytes_each_project"] / 1e9
    return Bill(
        per_job=_items(_amounts(job_counts(usage, counts, assumed), assumed), prices),
        fixed=_items(idle, prices),
        jobs=usage.jobs,
    )


def job_counts(usage: Usage, counts: Mapping[str, Counts], assumed: Mapping[str, float]) -> Counts:
    """The counts of one average job. Its cost does not depend on the jobs that wait, except that a
    look at it grows linearly with the jobs ahead, up to a thousand."""
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
