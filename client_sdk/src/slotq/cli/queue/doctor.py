"""`slotq doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType
from rich.text import Text

from slotq.cli.app import App, json_option
from slotq.cli.exits import ExitCode, exit_of
from slotq.errors import NotAllowed
from slotq.output import job_tables

if TYPE_CHECKING:
    from slotq.checkup import CheckResult
    from slotq_core.wire.views.about import FindingView


@click.command
@click.option("--fix", is_flag=True, help="Repair what can be repaired after one examination.")
@click.option(
    "--client",
    "only_client",
    is_flag=True,
    help="Check only the way from this machine to the queue.",
)
@json_option
@click.pass_obj
def doctor(app: App, *, fix: bool, only_client: bool) -> None:
    """Find what is wrong between this machine and the queue, and in the queue's records.

    Checks settings, name, route, credentials, the queue's answer, clock, permissions and versions,
    and says what is wrong and what to do. For operators the queue then examines itself, at most
    once a minute, so the command may wait. The exit code is 0 if nothing is wrong or everything is
    mended, else that of the first failure.
    """
    from slotq.checkup import checkup
    from slotq.output.json_views import CheckupView, CheckView

    checks = list(checkup(app.client, network=app.network, now=app.now))
    wrong = [check.error for check in checks if check.error is not None]
    reached = all(check.ok for check in checks if check.name in {"settings", "answer"})
    found = None
    if reached and not only_client:
        try:
            found = app.client().service.doctor(fix=fix)
        except NotAllowed:
            if fix:
                raise
            checks.append(_operators_only())
    views = [
        CheckView(name=check.name, ok=check.ok, text=check.text, advice=check.advice)
        for check in checks
    ]
    app.answer(CheckupView(checks=views, findings=found or []), _page(checks, found))
    if wrong:
        raise click.exceptions.Exit(int(exit_of(wrong[0])))
    well = all(finding.mended for finding in found or [])
    raise click.exceptions.Exit(int(ExitCode.OK if well else ExitCode.NO))


def _operators_only() -> CheckResult:
    """Shown instead of the queue's findings to callers who may not ask for them."""
    from slotq.checkup import CheckResult

    return CheckResult(
        name="queue",
        text="not checked: only operators may examine the queue's records",
        advice="Ask an operator to run `slotq doctor`.",
        looked=False,
    )


def _page(checks: list[CheckResult], found: list[FindingView] | None) -> RenderableType:
    table = job_tables.columns("CHECK", "", "WHAT")
    for check in checks:
        word = {True: "ok", False: "WRONG", None: "-"}[check.ok]
        table.add_row(check.name, word, "\n".join(filter(None, (check.text, check.advice))))
    return table if found is None else Group(table, Text(""), job_tables.findings_table(found))
