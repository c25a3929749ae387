"""Types of words on the command line that are neither plain text nor plain numbers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import Any

import click

from slotq.cli.app import App
from slotq_core.gpu_amounts import gpus_number, read_gpus
from slotq_core.timestamps import seconds_in
from slotq_core.wire.setting_tags import PRIORITY_LIMIT

_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?", re.ASCII)


class Word(click.ParamType):  # type: ignore[type-arg]
    """Base class of our parameter types. Only newer releases of click make ParamType generic."""


class Priority(click.IntRange):
    """A number within bounds, or the name of a class."""

    name = "priority"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from slotq_core.wire.pool_definition import CLASS_NAME  # Not for --help.

        if isinstance(value, str) and CLASS_NAME.fullmatch(value):
            return value
        return super().convert(value, param, ctx)


PRIORITY = Priority(-PRIORITY_LIMIT, PRIORITY_LIMIT)


class MomentWord(Word):
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
            if (ago := seconds_in(value)) is not None:
                return app.now() - timedelta(seconds=ago)
            moment = datetime.fromisoformat(value)
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is neither a time ago (30m, 2h, 7d) nor a date", param, ctx)


class GpuNumber(Word):
    """GPUs of one node: `2`, or a part of one GPU, `0.25`."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return gpus_number(read_gpus(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Seconds(Word):
    """Seconds, or a duration with units: `3600`, `90s`, `30m`, `2h`, `1h30m`, `7d`, `1w`. Converts
    to seconds."""

    name = "time"

    def __init__(self, least: float = 0, most: float | None = None, *, whole: bool = True) -> None:
        """The seconds must be from `least` to `most` (None: the longest setting of a pool), and
        `whole` ones unless a fraction is of use."""
        self._least, self._most, self._whole = least, most, whole

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = value if isinstance(value, int | float) else self._read(str(value))
        if number is None:
            self.fail(
                f"'{value}' is neither seconds nor a time such as 90s, 30m, 2h, 7d or 1w",
                param,
                ctx,
            )
        if self._whole and number != int(number):
            self.fail(f"'{value}' is not a whole number of seconds", param, ctx)
        most = _longest() if self._most is None else self._most
        if not self._least <= number <= most:
            bounds = f"from {self._least:,} to {most:,} seconds"
            self.fail(f"'{value}' is not {bounds}", param, ctx)
        return int(number) if self._whole else float(number)

    @staticmethod
    def _read(text: str) -> float | None:
        return float(text) if _NUMBER.fullmatch(text) else seconds_in(text)


def _longest() -> int:
    from slotq_core.wire.pool_definition import LONGEST  # Not for --help.

    return LONGEST


class MaybeSeconds(Seconds):
    """The same, or `none`, which converts to None."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "none" else super().convert(value, param, ctx)


class MaybeAutomatic(MaybeSeconds):
    """The same, or `auto`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from slotq_core.wire.pool_definition import AUTOMATIC  # Not for --help.

        return value if value == AUTOMATIC else super().convert(value, param, ctx)


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
        from slotq_core.wire.pool_definition import read_amount  # Not for --help.

        name, _, amount = str(value).partition("=")
        number = read_amount(name, amount)
        if not name or number is None:
            self.fail(f"{value!r} is not NAME=AMOUNT, such as gpus=16", param, ctx)
        return name, number


class NamedValue(NamedAmount):
    """The same, or NAME=TEXT or NAME=true of a property that is no amount."""

    name = "value"

    def convert(  # type: ignore[override]
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int | bool | str]:
        if isinstance(value, tuple):
            return value
        from slotq_core.wire.pool_definition import property_value  # Not for --help.

        name, _, text = str(value).partition("=")
        read = property_value(name, text) if name else None
        return super().convert(value, param, ctx) if read is None else (name, read)


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
