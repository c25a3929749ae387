"""`slotq configure`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from typing import Any

import click

from slotq.cli.app import App, json_option
from slotq.configuration import config_file
from slotq.configuration.settings import (
    PROFILES,
    SETTINGS,
    Config,
    checked,
    config_path,
    load,
    profile_name,
    read,
)
from slotq.errors import NotConfigured, SlotQError
from slotq.output import job_tables

_ASKED = {
    "queue": "The queue's name: that of its stack (empty: give its endpoint)",
    "endpoint": "The queue's endpoint, with its stage (empty: looked up by the queue's name)",
    "api_id": "The API's id (only with a vpce-… endpoint)",
    "region": "Region (empty: the endpoint's, else AWS's own setting)",
    "aws_profile": "AWS profile that signs (empty: as AWS finds credentials)",
    "priority": "Priority of jobs that name none (empty: the queue's default)",
    "project": "Project of jobs that name none (empty: your default in the queue)",
    "instance_type": "For `slotq submit -- COMMAND`: instance type (empty: the pool's)",
    "image": "  training image",
    "role": "  ARN of the execution role",
    "pool": "  pools, comma separated (empty: every pool of the instance type)",
    "output": "  S3 URI for code, models and checkpoints",
}
"""The settings to ask for, in this order."""
_OPTIONS = {**_ASKED, "prices": "For `slotq usage`: file with your prices of instances"}
_NONE = "-"
"""The input that removes a setting."""


def _options(command: Any) -> Any:
    for setting in reversed(_OPTIONS):
        option = f"--{setting.replace('_', '-')}"
        command = click.option(option, setting, metavar="VALUE", help=_OPTIONS[setting].strip())(
            command
        )
    return command


@click.command
@_options
@click.option("--profile", metavar="NAME", help="Write into this profile; create it if needed.")
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="Show the settings that apply here and where each comes from.",
)
@click.option("--no-check", is_flag=True, help="Do not check that the queue answers.")
@json_option
@click.pass_obj
def configure(
    app: App, /, *, profile: str | None, listing: bool, no_check: bool, **options: str | None
) -> None:
    """Write settings to the config file, and check that the queue answers.

    Without options it asks for each setting; "-" removes one. Only you can read the file. Its
    comments stay.
    """
    app.profile = profile or app.profile
    if not listing:
        name = profile_name(app.profile) if app.profile else None
        wanted = {setting: value for setting, value in options.items() if value is not None}
        values = _read(wanted) if wanted else _ask(_present(name))
        _write(values, name)
        if not no_check:
            _look(app)
    if listing or app.json:
        _show(app)


def _present(profile: str | None) -> Mapping[str, Any]:
    """The settings that the file now holds for this profile."""
    document = read(config_path(os.environ))
    own = document if profile is None else document.get(PROFILES, {}).get(profile, {})
    return own if isinstance(own, dict) else {}


def _read(options: Mapping[str, str]) -> dict[str, Any]:
    return {setting: _value(setting, text) for setting, text in options.items()}


def _value(setting: str, text: str) -> Any:
    """The value typed for a setting; None removes the setting. Raises NotConfigured."""
    return None if text.strip() in {"", _NONE} else checked(setting, text, "argument")


def _ask(present: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for each setting in turn; an empty answer keeps the present value."""
    values: dict[str, Any] = {}
    for setting, question in _ASKED.items():

        def take(text: str, setting: str = setting) -> Any:
            try:
                return _value(setting, text)
            except NotConfigured as error:
                raise click.UsageError(str(error)) from None

        before = present.get(setting)
        shown = "" if before is None else str(before)
        values[setting] = click.prompt(
            question, default=shown, show_default=bool(shown), value_proc=take, err=True
        )
    return values


def _write(values: Mapping[str, Any], profile: str | None) -> None:
    """Write the settings into the file. Raises NotConfigured, before writing, if the file could not
    be loaded afterwards."""
    path = config_path(os.environ)
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    text = config_file.changed(path, before, values, profile=profile)
    environ = {key: os.environ[key] for key in _WHERE if key in os.environ}
    chosen = {"profile": profile} if profile else {}
    load(chosen, environ=environ, document=tomllib.loads(text))
    config_file.save(path, text)
    where = f"{path} [profiles.{profile}]" if profile else str(path)
    click.echo(f"written to {where}", err=True)
    for setting in values:
        variable = f"SLOTQ_{setting.upper()}"
        if os.environ.get(variable) and not profile:
            click.echo(f"{variable} is set and overrides the file", err=True)


_WHERE = ("HOME", "SLOTQ_CONFIG", "XDG_CONFIG_HOME")


def _look(app: App) -> None:
    try:
        about = app.client().service.about()
    except SlotQError as error:
        hint = (
            "The settings are saved, but the queue does not answer yet: `slotq doctor` finds "
            "the cause."
        )
        raise app.fail(error, hint) from error
    click.echo(f"the queue answers: release {about.slotq}, you are {about.caller}", err=True)


def _show(app: App) -> None:
    from slotq.output.json_views import SettingsView, SettingView

    config = app.config()
    settings = [
        SettingView(name=name, value=getattr(config, name), source=config.source(name))
        for name in SETTINGS
    ]
    app.answer(SettingsView(file=str(config.file), settings=settings), _table(config))


def _table(config: Config) -> Any:
    table = job_tables.columns("SETTING", "VALUE", "FROM")
    for name in SETTINGS:
        value = getattr(config, name)
        table.add_row(name, "" if value is None else str(value), config.source(name))
    return table
