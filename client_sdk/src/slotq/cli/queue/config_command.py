"""`slotq config`: the whole configuration as a file, for people who keep it in git."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slotq.cli.app import App, json_option
from slotq.cli.exits import ExitCode
from slotq.errors import DocumentError, Refused

if TYPE_CHECKING:
    from slotq.document.configuration_file import ConfigurationFile
    from slotq_core.wire.document.views import AppliedView, EntryChangeView


_file = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@click.group
def config() -> None:
    """Keep the queue's configuration in a file: pools, departments, projects, limits.

    `slotq config export queue.yaml` writes it, `diff` compares, `apply` puts it into force. Every
    change is recorded. `apply` needs a right that only operators should have (docs/guardrails.md).
    """


@config.command
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@json_option
@click.pass_obj
def export(app: App, file: Path | None) -> None:
    """Write the configuration as YAML, to FILE or to the terminal.

    What has its default is left out. The file is also a scenario's world (`slotq simulate`).
    """
    from slotq.document.document_text import document_text

    view = app.client().configuration.document()
    text = document_text(view.configuration)
    if file is not None:
        _write(file, text)
        click.echo(f"revision {view.revision} is written to {file}", err=True)
    if file is None or app.json:
        click.echo(view.model_dump_json(indent=2) if app.json else text, nl=app.json)


@config.command
@_file
@json_option
@click.pass_obj
def diff(app: App, file: Path) -> None:
    """Show what `slotq config apply FILE` would change. Ends with 1 if something would change."""
    from slotq.document.document_text import compared
    from slotq_core.wire.document.views import AppliedView

    wanted, view = _loaded(file), app.client().configuration.document()
    changes = compared(view.configuration, wanted.document)
    _show_result(app, AppliedView(revision=view.revision, dry_run=True, changes=changes), file)
    if changes:
        raise click.exceptions.Exit(int(ExitCode.NO))


@config.command
@_file
@click.option("--dry-run", is_flag=True, help="Show what would change or be refused.")
@click.option(
    "--revision",
    type=click.IntRange(min=0),
    help="Apply only if the configuration still has this revision.",
)
@json_option
@click.pass_obj
def apply(app: App, file: Path, *, dry_run: bool, revision: int | None) -> None:
    """Replace the whole configuration by FILE, and show what has changed.

    What FILE leaves out gets its default. The change is applied whole or not at all. If nothing
    differs, nothing is written. Faults are reported with their lines.
    """
    from slotq.document.document_text import compared
    from slotq_core.wire.document.views import AppliedView

    wanted, client = _loaded(file), app.client()
    present = client.configuration.document()
    changes = compared(present.configuration, wanted.document)
    if not changes and revision in {None, present.revision}:
        _show_result(app, AppliedView(revision=present.revision, dry_run=dry_run, changes=[]), file)
        return
    decided_on = present.revision if revision is None else revision
    try:
        done = client.configuration.apply(wanted.document, revision=decided_on, dry_run=dry_run)
    except Refused as error:
        raise app.fail(wanted.refused(error), "Nothing was changed.") from error
    _show_result(app, done, file)


@config.command
@click.option("--limit", type=click.IntRange(1, 100), help="Show at most this many changes.")
@json_option
@click.pass_obj
def history(app: App, limit: int | None) -> None:
    """Show every change of the configuration, the latest first: who, when, before and after."""
    from slotq.output.pool_tables import changes_table
    from slotq_core.wire.record import ChangesView

    changes = app.client().configuration.changes(limit=limit)
    app.answer(ChangesView(changes=changes), changes_table(changes))


@config.command
def schema() -> None:
    """Print the file's JSON schema, by which editors check and complete it."""
    from slotq.document.schema import schema as of_a_configuration

    click.echo(json.dumps(of_a_configuration(), indent=2))


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"{file}: {error.strerror or error}") from None


def _loaded(path: Path) -> ConfigurationFile:
    """The file's configuration. Says on stderr what only a simulation has."""
    from slotq.document.configuration_file import load

    found = load(path)
    if found.left_out:
        said = ", ".join(found.left_out)
        click.echo(f"{path}: only simulations have {said}: left out", err=True)
    return found


def _show_result(app: App, view: AppliedView, file: Path) -> None:
    from slotq.document.document_text import entries

    if app.json:
        app.answer(view, "")
        return
    show_changes(app, view.changes, old=f"queue (revision {view.revision})", new=str(file))
    if not view.changes:
        click.echo(f"the queue is as {file} says (revision {view.revision})", err=True)
    elif view.dry_run:
        click.echo(f"{entries(len(view.changes))} would change", err=True)
    else:
        click.echo(f"{entries(len(view.changes))} changed (revision {view.revision})", err=True)
    for warning in view.warnings:
        click.echo(f"warning: {warning}", err=True)


def show_changes(app: App, changes: Sequence[EntryChangeView], *, old: str, new: str) -> None:
    """Print changes as a diff, in colour where the terminal has it."""
    from slotq.document.document_text import diff_lines

    colour = app.console().color_system is not None
    for line in diff_lines(changes, old=old, new=new):
        shade = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.echo(click.style(line, fg=shade) if colour else line)
