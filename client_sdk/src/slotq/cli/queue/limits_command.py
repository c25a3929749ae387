"""`slotq limits`: show and change what callers may ask of the queue."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from slotq.cli.app import App, json_option
from slotq.output.job_tables import columns
from slotq.output.pool_tables import who
from slotq_core.wire.configuration import LimitsView
from slotq_core.wire.limits_definition import MOST, OF_A_CALLER

_MEANINGS = {
    "waiting": "jobs of one caller that wait, back off or are held",
    "submissions": "new jobs of one caller in a minute",
    "priority": "the largest priority",
    "waiting_in_all": "jobs of all callers that wait",
    "lines": "kinds of jobs that wait, in all",
}

amount = click.IntRange(min=0)
revision_option = click.option(
    "--revision", type=click.IntRange(min=0), help="Only if the configuration is still at this one."
)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def limits(ctx: click.Context) -> None:
    """What callers may ask of the queue, and what you have used of it."""
    if ctx.invoked_subcommand is None:
        app = ctx.ensure_object(App)
        _tell(app, app.client().limits())


@limits.command("set")
@click.option("--waiting", type=amount, help=f"{_MEANINGS['waiting'].capitalize()}.")
@click.option("--submissions", type=amount, help=f"{_MEANINGS['submissions'].capitalize()}.")
@click.option("--priority", type=amount, help=f"{_MEANINGS['priority'].capitalize()}.")
@click.option("--waiting-in-all", type=amount, help=f"{_MEANINGS['waiting_in_all'].capitalize()}.")
@click.option("--lines", type=amount, help=f"{_MEANINGS['lines'].capitalize()}.")
@revision_option
@json_option
@click.pass_obj
def set_(app: App, /, *, revision: int | None, **given: int | None) -> None:
    """Change limits for every caller that no rule fits. 0 is no limit; what is not named stays.

    What waits already stays, also above a limit.
    """
    settings = {key: value for key, value in given.items() if value is not None}
    if not settings:
        raise click.UsageError("say what shall change, e.g. --waiting 500")
    _tell(app, app.client().set_limits(settings, revision=revision))


@limits.command
@click.argument("callers")
@click.option("--waiting", type=amount, help="As in `set`.")
@click.option("--submissions", type=amount, help="As in `set`.")
@click.option("--priority", type=amount, help="As in `set`.")
@click.option("--together/--apart", default=None, help="All of them count as one caller, or not.")
@click.option("--remove", is_flag=True, help="They are as everybody else.")
@json_option
@click.pass_obj
def rule(
    app: App, /, callers: str, *, together: bool | None, remove: bool, **given: int | None
) -> None:
    """Give the CALLERS whose ARN fits limits of their own; `*` stands for any text.

    What is not named stays as it was, at first as everybody's. The first rule that fits counts; a
    new one is the last. The part of an assumed role's ARN behind its name is the session's, which
    its user may be free to choose: such a role counts --together.
    """
    wanted: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if together is not None:
        wanted["together"] = together
    if bool(wanted) == remove:
        raise click.UsageError("say what shall count for them, e.g. --waiting 5000, or --remove")
    present = app.client().limits()
    rules = [each.model_dump() for each in present.limits.callers]
    mine = next((each for each in rules if each["callers"] == callers), None)
    if remove:
        if mine is None:
            raise click.UsageError(f"there is no rule for {callers}")
        rules.remove(mine)
    elif mine is not None:
        mine.update(wanted)
    else:
        rules.append({"callers": callers, **wanted})
    _tell(app, app.client().set_limits({"callers": rules}, revision=present.revision))


def _tell(app: App, view: LimitsView) -> None:
    app.answer(view, _page(view))


def _page(view: LimitsView) -> RenderableType:
    table = columns("LIMIT", ">EACH CALLER", ">YOU MAY", ">YOU USE", ">ALL USE", "OF WHAT")
    general, own = view.limits.model_dump(), view.own.model_dump()
    all_use = {"waiting_in_all": view.use.waiting, "lines": view.use.lines}
    for key in MOST:
        mine = key in OF_A_CALLER
        table.add_row(
            key,
            limit(general[key]) if mine else "",
            limit(own[key]) if mine else "",
            str(own[f"{key}_used"]) if f"{key}_used" in own else "",
            f"{all_use[key]:,} of {limit(general[key])}" if key in all_use else "",
            _MEANINGS[key],
        )
    parts: list[RenderableType] = [table]
    if view.limits.callers:
        parts += [Text(""), _rules(view)]
    if view.own.counted_as != view.own.caller:
        parts.append(Text(f"you are counted together with all of {view.own.counted_as}"))
    return Group(*parts)


def _rules(view: LimitsView) -> RenderableType:
    table = columns("CALLERS", ">WAITING", ">SUBMISSIONS", ">PRIORITY", "COUNTED")
    for each in view.limits.callers:
        own = (each.waiting, each.submissions, each.priority)
        counted = "together" if each.together else "apart"
        table.add_row(who(each.callers), *("-" if n is None else limit(n) for n in own), counted)
    return table


def limit(number: int) -> str:
    """A limit for people: `none` for 0."""
    return f"{number:,}" if number else "none"
