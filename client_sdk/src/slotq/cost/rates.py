"""What a bill is made of: AWS's prices, the queue's counted use, and assumptions.

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
    def each(self) -> float:
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
    "memory_gb": Assumption(value=0.5, meaning="the functions' memory, as in template.yaml"),
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
    "alarm_metrics": Assumption(value=14, meaning="in the ten alarms that every stack has"),
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
        return self._with(other, lambda one, two: one + two)

    def __sub__(self, other: Counts) -> Counts:
        return self._with(other, lambda one, two: one - two)

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
    return {name: Counts(**its) for name, its in json.loads(FILE.read_text()).items()}
