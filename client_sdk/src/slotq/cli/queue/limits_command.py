"""`slotq limits`: limits on callers; `slotq whoami`: the caller's identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slotq.cli.app import App, json_option, revision_option
from slotq.output.job_tables import columns
from slotq_core.wire.limits_definition import MOST, OF_A_CALLER

if TYPE_CHECKING:
    from slotq_core.wire.configuration import LimitsView
    from slotq_core.wire.views.about import MembershipView, MeView

_MEANINGS = {
    "waiting": "one caller's jobs that wait, back off or are held",
    "submissions": "one caller's new jobs in a minute",
    "priority": "the largest priority",
    "waiting_in_all": "all callers' waiting jobs",
    "lines": "lines of waiting jobs, in total",
}

amount = click.IntRange(min=0)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def limits(ctx: click.Context) -> None:
    """Show and change what callers may ask of the queue."""
    if ctx.invoked_subcommand is None:
        app = ctx.ensure_object(App)
        _show_result(app, app.client().configuration.limits())


@limits.command("set")
@click.option("--waiting", type=amount, help=f"{_MEANINGS['waiting'].capitalize()}.")
@click.option("--submissions", type=amount, help=f"{_MEANINGS['submissions'].capitalize()}.")
@click.option("--priority", type=amount, help=f"{_MEANINGS['priority'].capitalize()}.")
@click.option("--waiting-in-all", type=amount, help=f"{_MEANINGS['waiting_in_all'].capitalize()}.")
@click.option("--lines", type=amount, help=f"{_MEANINGS['lines'].capitalize()}.")
@revision_option
@json_option
@click.pass_obj
def set_(app: App, /, *, revision: int | None, **options: int | None) -> None:
    """Change the limits of callers that no rule matches. 0 is no limit; other limits stay.

    Jobs that already wait stay, even above a limit.
    """
    settings = {key: value for key, value in options.items() if value is not None}
    if not settings:
        raise click.UsageError("say what to change, e.g. --waiting 500")
    _show_result(app, app.client().configuration.set_limits(settings, revision=revision))


@limits.command
@click.argument("callers")
@click.option("--waiting", type=amount, help="As in `set`.")
@click.option("--submissions", type=amount, help="As in `set`.")
@click.option("--priority", type=amount, help="As in `set`.")
@click.option(
    "--together/--apart", default=None, help="Count all of them as one caller, or each alone."
)
@click.option("--remove", is_flag=True, help="Remove the rule: they have everybody's limits.")
@json_option
@click.pass_obj
def rule(
    app: App, /, callers: str, *, together: bool | None, remove: bool, **options: int | None
) -> None:
    """Give CALLERS their own limits: a pattern for ARNs, where `*` matches any text.

    Limits that you do not name stay as they are; those of a new rule are everybody's. The first
    matching rule applies, and a new rule comes last. --together counts all of them as one caller.
    """
    wanted: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if together is not None:
        wanted["together"] = together
    if bool(wanted) == remove:
        raise click.UsageError("give a limit, e.g. --waiting 5000, or --remove")
    present = app.client().configuration.limits()
    rules = [entry.model_dump() for entry in present.limits.callers]
    existing = next((entry for entry in rules if entry["callers"] == callers), None)
    if remove:
        if existing is None:
            raise click.UsageError(f"there is no rule for {callers}")
        rules.remove(existing)
    elif existing is not None:
        existing.update(wanted)
    else:
        rules.append({"callers": callers, **wanted})
    _show_result(
        app, app.client().configuration.set_limits({"callers": rules}, revision=present.revision)
    )


def _show_result(app: App, view: LimitsView) -> None:
    app.answer(view, _page(view))


def _page(view: LimitsView) -> RenderableType:
    table = columns(
        "LIMIT",
        ">EACH CALLER",
        ">YOU MAY",
        ">YOU USE",
        ">ALL USE",
        "OF WHAT",
        leaves=("OF WHAT", "ALL USE", "EACH CALLER"),
    )
    general, own = view.limits.model_dump(), view.own.model_dump()
    all_use = {"waiting_in_all": view.use.waiting, "lines": view.use.lines}
    for key in MOST:
        of_a_caller = key in OF_A_CALLER
        table.add_row(
            key,
            limit(general[key]) if of_a_caller else "",
            limit(own[key]) if of_a_caller else "",
            str(own[f"{key}_used"]) if f"{key}_used" in own else "",
            f"{all_use[key]:,} of {limit(general[key])}" if key in all_use else "",
            _MEANINGS[key],
        )
    parts: list[RenderableType] = [table]
    if view.limits.callers:
        parts += [Text(""), _rules(view)]
    if view.own.counted_as != view.own.caller:
        parts.append(Text(f"you count as one caller with all of {view.own.counted_as}"))
    return Group(*parts)


def _rules(view: LimitsView) -> RenderableType:
    from slotq.output.pool_tables import who

    table = columns(
        "CALLERS", ">WAITING", ">SUBMISSIONS", ">PRIORITY", "COUNTED", leaves=("COUNTED",)
    )
    for rule in view.limits.callers:
        own = (rule.waiting, rule.submissions, rule.priority)
        counted = "together" if rule.together else "apart"
        table.add_row(who(rule.callers), *("-" if n is None else limit(n) for n in own), counted)
    return table


def limit(number: int) -> str:
    """A limit for people: `none` for 0."""
    return f"{number:,}" if number else "none"


@click.command
@json_option
@click.pass_obj
def whoami(app: App, /) -> None:
    """Show the person that the queue takes you for, and why; and your role in each project.

    The person counts for limits, for --mine and for who sees a request whole. Many sessions of one
    role may be one person.
    """
    me = app.client().service.me()
    app.answer(me, _identity_page(me))


def _identity_page(me: MeView) -> Table:
    page = Table.grid(padding=(0, 2))
    rows = [("person", me.person), ("caller", me.caller), ("why", me.why)]
    rows += [("" if n else "projects", _role(project)) for n, project in enumerate(me.projects)]
    for name, value in rows:
        page.add_row(Text(name, style="bold"), Text(value, overflow="fold"))
    return page


def _role(membership: MembershipView) -> str:
    default = ", your default" if membership.default else ""
    return f"{membership.name} ({membership.role}{default})"
