"""`slotq pools`: show the capacity that jobs run on, and change it; changes are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from slotq.cli.app import App, json_option, revision_option
from slotq.cli.setting_options import pool_setting_options
from slotq.cli.words import NamedAmount, NamedValue, Pair
from slotq.errors import NoSuchPool
from slotq_core.model.pools import PoolState
from slotq_core.model.reasons import units
from slotq_core.spelling import unknown

if TYPE_CHECKING:
    from slotq_core.wire.views.pools import PoolsView, PoolView


_PROGRESS_EVERY = 2
"""Seconds between two lines of progress."""

_account_option = click.option(
    "--account",
    is_flag=True,
    help="Show what runs in the account beside the queue, read with your own AWS credentials.",
)


@click.group(invoke_without_command=True)
@_account_option
@json_option
@click.pass_context
def pools(ctx: click.Context, *, account: bool) -> None:
    """Show and change the pools.

    `slotq pools` alone is `slotq pools list`. Every change is recorded (`slotq pools
    history`). A change needs a right that only operators should have (docs/guardrails.md).
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, account=account)
    elif account:
        raise click.UsageError("--account goes with `slotq pools` or `slotq pools list` alone")


@pools.command("list")
@_account_option
@json_option
@click.pass_obj
def list_(app: App, *, account: bool) -> None:
    """List each pool's capacity, use and health."""
    if account:
        _show_account(app)
        return
    _show_result(app, app.client().pools.view())


@pools.command
@click.argument("name")
@json_option
@click.pass_obj
def show(app: App, name: str) -> None:
    """Show one pool: its use, its health and all its settings."""
    from slotq.output.pool_tables import pool_page

    view = _pool(app.client().pools.view(), name)
    app.answer(view, pool_page(view))


@pools.command("set")
@click.argument("name")
@click.option("--slots", type=click.IntRange(0), help="Instances in the pool.")
@click.option(
    "--instance-type", metavar="TYPE", help="SageMaker's instance type, e.g. ml.p5.48xlarge."
)
@pool_setting_options
@click.option(
    "--resource",
    "resources",
    type=NamedAmount(),
    metavar="NAME=AMOUNT",
    multiple=True,
    help="A resource besides slots; give all of them.",
)
@click.option("--no-resources", is_flag=True, help="The pool has slots only.")
@click.option(
    "--property",
    "properties",
    type=NamedValue(),
    metavar="NAME=VALUE",
    multiple=True,
    help="A property of each slot, such as nvlink=1 or gpu_type=H100; repeat it to list all.",
)
@click.option("--no-properties", is_flag=True, help="The pool has no properties.")
@click.option(
    "--node",
    "nodes",
    type=Pair(),
    metavar="KEY=VALUE",
    multiple=True,
    help="How the pool keeps nodes, such as keep=10m; repeat it to give all of it.",
)
@click.option("--nodes/--no-nodes", "has_nodes", default=None, help="Keep nodes, or keep none.")
@click.option(
    "--window",
    "windows",
    metavar="WINDOW",
    multiple=True,
    help="When the pool is open, such as 'mon-fri 20:00-08:00 Europe/Berlin'; repeat it to list "
    "all.",
)
@click.option("--no-windows", is_flag=True, help="The pool is always open.")
@click.option(
    "--plan-arn",
    metavar="ARN",
    help="The training plan of a pool with --capacity-kind plan; none: no plan.",
)
@click.option(
    "--forget-limit",
    is_flag=True,
    help="Forget what SageMaker's refusals have shown of the pool; --slots does so too.",
)
@revision_option
@json_option
@click.pass_context
def set_(
    ctx: click.Context,
    /,
    *,
    name: str,
    revision: int | None,
    resources: tuple[tuple[str, int], ...],
    no_resources: bool,
    properties: tuple[tuple[str, int | bool | str], ...],
    no_properties: bool,
    nodes: tuple[tuple[str, str], ...],
    has_nodes: bool | None,
    windows: tuple[str, ...],
    no_windows: bool,
    **options: Any,
) -> None:
    """Change settings of pool NAME, or create it (with --slots and --instance-type).

    Other settings stay. `none` removes a time.
    """
    settings = {
        key: value
        for key, value in options.items()
        if ctx.get_parameter_source(key) is click.core.ParameterSource.COMMANDLINE
    }
    if resources or no_resources:
        settings["resources"] = dict(resources)
    if properties or no_properties:
        settings["properties"] = dict(properties)
    if nodes or has_nodes is not None:
        settings["nodes"] = _nodes(nodes, has_nodes)
    if windows or no_windows:
        settings["windows"] = [*windows]
    if settings.get("plan_arn") == "none":
        settings["plan_arn"] = None
    if not settings:
        raise click.UsageError("say what to change, e.g. --slots 4")
    _change(ctx.obj, name, settings, revision=revision)


@pools.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("slots")
@json_option
@click.pass_obj
def resize(app: App, name: str, slots: str) -> None:
    """Set the number of SLOTS of pool NAME, or change it: 4, +2, -1.

    Nothing is stopped: if more slots are in use, nothing starts until use has fallen.
    """
    if not slots.lstrip("+-").isdecimal() or len(slots) - len(slots.lstrip("+-")) > 1:
        raise click.UsageError(f"give SLOTS as 4, +2 or -1, not '{slots}'")
    if slots[0] not in "+-":
        _change(app, name, {"slots": int(slots)})
        return
    present = app.client().pools.view()
    wanted = _pool(present, name).settings.slots + int(slots)
    if wanted < 0:
        raise click.UsageError(f"pool {name} has only {wanted - int(slots)} slots")
    _change(app, name, {"slots": wanted}, revision=present.revision)


@pools.command
@click.argument("name")
@json_option
@click.pass_obj
def drain(app: App, name: str) -> None:
    """Start nothing more in pool NAME, and take it out of shares and claims.

    What runs there goes on to its end.
    """
    _change(app, name, {"state": PoolState.DRAINED.value})


@pools.command
@click.argument("name")
@json_option
@click.pass_obj
def pause(app: App, name: str) -> None:
    """Start nothing in pool NAME for now; it still counts in shares.

    What runs there goes on to its end.
    """
    _change(app, name, {"state": PoolState.PAUSED.value})


@pools.command
@click.argument("name")
@json_option
@click.pass_obj
def resume(app: App, name: str) -> None:
    """Let jobs start in the pool NAME again, after `pause` or `drain`."""
    _change(app, name, {"state": PoolState.ACTIVE.value})


@pools.command
@click.argument("name")
@revision_option
@json_option
@click.pass_obj
def remove(app: App, name: str, revision: int | None) -> None:
    """Remove the pool NAME. Refused while jobs run there, or wait for it alone."""
    _show_result(app, app.client().pools.remove(name, revision=revision))


@pools.command
@click.option("--limit", type=click.IntRange(1, 100), help="Show at most this many changes.")
@json_option
@click.pass_obj
def history(app: App, limit: int | None) -> None:
    """Show every change of the pools, the latest first: who, when, before and after."""
    from slotq.output.pool_tables import changes_table
    from slotq_core.wire.record import ChangesView

    changes = app.client().configuration.changes(limit=limit)
    app.answer(ChangesView(changes=changes), changes_table(changes))


def _nodes(pairs: tuple[tuple[str, str], ...], has_nodes: bool | None) -> dict[str, Any] | None:
    """The setting `nodes`. None: no nodes."""
    from slotq_core.wire.nodes.node_rules import from_texts

    if has_nodes is False:
        if pairs:
            raise click.UsageError("--no-nodes takes no --node")
        return None
    return from_texts(pairs)


def _change(
    app: App, name: str, settings: Mapping[str, Any], *, revision: int | None = None
) -> None:
    view = app.client().pools.set(name, settings, revision=revision)
    _show_result(app, view)
    for warning in view.warnings:
        click.echo(f"warning: {warning}", err=True)
    pool = next((pool for pool in view.pools if pool.name == name), None)
    if pool and not app.json and (over := pool.used["slots"] - pool.capacity["slots"]) > 0:
        click.echo(
            f"pool {name} now has {units(over, 'slots')} fewer than are in use: "
            "nothing is stopped, and nothing starts there until use has fallen",
            err=True,
        )


def _show_account(app: App) -> None:
    from slotq.account import Account
    from slotq.output.account_tables import account_page
    from slotq.output.json_views import AccountView

    client = app.client()
    pools_by_type: dict[str, list[str]] = {}
    for pool in client.pools.view().pools:
        pools_by_type.setdefault(pool.instance_type, []).append(pool.name)
    said = app.clock()

    def progress(kind: str, done: int, total: int) -> None:
        nonlocal said
        if not app.json and app.clock() - said >= _PROGRESS_EVERY:
            said = app.clock()
            click.echo(f"looked at {done:,} of {total:,} {kind} jobs in progress", err=True)

    account = Account(app.aws(client, "sagemaker"), now=app.now(), progress=progress)
    view = AccountView(kinds=account.kinds(), training_pools=pools_by_type)
    app.answer(view, account_page(view))


def _show_result(app: App, view: PoolsView) -> None:
    from slotq.output.pool_tables import pools_table

    app.answer(view, pools_table(view.pools))


def _pool(view: PoolsView, name: str) -> PoolView:
    """The pool of that name. Raises NoSuchPool."""
    found = next((pool for pool in view.pools if pool.name == name), None)
    if found is None:
        names = [pool.name for pool in view.pools]
        raise NoSuchPool(unknown("pool", name, names), field="name")
    return found
