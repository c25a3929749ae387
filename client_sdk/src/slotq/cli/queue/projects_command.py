"""`slotq projects`: show and change the projects that share the pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from slotq.cli.app import App, json_option, revision_option
from slotq.cli.queue.config_command import show_changes
from slotq.errors import NoSuchProject
from slotq_core.model.reasons import units
from slotq_core.spelling import unknown

if TYPE_CHECKING:
    from slotq_core.wire.document.views import AppliedView


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def projects(ctx: click.Context) -> None:
    """Show and change the projects that share the pools.

    `slotq projects` alone is `slotq projects list`. Every change is recorded (`slotq config
    history`). A change needs a right that only operators should have (docs/guardrails.md).
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@projects.command("list")
@json_option
@click.pass_obj
def list_(app: App) -> None:
    """List each department and project with its quota and what its jobs hold."""
    from rich.console import Group

    from slotq.output.project_tables import sharing_tables

    view = app.client().projects()
    app.answer(view, Group(*sharing_tables(view)))


@projects.command
@click.argument("name")
@json_option
@click.pass_obj
def show(app: App, name: str) -> None:
    """Show one project, as the configuration's file has it, and what it uses."""
    from slotq.output.project_tables import project_page

    view = app.client().projects()
    found = next((project for project in view.projects if project.name == name), None)
    if found is None:
        names = [project.name for project in view.projects]
        raise NoSuchProject(unknown("project", name, names), field="name")
    app.answer(found, project_page(found))


@projects.command("set")
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@revision_option
@json_option
@click.pass_obj
def set_(app: App, name: str, settings: tuple[str, ...], revision: int | None) -> None:
    """Change keys of project NAME, or create it. Other keys stay.

    A value is YAML: quota=4, 'quota={p5: 4}', weight=High, 'members=[arn:aws:iam::…:role/x]';
    null is the key's default. `slotq config schema` has all keys.
    """
    keys = dict(map(_setting, settings))
    _show_result(app, app.client().projects.set(name, keys, revision=revision), name)


@projects.command
@click.argument("name")
@click.option("--move-to", metavar="PROJECT", help="The project that its jobs shall have.")
@revision_option
@json_option
@click.pass_obj
def remove(app: App, name: str, move_to: str | None, revision: int | None) -> None:
    """Remove project NAME. Refused while it has jobs, unless they move to another project.

    A job that moves keeps its slots, its entry time and its checkpoints.
    """
    _show_result(app, app.client().projects.remove(name, move_to=move_to, revision=revision), name)


def _setting(text: str) -> tuple[str, Any]:
    import yaml

    from slotq.document.yaml_file import NOT_YAML
    from slotq_core.wire.document.sections import ProjectSection

    key, equals, value = text.partition("=")
    keys = sorted({*ProjectSection.keys()} - {"name"})
    if not equals or key not in keys:
        raise click.UsageError(f"{text!r}: give KEY=VALUE, where KEY is one of {', '.join(keys)}")
    try:
        return key, yaml.safe_load(value)
    except NOT_YAML:
        raise click.UsageError(f"{key}: {value!r} is not YAML") from None


def _show_result(app: App, view: AppliedView, name: str) -> None:
    if app.json:
        app.answer(view, "")
        return
    new = f"queue (revision {view.revision})"
    show_changes(app, view.changes, old="queue (before)", new=new)
    if not view.changes:
        click.echo(f"nothing of project {name} had to change", err=True)
    if view.moved:
        click.echo(f"{units(view.moved, 'jobs')} moved", err=True)
    for warning in view.warnings:
        click.echo(f"warning: {warning}", err=True)
