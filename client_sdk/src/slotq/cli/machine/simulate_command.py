"""`slotq simulate`: run a scenario file on the virtual clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from slotq.cli.app import App
from slotq.cli.exits import ExitCode
from slotq.output.job_tables import explanation
from slotq_core.spelling import unknown

if TYPE_CHECKING:
    from slotq.simulate import Record, Scenario
    from slotq.simulate.report import FailedExpectation
    from slotq.simulate.run.metrics import Metrics
    from slotq.simulate.scenario.sections import Expectation
    from slotq_core.wire.views.jobs import JobView


PICTURES = (".html", ".png")

SHOWN = 200
"""Number of events shown to people; programs get all."""

_FILE = click.Path(path_type=Path)


def _picture(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Check the picture's name before a long run, not after it."""
    if path is not None and path.suffix not in PICTURES:
        raise click.BadParameter(f"give a name that ends in {' or '.join(PICTURES)}")
    return path


def _questions(_: click.Context, __: click.Parameter, texts: Sequence[str]) -> list[Expectation]:
    """Parse `job2@30`, `job2@end` or `job2`: the job, and the second to ask about it."""
    from slotq.simulate.scenario.sections import Expectation

    found = []
    for text in texts:
        name, at = text.split("@", 1) if "@" in text else (text, "end")
        try:
            moment = float(at) if at != "end" else at
            found.append(Expectation.model_validate({"at": moment, "why": [{"job": name}]}))
        except ValueError:
            raise click.BadParameter(
                f"give a job and a second, such as job2@30, not {text}"
            ) from None
    return found


_EXAMPLES = """\b
slotq simulate scenario.yaml --check
slotq simulate scenario.yaml --live --json
slotq simulate scenario.yaml --why job2@30
slotq simulate world.yaml --trace jobs.csv --plot run.png"""


@click.command("simulate", epilog=_EXAMPLES)
@click.argument("file", type=_FILE)
@click.option("--trace", type=_FILE, help="Take the jobs from this table (CSV).")
@click.option(
    "--check", is_flag=True, help="Exit with 1 if an expectation of the file does not hold."
)
@click.option(
    "--live",
    is_flag=True,
    help="Also run the live path (manager, store, training plane); the events must be equal.",
)
@click.option(
    "--why",
    "questions",
    multiple=True,
    metavar="JOB@T",
    callback=_questions,
    help="Explain why JOB waits at second T, or at the end.",
)
@click.option("--plot", type=_FILE, callback=_picture, help="Draw the run: a .html or .png file.")
@click.option("--json", "as_json", is_flag=True, help="Print events, jobs and metrics as JSON.")
@click.pass_context
def simulate_command(
    ctx: click.Context,
    *,
    file: Path,
    trace: Path | None,
    check: bool,
    live: bool,
    questions: Sequence[Expectation],
    plot: Path | None,
    as_json: bool,
) -> None:
    """Run the scenario FILE through the queue's policy on a virtual clock."""
    from slotq.simulate import load, simulate
    from slotq.simulate.report import differences
    from slotq.simulate.run.metrics import metrics

    app = ctx.ensure_object(App)
    if plot:
        _load_plotting()
    scenario = _with_questions(load(file, trace), questions)
    record = simulate(scenario)
    wrong = differences(scenario, record) if check else []
    wrong += _live(scenario, record) if live else []
    figures = metrics(scenario, record)
    if plot:
        _draw(
            plot,
            scenario,
            record,
            title=f"{file.name}, jobs of {trace.name}" if trace else file.name,
        )
    if as_json or app.json:
        click.echo(
            json.dumps(_as_json(record, figures, wrong if check or live else None), indent=2)
        )
    else:
        _show(app, scenario, record, figures)
        _judge(file, scenario, wrong, check=check, live=live)
    if wrong:
        raise SystemExit(ExitCode.NO)


def _with_questions(scenario: Scenario, questions: Sequence[Expectation]) -> Scenario:
    names = [job.name for job in scenario.jobs]
    for question in questions:
        if question.why[0].job not in names:
            raise click.BadParameter(unknown("job", question.why[0].job, names), param_hint="--why")
    return scenario.model_copy(update={"expect": (*scenario.expect, *questions)})


def _answers(record: Record) -> list[tuple[int, JobView]]:
    """The answers about waiting jobs, in order of time."""
    from slotq_core.wire.views.jobs import job_view

    return [
        (at, job_view(item.job, place=item.place, reason=item.reason, outlook=item.outlook))
        for (at, _), item in sorted(record.asked.items(), key=lambda item: item[0])
    ]


def _live(scenario: Scenario, record: Record) -> list[FailedExpectation]:
    from slotq.simulate.report import unequal
    from slotq.simulate.run.live import live_record

    return unequal(record, live_record(scenario))


def _load_plotting() -> None:
    """Raises NotConfigured before a long run, not after it."""
    from slotq.installation import needs_extra

    with needs_extra("plot", command="--plot"):
        import slotq.simulate.plot  # noqa: F401


def _draw(path: Path, scenario: Scenario, record: Record, *, title: str) -> None:
    from slotq.simulate.plot import save

    try:
        save(path, scenario, record, title=title)
    except OSError as error:
        raise click.BadParameter(
            f"{path}: {error.strerror or error}", param_hint="--plot"
        ) from None


def _as_json(
    record: Record, figures: Metrics, wrong: Sequence[FailedExpectation] | None
) -> dict[str, object]:
    answer: dict[str, object] = {
        "events": [event.as_json() for event in record.events],
        "jobs": {
            name: {
                "state": states[-1][1],
                "states": [{"t": t / 1000, "state": state} for t, state in states],
                "started": [t / 1000 for t in record.started(name)],
                "evictions": record.evictions(name),
            }
            for name, states in record.states.items()
        },
        "metrics": asdict(figures),
    }
    if record.asked:
        answer["why"] = [
            {"at": at / 1000, "job": job.name}
            | job.model_dump(include={"state", "place", "reason", "outlook"})
            for at, job in _answers(record)
        ]
    if wrong is not None:
        answer["differences"] = [difference.as_json() for difference in wrong]
    return answer


def _show(app: App, scenario: Scenario, record: Record, figures: Metrics) -> None:
    console = app.console()
    events = Table("t (s)", "event", "job", "pool", "reason", box=None, pad_edge=False)
    for event in record.events[:SHOWN]:
        events.add_row(
            f"{event.t / 1000:g}", event.event, event.job, event.pool or "", event.reason
        )
    console.print(events)
    if len(record.events) > SHOWN:
        click.echo(f"and {len(record.events) - SHOWN:,} more events; --json prints all of them")
    click.echo(
        f"\n{len(scenario.jobs):,} jobs, {record.end / 1000:g} s: "
        f"utilisation {figures.utilisation:.1%}, waited {figures.wait_mean:g} s on average "
        f"(95 % at most {figures.wait_p95:g} s), {figures.evictions} evictions, "
        f"{figures.slot_seconds_lost:g} slot-seconds of work lost"
    )
    if scenario.projects:
        console.print(_projects(figures))
    for at, job in _answers(record):
        click.echo(f"\nat {at / 1000:g} s\n{explanation(job)}")


def _projects(figures: Metrics) -> Table:
    table = Table(
        "project", "jobs", "waited (s)", "95 % (s)", "evictions", "slot-hours",
        box=None, pad_edge=False,
    )  # fmt: skip
    for name, row in figures.by_project.items():
        table.add_row(
            name, f"{row.jobs:,}", f"{row.wait_mean:g}", f"{row.wait_p95:g}",
            str(row.evictions), f"{row.slot_seconds / 3600:,.1f}",
        )  # fmt: skip
    return table


def _judge(
    file: Path,
    scenario: Scenario,
    wrong: Sequence[FailedExpectation],
    *,
    check: bool,
    live: bool,
) -> None:
    """Print success to stdout for people, differences to stderr."""
    from slotq.simulate.report import expectations

    asked = expectations(scenario) if check else 0
    failed = sum(difference.what != "live" for difference in wrong)
    if check and not asked:
        click.echo("the file has no expectations, so there is nothing to check")
    elif check and not failed:
        click.echo(f"all {asked} expectations hold")
    elif check:
        click.echo(f"{file}: {failed} of {asked} expectations do not hold", err=True)
    if live and failed == len(wrong):
        click.echo("the live path gives the same events")
    for difference in wrong:
        click.echo(_difference(difference), err=True)


def _difference(difference: FailedExpectation) -> str:
    """The difference on two aligned lines, so that it is easy to see."""
    what = "live run, first difference" if difference.what == "live" else difference.what
    return (
        f"at {difference.at / 1000:g} s, {what} of {difference.of}:\n"
        f"  expected  {_said(difference.expected)}\n"
        f"  seen      {_said(difference.seen)}"
    )


def _said(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "[" + ", ".join(f"{number:g}" for number in value) + "]"
    return json.dumps(value) if isinstance(value, dict) else str(value)
