"""The bill from counted usage: the arithmetic by hand, and the command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from slotq.cli.main import cli
from slotq.cost.bill import ASSUMED, PRICES, Counts, Usage, bill, job_counts, measured
from tests import cloudformation

ROOT = Path(__file__).parents[3]
ONE = dict.fromkeys(PRICES, 1.0)
ASSUME = {name: assumption.value for name, assumption in ASSUMED.items()}
COUNTS = {
    "job": Counts(requests=1, write_units=10),
    "job, evicted once": Counts(requests=1, write_units=16),
    "event that changes nothing": Counts(invocations=2),
    "look at a job that waits": Counts(requests=1, read_units=4),
    "look at a job behind 1,000": Counts(requests=1, read_units=104),
    "minute": Counts(invocations=1, dynamodb_calls=3, read_units=2),
}
NOTHING = Usage(jobs=0, evictions=0, ahead=0, watched=0)


def usage(**more: float) -> Usage:
    return Usage(**{"jobs": 10.0, "evictions": 0.0, "ahead": 0.0, "watched": 0.0, **more})


@pytest.mark.parametrize(
    ("used", "counts"),
    [
        (usage(), Counts(requests=1, write_units=10, invocations=6)),
        (usage(evictions=0.5), Counts(requests=1, write_units=13, invocations=9)),
        (usage(ahead=500), Counts(requests=1, write_units=10, invocations=6)),
        (usage(watched=1), Counts(requests=721, write_units=10, read_units=2880, invocations=6)),
        (
            usage(watched=1, ahead=100),
            Counts(requests=721, write_units=10, read_units=720 * 14, invocations=6),
        ),
        (
            usage(watched=1, ahead=50_000),
            Counts(requests=721, write_units=10, read_units=720 * 104, invocations=6),
        ),
    ],
)
def test_the_cost_of_an_average_job(used: Usage, counts: Counts):
    """720 looks an hour, and three more events an attempt than the queue needs."""
    assert job_counts(used, COUNTS, ASSUME).as_json() == counts.as_json()


def test_billed_time_is_the_handlers_plus_its_waiting():
    made = bill(NOTHING, COUNTS, prices=ONE, assumed={**ASSUME, "minutes_a_month": 1})
    amounts = {item.name: item.amount for item in made.fixed}
    assert amounts["lambda_gb_seconds"] == pytest.approx((25 + 3 * 8) / 1000)
    assert amounts["log_gigabytes"] == pytest.approx(2000 / 1e9)
    assert amounts["alarm_metrics"] == ASSUME["alarm_metrics"]


def test_a_private_api_costs_an_endpoint_per_zone_and_a_key_its_month():
    assumed = {**ASSUME, "endpoint_zones": 2, "kms_keys": 1}
    prices = {name: price.usd_each for name, price in PRICES.items()}
    fixed = {it.name: it.usd for it in bill(NOTHING, COUNTS, prices=prices, assumed=assumed).fixed}
    assert fixed["endpoint_hours"] == pytest.approx(14.6)
    assert fixed["kms_keys"] == 1


def test_each_project_with_metrics_costs_four_metrics_and_its_log():
    def fixed(projects: int) -> dict[str, float]:
        assumed = {**ASSUME, "project_metrics": projects, "minutes_a_month": 1}
        made = bill(NOTHING, measured(), prices=ONE, assumed=assumed)
        return {item.name: item.amount for item in made.fixed}

    none, one, ten = fixed(0), fixed(1), fixed(10)
    assert (one["metrics"], ten["metrics"]) == (none["metrics"] + 4, none["metrics"] + 40)
    assert ten["log_gigabytes"] - one["log_gigabytes"] == pytest.approx(9 * 500 / 1e9)
    assert one["dynamodb_reads"] == ten["dynamodb_reads"] > none["dynamodb_reads"]


def test_a_month_costs_the_standing_parts_and_the_jobs():
    made = bill(usage(), COUNTS, prices=ONE, assumed=ASSUME)
    assert made.usd_per_month == pytest.approx(made.usd_fixed + 10 * made.usd_per_job)
    assert bill(NOTHING, COUNTS, prices=dict.fromkeys(PRICES, 0.0), assumed=ASSUME).usd_fixed == 0


def test_every_count_appears_in_the_bill():
    assert set(COUNTS) <= set(measured())
    counts = measured()
    assert counts["job, evicted once"].write_units > counts["job"].write_units
    assert counts["job, behind 1,000"].read_units <= counts["job"].read_units


def test_alarms_and_memory_are_as_in_the_template():
    resources = cloudformation.template()["Resources"]
    alarms = [
        it["Properties"]
        for it in resources.values()
        if it["Type"] == "AWS::CloudWatch::Alarm" and "Condition" not in it
    ]
    assert len(alarms) == 11, "as the assumption says"
    metrics = sum(
        len([each for each in alarm["Metrics"] if "MetricStat" in each])
        if "Metrics" in alarm
        else 1
        for alarm in alarms
    )
    assert metrics == ASSUMED["alarm_metrics"].value
    functions = cloudformation.template()["Resources"]
    memory = functions["QueueManager"]["Properties"]["MemorySize"]
    assert memory / 1024 == ASSUMED["memory_gb"].value


def slotq(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["cost", *words])
    return done.exit_code, done.output


def test_the_bill_is_printed_as_a_table_or_as_json():
    code, shown = slotq()
    assert code == 0
    for price in PRICES.values():
        assert price.unit in shown
    code, text = slotq("--json", "--jobs", "2000")
    made = json.loads(text)
    assert code == 0
    usd = made["usd"]
    assert usd["per_month"] == pytest.approx(usd["fixed_per_month"] + 2000 * usd["per_job"], 1e-6)
    assert f"{usd['per_job']:.5f} USD a job" in shown
    assert made["counts"]["job"]["requests"] == 1


def test_prices_and_assumptions_can_be_given():
    _, before = slotq("--json")
    _, after = slotq("--json", "--price", "api_requests=7", "--assume", "memory_gb=2")
    one, two = json.loads(before), json.loads(after)
    assert two["usd_for_one"]["api_requests"] == 2 * one["usd_for_one"]["api_requests"]
    seconds = [it["per_job"]["lambda_gb_seconds"]["amount"] for it in (one, two)]
    assert seconds[1] == pytest.approx(2 * seconds[0])


@pytest.mark.parametrize(
    "words",
    [
        ("--price", "coffee=3"),
        ("--price", "api_requests"),
        ("--price", "api_requests=-1"),
        ("--price", "api_requests=nan"),
        ("--assume", "memory_gb=1e9999"),
        ("--jobs", "-1"),
        ("--jobs", "inf"),
        ("--evictions", "nan"),
        ("more",),
    ],
)
def test_impossible_numbers_are_usage_errors(words: tuple[str, ...]):
    assert slotq(*words)[0] == 2


def test_the_page_has_the_programs_counts_and_sum():
    page = (ROOT / "docs" / "cost.md").read_text()
    for name, counts in measured().items():
        (row,) = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", page, re.MULTILINE)
        figures = [counts.requests, counts.invocations, counts.dynamodb_calls, counts.read_units]
        figures += [counts.write_units, counts.sagemaker_calls, counts.events_put]
        assert [float(cell.replace(",", "")) for cell in row.split(" | ")] == pytest.approx(
            figures, abs=0.051
        ), name
    _, text = slotq("--json")
    usd = json.loads(text)["usd"]
    for key, digits in (("per_job", 5), ("fixed_per_month", 2), ("per_month", 2)):
        assert f"{usd[key]:.{digits}f} USD" in page, key
    for name, price in PRICES.items():
        assert f"| `{name}` | {price.usd:g} | {price.per:,.0f} {price.unit} |" in page
    for name, assumption in ASSUMED.items():
        assert f"| `{name}` | {assumption.value:g} | {assumption.meaning} |" in page
