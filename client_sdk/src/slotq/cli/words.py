"""Types of words on the command line that are neither plain text nor plain numbers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import Any

import click

from slotq.cli.app import App
from slotq_core.wire.pool_definition import CLASS_NAME, read_amount
from slotq_core.wire.submission import PRIORITY_LIMIT

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhdw])")


class Word(click.ParamType):  # type: ignore[type-arg]
    """Base class of our parameter types. Only newer releases of click make ParamType generic."""


class Priority(click.IntRange):
    """A number within bounds, or the name of a class."""

    name = "priority"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and CLASS_NAME.fullmatch(value):
            return value
        return super().convert(value, param, ctx)


PRIORITY = Priority(-PRIORITY_LIMIT, PRIORITY_LIMIT)


class Moment(Word):
    """A moment: `90s`, `30m`, `2h`, `7d` or `1w` ago, or a date or ISO 8601 time; UTC if no zone is
    given."""

    name = "moment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        app = (ctx.find_object(App) if ctx else None) or App()
        try:
            if ago := _AGO.fullmatch(value):
                return app.now() - timedelta(**{_UNITS[ago["unit"]]: int(ago["number"])})
            given = datetime.fromisoformat(value)
            return given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is neither a time ago (30m, 2h, 7d) nor a date", param, ctx)


class Amount(click.FloatRange):
    """A number within bounds; refuses NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return self.fail(f"{value} is not a number", param, ctx) if isnan(number) else number


class NamedAmount(Word):
    """NAME=AMOUNT: a whole number, or a size such as 16G of a name like `mem_per_gpu_in_GiB`."""

    name = "amount"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, amount = str(value).partition("=")
        number = read_amount(name, amount)
        if not name or number is None:
            self.fail(f"{value!r} is not NAME=AMOUNT, such as gpus=16", param, ctx)
        return name, number


class Pair(Word):
    """NAME=VALUE."""

    name = "pair"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"'{value}' is not NAME=VALUE", param, ctx)
        return name, text
