"""A change that was tried in thought, put into force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from slotq.cli.whatif.wanted import Wanted
from slotq.client import QueueClient
from slotq.errors import SlotQError
from slotq.simulate.whatif.changes import steps


def put(
    client: QueueClient, wanted: Wanted, document: Mapping[str, Any] | None, revision: int
) -> None:
    """Apply the configuration (None: it stays) and then each change of a job, and say so on stderr.
    Stops at the first refusal; what was done before stays. Raises what the queue refuses with."""
    done = 0
    try:
        for said, do in steps(client, wanted.change, document, revision, requests=wanted.requests):
            do()
            click.echo(said, err=True)
            done += 1
    except SlotQError:
        if done:
            click.echo("the changes above are in force; the next one was refused", err=True)
        raise
