"""`slotq cancel`, `hold`, `release` …: a command for each verb of the core's table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from slotq.cli.app import App, json_option
from slotq.cli.name_arguments import PoolNames, ProjectName
from slotq.cli.on_jobs import change_each
from slotq.cli.selection import Selection, selecting
from slotq.cli.words import PRIORITY
from slotq.output.plain_table import LIVING
from slotq_core.wire.verbs import LIVING_STATES, VERBS, Takes, Verb

_TYPES: Mapping[Takes, click.ParamType] = {  # type: ignore[type-arg,unused-ignore]
    Takes.PRIORITY: PRIORITY,
    Takes.POOLS: PoolNames(),
    Takes.PROJECT: ProjectName(),
    Takes.TEXT: click.STRING,
}


def _command(verb: Verb) -> click.Command:
    fit = LIVING if verb.states == LIVING_STATES else sorted(verb.states)

    @selecting(fit=fit)
    @json_option
    @click.pass_obj
    def run(app: App, *, chosen: Selection, value: Any = None) -> None:
        change_each(app, chosen, verb.phrase or verb.name, lambda jobs: jobs.do(verb, value))

    settings: dict[str, Any] = {}
    if verb.takes:
        run = click.argument("value", type=_TYPES[verb.takes], metavar=verb.metavar)(run)
    if verb.takes is Takes.PRIORITY:
        # A negative number looks like an unknown option: this passes it on as an argument.
        settings = {"ignore_unknown_options": True}
    return click.command(verb.name, help=verb.help, context_settings=settings)(run)


CHANGES: Mapping[str, click.Command] = {verb.name: _command(verb) for verb in VERBS}
