"""`slotq doctor`."""

from __future__ import annotations

import click
from rich.console import Group, RenderableType
from rich.text import Text

from slotq.checkup import Check, checkup
from slotq.cli.app import App, json_option
from slotq.cli.exits import Exit, exit_of
from slotq.errors import NotAllowed
from slotq.output import job_tables
from slotq.output.json_views import CheckupView, CheckView
from slotq_core.wire.views import FindingView


@click.command
@click.option("--fix", is_flag=True, help="Mend what the queue finds, as far as one look suffices.")
@click.option("--client", "only_client", is_flag=True, help="Only what is between you and it.")
@json_option
@click.pass_obj
def doctor(app: App, *, fix: bool, only_client: bool) -> None:
    """What is wrong between this machine and the queue, and what the queue keeps that disagrees.

    Looks at settings, name, route, credentials, the queue's answer, clock, permissions and
    versions, and says which one is wrong and what to do. Then the queue looks at itself, if you are
    one of its operators; once a minute, so this may wait. Exits with
    0 if nothing was found or everything is mended; else as the first thing that is wrong.
    """
    checks = list(checkup(app.client, network=app.network, now=app.now))
    wrong = [check.error for check in checks if check.error is not None]
    reached = all(check.ok for check in checks if check.name in {"settings", "answer"})
    found = None
    if reached and not only_client:
        try:
            found = app.client().doctor(fix=fix)
        except NotAllowed:
            if fix:
                raise
            checks.append(OPERATORS_ONLY)
    views = [
        CheckView(name=each.name, ok=each.ok, text=each.text, advice=each.advice) for each in checks
    ]
    app.answer(CheckupView(checks=views, findings=found or []), _page(checks, found))
    if wrong:
        raise click.exceptions.Exit(int(exit_of(wrong[0])))
    well = all(finding.mended for finding in found or [])
    raise click.exceptions.Exit(int(Exit.OK if well else Exit.NO))


OPERATORS_ONLY = Check(
    name="queue",
    text="not looked at: what the queue keeps is for operators to examine",
    advice="An operator's `slotq doctor` shows whether it agrees with itself and with SageMaker.",
    looked=False,
)
"""Shown instead of the queue's findings to callers who may not ask for them."""


def _page(checks: list[Check], found: list[FindingView] | None) -> RenderableType:
    table = job_tables.columns("CHECK", "", "WHAT")
    for check in checks:
        word = {True: "ok", False: "WRONG", None: "-"}[check.ok]
        table.add_row(check.name, word, "\n".join(filter(None, (check.text, check.advice))))
    return table if found is None else Group(table, Text(""), job_tables.findings_table(found))
