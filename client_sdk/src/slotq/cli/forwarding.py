"""The option `--forward`: ports of a job that are served on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from slotq.cli.words import Word
from slotq.remote_shell.ports import Forward, check_distinct, parsed


def forward_option(help_text: str) -> Callable[[Any], Any]:
    return click.option(
        "--forward",
        "forwards",
        type=_Port(),
        multiple=True,
        callback=_distinct,
        metavar="PORT[:LOCAL]",
        help=help_text,
    )


class _Port(Word):
    """PORT or PORT:LOCAL."""

    name = "port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Forward:
        if isinstance(value, Forward):
            return value
        try:
            return parsed(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _distinct(
    _: click.Context, __: click.Parameter, forwards: tuple[Forward, ...]
) -> tuple[Forward, ...]:
    try:
        check_distinct(forwards)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return forwards
