"""`slotq ui`: the queue in the browser."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from slotq.cli.app import App

_TRIES = 2
"""Tries of one call. The page itself asks again after some seconds."""


@click.command
@click.argument("path", default="/")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the page on 127.0.0.1.  [default: any free one]",
)
@click.option("--browser/--no-browser", default=True, help="Open the page in the browser.")
@click.pass_obj
def ui(app: App, path: str, port: int, *, browser: bool) -> None:
    """Show the queue in the browser, live. PATH is a view, e.g. /jobs/train-7.

    The page is served on 127.0.0.1 and signs with your credentials: it may do what you may do.
    Runs until Ctrl-C.
    """
    from slotq.transport.signed_http import Transport
    from slotq.ui.built_page import BuiltPage
    from slotq.ui.logs import Logs
    from slotq.ui.own_calls import OwnCalls
    from slotq.ui.page_server import PageServer
    from slotq.ui.relay import PageRelay

    page = BuiltPage()
    client = app.client()
    relay = PageRelay(Transport(client.config, tries=_TRIES))
    logs = Logs(client.jobs, lambda: app.aws(client, "logs"))
    try:
        server = PageServer(port=port, page=page, relay=relay, logs=logs, own=OwnCalls(client))
    except OSError as error:
        raise click.UsageError(
            f"port {port} cannot be used ({error.strerror}): choose another with --port"
        ) from None
    link = server.gate.link(path if path.startswith("/") else f"/{path}")
    with server:
        app.console(stderr=True).print(
            f"The queue is at {link}\nPress Ctrl-C to end.", soft_wrap=True, markup=False
        )
        if browser:
            webbrowser.open(link)
        server.serve_forever(poll_interval=0.2)
