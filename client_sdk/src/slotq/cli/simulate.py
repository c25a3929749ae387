"""`slotq simulate`: a scenario file on the virtual clock."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from slotq.simulate import Record, Scenario, load, simulate
from slotq.simulate.report import Metrics, differences, metrics, unequal


@click.command("simulate")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--check", is_flag=True, help="Exit with 1 where the file's expectations do not hold."
)
@click.option(
    "--live",
    is_flag=True,
    help="Run through manager, store and training plane as well; the events must be equal.",
)
@click.option("--json", "as_json", is_flag=True, help="Print events, jobs and metrics as JSON.")
def simulate_command(file: Path, check: bool, live: bool, as_json: bool) -> None:
    r"""Run the scenario FILE through the queue's policy, in no time.

    \b
    slotq simulate scenario.yaml --check
    slotq simulate scenario.yaml --live --json
    """
    scenario = load(file)
    record = simulate(scenario)
    failures = differences(scenario, record) if check else []
    if live:
        from slotq.simulate.live import live_record

        failures += unequal(record, live_record(scenario))
    figures = metrics(scenario, record)
    if as_json:
        click.echo(json.dumps(_as_json(record, figures, failures), indent=2))
    else:
        _print(scenario, record, figures)
    for line in failures:
        click.echo(f"{file}: {line}", err=True)
    if failures:
        raise SystemExit(1)


def _as_json(record: Record, figures: Metrics, failures: list[str]) -> dict[str, object]:
    jobs = {
        name: {
            "state": states[-1][1],
            "states": [{"t": t / 1000, "state": state} for t, state in states],
            "started": [t / 1000 for t in record.started(name)],
            "evictions": record.evictions(name),
        }
        for name, states in record.states.items()
    }
    return {
        "events": [event.as_json() for event in record.events],
        "jobs": jobs,
        "metrics": asdict(figures),
        "differences": failures,
    }


def _print(scenario: Scenario, record: Record, figures: Metrics) -> None:
    console = Console()
    events = Table("t (s)", "event", "job", "pool", "reason", box=None, pad_edge=False)
    for event in record.events:
        events.add_row(
            f"{event.t / 1000:g}", event.event, event.job, event.pool or "", event.reason
        )
    console.print(events)
    click.echo(
        f"\n{len(scenario.jobs)} jobs, {record.end / 1000:g} s: "
        f"utilisation {figures.utilisation:.1%}, waited {figures.wait_mean:g} s on average "
        f"(95 % at most {figures.wait_p95:g} s), {figures.evictions} evictions, "
        f"{figures.slot_seconds_lost:g} slot-seconds of work lost"
    )
