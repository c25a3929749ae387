"""`slotq usage`: pages, hours, dollars, and the forms of the answer."""

from __future__ import annotations

import csv
import json
import tomllib
from datetime import UTC, datetime

import pytest

from slotq.cli.exits import ExitCode
from slotq.configuration.settings import load
from slotq.cost.instance_prices import SHIPPED, instance_prices
from slotq.errors import NotConfigured
from slotq_core.wire.views.usage import WaitsView
from tests.unit.client.fake_queue import ENDPOINT, client_of, usage_page, usage_row

ADA = "arn:aws:iam::123456789012:user/ada"
PRICES = 'as_of = "2026-01-01"\n[usd_per_hour]\n"ml.g5.xlarge" = 10\n"ml.own" = 0.5\n'


@pytest.fixture
def prices(tmp_path):
    (tmp_path / "prices.toml").write_text(PRICES)
    return str(tmp_path / "prices.toml")


def told(slotq, *words, **options):
    result = slotq("usage", "--json", *words, **options)
    assert result.exit_code == ExitCode.OK, result.output
    return json.loads(result.stdout)


def test_the_table_has_hours_dollars_waits_and_evictions(slotq, queue, prices):
    queue.usage = [usage_page(usage_row())]
    lines = slotq("usage", "--by", "project", "--prices", prices).stdout.splitlines()
    assert lines[0].split() == [
        *["PROJECT", "SLOT-H", "INSTANCE-H", "GPU-H", "USD", "JOBS", "ATTEMPTS"],
        *["WAIT", "MEAN", "WAIT", "P95", "GIVEN", "TAKEN", "LOST-H"],
    ]
    cells = ["vision", "2.00", "1.00", "1.00", "10.00", "1", "2", "45s", "1m00s", "1", "3", "0.10"]
    assert lines[1].split() == cells
    assert "from 2026-11-01 00:00:00 to 2026-11-20 12:00:00 (UTC); prices of 2026-01-01" in lines[2]


def test_gpu_hours_are_those_of_the_instances_part(slotq, queue, prices):
    """A quarter of a GPU of eight for an hour is 1/32 of an instance-hour."""
    queue.usage = [
        usage_page(
            usage_row("ml.p5.48xlarge", instance_seconds=3600 / 32),
            usage_row("ml.m5.large"),
            usage_row("ml.p9.48xlarge"),
        )
    ]
    assert told(slotq, "--by", "project", "--prices", prices)["total"]["gpu_hours"] == 0.25
    assert " 0.25 " in slotq("usage", "--by", "project", "--prices", prices).stdout


def test_a_column_says_what_spot_saved(slotq, queue, prices):
    spot = {"kind": "spot", "saved_seconds": 2700}
    queue.usage = [usage_page(usage_row(**spot), usage_row())]
    lines = slotq("usage", "--by", "project", "--prices", prices).stdout.splitlines()
    assert lines[0].split()[4:6] == ["USD", "SAVED"]
    assert lines[1].split()[1:6] == ["4.00", "2.00", "2.00", "12.50", "7.50"]
    assert not [line for line in lines if "bill is not known" in line]


def test_a_line_says_how_much_spot_is_not_billed(slotq, queue, prices):
    queue.usage = [usage_page(usage_row(kind="spot", unbilled_seconds=3600))]
    lines = slotq("usage", "--by", "project", "--prices", prices).stdout.splitlines()
    assert lines[1].split()[4:6] == ["10.00", "0.00"]
    assert lines[3].startswith("1.00 of the instance-hours are on spot instances whose bill is not")


def test_prices_may_have_a_table_for_spot(slotq, queue, tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(f'{PRICES}[spot_usd_per_hour]\n"ml.g5.xlarge" = 4\n"ml.p9" = 2\n')
    unbilled = {"kind": "spot", "unbilled_seconds": 3600}
    queue.usage = [usage_page(usage_row(**unbilled), usage_row("ml.p9", **unbilled))]
    total = told(slotq, "--prices", str(own))["total"]
    assert (total["usd"], total["saved_usd"], total["unbilled_hours"]) == (6, 6, 2)


AT_MOST = "of these hours are of attempts that reported no checkpoint, and may have saved some"


@pytest.mark.parametrize(("said", "at_most"), [(0, 0), (180, 0.05), (None, 0.1)])
def test_lost_hours_say_where_they_are_the_most(slotq, queue, prices, said, at_most):
    """None: a queue of an earlier release, which cannot tell."""
    queue.usage = [usage_page(usage_row(lost_at_most_seconds=said))]
    lines = slotq("usage", "--by", "project", "--prices", prices).stdout.splitlines()
    assert lines[1].split()[-1] == ("≤0.10" if at_most else "0.10")
    notes = [line for line in lines if line.startswith("≤")]
    assert notes == ([f"≤ at most: {at_most:.2f} {AT_MOST}"] if at_most else [])
    line = told(slotq, "--by", "project", "--prices", prices)["lines"][0]
    assert (line["lost_hours"], line["lost_hours_at_most"]) == (0.1, at_most)


def test_pages_are_asked_for_with_the_window_of_the_first(slotq, queue, prices):
    queue.usage = [
        usage_page(usage_row(), next="2026-11-03~0~0~"),
        usage_page(usage_row(), usage_row(group={"project": "speech"})),
    ]
    found = told(slotq, "--by", "project", "--from", "2026-11-01", "--prices", prices)
    first, second = queue.usage_queries
    assert first == {"from": ["2026-11-01T00:00:00+00:00"], "by": ["project"]}
    assert second == {
        "from": ["2026-11-01T00:00:00.000Z"],
        "to": ["2026-11-20T12:00:00.000Z"],
        "by": ["project"],
        "next": ["2026-11-03~0~0~"],
    }
    vision, speech = found["lines"]
    assert (vision["group"], vision["slot_hours"], vision["usd"]) == ({"project": "vision"}, 4, 20)
    assert vision["wait_mean"] == 45
    assert speech["slot_hours"] == 2
    assert found["total"]["slot_hours"] == 6
    assert found["total"]["group"] == {}


def test_types_without_a_price_have_no_dollars_and_are_named(slotq, queue, prices):
    queue.usage = [
        usage_page(
            usage_row(),
            usage_row("ml.p9.48xlarge"),
            usage_row("ml.p9.48xlarge", group={"project": "speech"}),
            usage_row("ml.idle", group={"project": "idle"}, instance_seconds=0),
        )
    ]
    found = told(slotq, "--by", "project", "--prices", prices)
    by_project = {line["group"]["project"]: line for line in found["lines"]}
    assert by_project["vision"]["usd"] == 10
    assert by_project["vision"]["unpriced_instance_hours"] == 1
    assert by_project["speech"]["usd"] is None
    assert by_project["idle"]["usd"] == 0
    assert found["prices"]["without_price"] == ["ml.p9.48xlarge"]
    queue.usage *= 2
    shown = slotq("usage", "--by", "project", "--prices", prices).stdout
    assert "10.00*" in shown
    assert " -* " in shown
    assert "* without ml.p9.48xlarge: no price known (--prices FILE)" in shown


def test_csv_is_for_spreadsheets(slotq, queue, prices):
    queue.usage = [
        usage_page(
            usage_row(group={"project": "=1+1", "submitter": ADA}),
            usage_row(
                "ml.p9",
                group={"project": 'a,"b"', "submitter": ADA},
                waits=WaitsView(count=0, total_seconds=0, histogram=[]),
            ),
        )
    ]
    result = slotq("usage", "--csv", "--by", "project,submitter", "--prices", prices)
    head, *rows = csv.reader(result.stdout.splitlines())
    assert head[:4] == ["project", "submitter", "slot_hours", "instance_hours"]
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert found["'=1+1"]["submitter"] == ADA
    assert found["'=1+1"]["wait_mean"] == "45.0"
    assert found['a,"b"']["usd"] == found['a,"b"']["wait_p95"] == ""


def test_persons_are_short_where_that_tells_them_apart(slotq, queue):
    bob = "arn:aws:sts::123456789012:assumed-role/Team/bob"
    queue.usage = [
        usage_page(usage_row(group={"submitter": ADA}), usage_row(group={"submitter": bob}))
    ]
    lines = slotq("usage", "--by", "submitter").stdout.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["PERSON", "ada", "bob", "total"]


def test_persons_whom_the_queue_does_not_name_are_the_others(slotq, queue):
    own, others = (
        usage_row(group={"submitter": who}, slot_seconds=hours * 3600)
        for who, hours in ((ADA, 1), ("", 2))
    )
    queue.usage = [usage_page(own, others)]
    lines = slotq("usage", "--by", "submitter").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["others", "ada"]


def test_nothing_used_is_a_line_of_zeros(slotq, queue):
    found = told(slotq)
    assert found["lines"] == []
    assert found["total"]["usd"] == 0
    assert found["total"]["wait_mean"] is None


def test_unreadable_records_are_told(slotq, queue):
    queue.usage = [usage_page(unreadable=2, next="2026-11-03~0~0~"), usage_page(unreadable=1)]
    assert "3 records cannot be read and are not counted" in slotq("usage").stdout


@pytest.mark.parametrize(
    "words",
    [("--by", "colour"), ("--from", "soon"), ("--csv", "--json"), ("--by", "")],
)
def test_wrong_options_are_usage_errors(slotq, words):
    assert slotq("usage", *words).exit_code == ExitCode.USAGE


def test_prices_come_from_the_option_else_the_settings_else_the_client(
    slotq, queue, http, prices, tmp_path
):
    queue.usage = [usage_page(usage_row())] * 3
    own = tmp_path / "own.toml"
    own.write_text(PRICES.replace("10", "7"))
    config = load(environ={"SLOTQ_ENDPOINT": ENDPOINT, "SLOTQ_PRICES": str(own)})
    world = {"connect": lambda _: client_of(http, config=config)}
    assert told(slotq, "--prices", prices, world=world)["total"]["usd"] == 10
    assert told(slotq, world=world)["total"]["usd"] == 7
    assert told(slotq)["total"]["usd"] == 1.408


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("?", "cannot be read"),
        ("as_of = 1", r"it needs a table \[usd_per_hour\]"),
        ('[usd_per_hour]\n"ml.x" = -1', "the price of ml.x must be from 0 to 1000000, not -1"),
        ('[usd_per_hour]\n"ml.x" = nan', "not nan"),
        ('[usd_per_hour]\n"ml.x" = "1"', "the price of ml.x must be"),
        ('[usd_per_hour]\n"ml.x" = inf', "not inf"),
        (f'[usd_per_hour]\n"ml.x" = 1{"0" * 400}', "must be from 0 to 1000000, not 1000"),
        (f'[usd_per_hour]\n"ml.x" = 1{"0" * 5000}', "cannot be read"),
        ('[usd_per_hour]\n"ml.x" = true', "not True"),
        ('[usd_per_hour]\n"g5" = 1', "'g5' is no instance type"),
        ('[usd_per_hour]\n[spot_usd_per_hour]\n"ml.x" = -1', "the price of ml.x must be"),
        ("spot_usd_per_hour = 1\n[usd_per_hour]", r"it needs a table \[spot_usd_per_hour\]"),
        ('colour = 1\n[usd_per_hour]\n"ml.x" = 1', "there is no key 'colour'"),
    ],
)
def test_a_file_of_prices_is_refused_with_its_faults(tmp_path, text, fault):
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(NotConfigured, match=fault):
        instance_prices(tmp_path / "prices.toml")


def test_all_faults_of_a_file_are_told_at_once(tmp_path):
    (tmp_path / "prices.toml").write_text('colour = 1\n[usd_per_hour]\n"x" = -1')
    with pytest.raises(NotConfigured, match=r"'colour'.*'x' is no instance.*price of x"):
        instance_prices(tmp_path / "prices.toml")


def test_a_missing_file_is_an_error(slotq):
    result = slotq("usage", "--prices", "/nowhere/prices.toml")
    assert result.exit_code != ExitCode.OK
    assert "/nowhere/prices.toml cannot be read" in result.stderr


def test_the_prices_that_come_with_the_client_say_where_they_come_from():
    prices = instance_prices()
    assert datetime.fromisoformat(prices.as_of).replace(tzinfo=UTC) < datetime.now(UTC)
    assert prices.region == "us-east-1"
    assert "aws.amazon.com/sagemaker/pricing" in prices.source
    assert tomllib.loads(SHIPPED.read_text())["usd_per_hour"] == prices.usd_per_hour
    assert all(0 < usd < 100 for usd in prices.usd_per_hour.values())
