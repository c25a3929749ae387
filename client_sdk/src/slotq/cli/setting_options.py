"""Options for the settings of jobs and pools, made from their lines in `slotq_core.model`: name,
type, bounds and help text."""

from __future__ import annotations

from dataclasses import Field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import click

from slotq.cli.words import GpuNumber, MaybeAutomatic, MaybeSeconds, Seconds
from slotq_core.model.jobs import SEMI, JobSettings
from slotq_core.model.pools import Pool
from slotq_core.wire.pool_definition import CHOICES, DURATIONS, MAY_BE_AUTO, SWITCHES
from slotq_core.wire.setting_tags import MOST, TAGS

if TYPE_CHECKING:
    from slotq.cli.app import Command


def pool_setting_options(command: Command) -> Command:
    """Add an option for each duration, switch and choice of a pool; None: not given."""
    declared = {field.name: field for field in fields(Pool)}
    for name in reversed((*DURATIONS, *SWITCHES, *CHOICES)):
        kind = MaybeAutomatic if name in MAY_BE_AUTO else MaybeSeconds
        number = kind() if name in DURATIONS else None
        command = _option(command, declared[name], name, number=number, negation="no")
    return command


def job_setting_options(command: Command) -> Command:
    """Add an option for each field of `JobSettings`, named as its tag; None: not given."""
    for setting in reversed(fields(JobSettings)):
        name = TAGS[setting.name].removeprefix("slotq:")
        command = _option(command, setting, name, number=_number(setting), negation="not")
    return command


def _number(setting: Field[Any]) -> click.ParamType[Any] | None:
    if setting.type == "Gpus":
        return GpuNumber()
    most = MOST.get(setting.name)
    if most is None:
        return None
    return Seconds(0, most) if setting.type == "Duration" else click.IntRange(0, most)


def _option(
    command: Command,
    setting: Field[Any],
    name: str,
    *,
    number: click.ParamType[Any] | None,
    negation: str,
) -> Command:
    """`number`: its type, unless it is a switch or a choice; `negation`: `--no-NAME` or
    `--not-NAME` turns a switch off."""
    words, default, text = name.replace("_", "-"), setting.default, setting.metadata["help"]
    if setting.type == "Preemptible":
        for before, word in (("not-", "false"), ("semi-", SEMI), ("", "true")):
            said = text if word == "true" else ""
            command = click.option(
                f"--{before}{words}", setting.name, flag_value=word, type=str, help=said
            )(command)
        return command
    if isinstance(default, bool):
        both = f"--{words}/--{negation}-{words}"
        return click.option(both, setting.name, default=None, help=text)(command)
    if isinstance(default, StrEnum):
        number = click.Choice(
            [kind.value for kind in type(default)], case_sensitive=negation == "no"
        )
    return click.option(f"--{words}", setting.name, type=number, help=text)(command)
