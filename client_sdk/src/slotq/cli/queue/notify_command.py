"""`slotq notify`: test messages to the receivers of notifications."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from slotq.cli.app import App, json_option
from slotq.errors import Refused, SlotQError
from slotq_core.adapters.receivers.sending import Sender
from slotq_core.errors import NotDelivered
from slotq_core.notices import composing, payloads
from slotq_core.spelling import unknown

if TYPE_CHECKING:
    from slotq_core.model.notices import Notification


@click.group
def notify() -> None:
    """Test the notifications of started, evicted and failed jobs (docs/notifications.md)."""


@notify.command
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Print the message, and send nothing.")
@json_option
@click.pass_obj
def test(app: App, name: str, *, dry_run: bool) -> None:
    """Send a test message to the receiver of the notification NAME.

    It is sent from this machine, with your own rights: sns:Publish on the topic, or the right to
    read the secret. So it shows that the receiver exists and accepts the message. The queue sends
    with rights of its own.
    """
    from slotq.output.json_views import NotifiedView
    from slotq_core.wire.document.contents import read

    client = app.client()
    rule = _rule(read(client.configuration.document().configuration).sharing.notifications, name)
    now = time.time_ns() // 1_000_000
    message, queue = composing.test(rule, now), "slotq"
    if not dry_run:
        click.echo(f"sending to the receiver of {name} …", err=True)
        sender = Sender(lambda service: app.aws(client, service), queue=queue, loopback=True)
        try:
            sender.send(message, rule.receiver, now=now)
        except NotDelivered as error:
            raise app.fail(SlotQError(f"{name}: {error}"), _NEXT) from error
    body = payloads.webhook_body(message, queue)
    view = NotifiedView(notification=name, sent=not dry_run, message=json.loads(body))
    said = f"{message.title}\n{message.text}"
    app.answer(view, said if dry_run else f"{name}: the receiver took it")


_NEXT = 'See docs/notifications.md, "When nothing arrives".'


def _rule(rules: tuple[Notification, ...], name: str) -> Notification:
    found = next((rule for rule in rules if rule.name == name), None)
    if found is None:
        known = [rule.name for rule in rules]
        raise Refused(unknown("notification", name, known), field="name")
    return found
