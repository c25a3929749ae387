"""docs/notifications.md says what is so."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from slotq_core.model.notices import JobEvent
from slotq_core.notices import payloads
from slotq_core.notices.payloads import Message
from slotq_core.notices.places import KEPT_UNDER

PAGE = (Path(__file__).parents[3] / "docs" / "notifications.md").read_text()
MESSAGE = Message(id="1", notification="n", event="failed", title="t", text="<b>", at=0, job="j")


def test_its_receiver_accepts_what_is_sent_and_nothing_else():
    (code,) = [
        text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "verified" in text
    ]
    names: dict[str, Any] = {}
    exec(code, names)
    verified, body = names["verified"], payloads.webhook_body(MESSAGE, "q")
    now = int(time.time() * 1000)
    headers = payloads.headers("1", body, "key", now)
    assert verified(headers, body, "key") == json.loads(body)
    assert verified(headers, body, "another") is None
    assert verified(headers, body.replace(b"failed", b"finish"), "key") is None
    old = payloads.headers("1", body, "key", now - 301_000)
    assert verified(old, body, "key") is None
    replayed = {"SlotQ-Signature": old["SlotQ-Signature"].replace(*_moments(old, headers))}
    assert verified(replayed, body, "key") is None


def _moments(*headers: dict[str, str]) -> list[str]:
    return [re.findall(r"t=(\d+)", each["SlotQ-Signature"])[0] for each in headers]


def test_it_lists_every_event_and_every_field():
    first, second = re.findall(
        r"\| event \| when \|\n.*?\n\n|\| field of the body.*?\n\n", PAGE, re.DOTALL
    )
    assert re.findall(r"^\| `(\w+)` \|", first, re.MULTILINE) == [each.value for each in JobEvent]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", second, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == set(json.loads(payloads.webhook_body(MESSAGE, "q")))
    assert KEPT_UNDER in PAGE
    for header in (payloads.SIGNATURE, payloads.EVENT_ID):
        assert header in PAGE
