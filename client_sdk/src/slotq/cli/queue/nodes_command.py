"""`slotq nodes`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option


@click.command
@click.option("--pool", metavar="NAME", help="Only the nodes of this pool.")
@json_option
@click.pass_obj
def nodes(app: App, pool: str | None) -> None:
    """List the instances that pools keep, and the jobs on their GPUs.

    A node runs jobs that ask for --gpus. A job that you may not see has no name.
    """
    from slotq.output.node_tables import nodes_table
    from slotq_core.wire.views.nodes import NodesView

    found = app.client().pools.nodes()
    view = NodesView(nodes=[node for node in found if pool in {None, node.pool}])
    app.answer(view, nodes_table(view.nodes))
