"""`slotq doctor`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.exits import Exit
from slotq.cli.tables import findings_table
from slotq_core.wire import DoctorView


@click.command
@click.option("--fix", is_flag=True, help="Mend it, as far as one look suffices.")
@json_option
@click.pass_obj
def doctor(app: App, *, fix: bool) -> None:
    """What the queue keeps that disagrees with itself or with SageMaker.

    Exits with 0 if nothing was found or everything is mended, else with 1.
    """
    found = app.client().doctor(fix=fix)
    app.answer(DoctorView(findings=found), findings_table(found))
    well = all(finding.mended for finding in found)
    raise click.exceptions.Exit(int(Exit.OK if well else Exit.NO))
