"""How messages to webhooks are signed: HMAC-SHA256 over the moment and the body.

`SlotQ-Signature: t=1795000000,v1=HEX`, where HEX is the HMAC of `1795000000.BODY` under the shared
key. A receiver that refuses old moments refuses replays.
"""

from __future__ import annotations

import hashlib
import hmac

SIGNATURE = "SlotQ-Signature"
EVENT_ID = "SlotQ-Event-Id"


def headers(event_id: str, body: bytes, key: str, now: int) -> dict[str, str]:
    """Return the headers of a signed message. `now`: ms."""
    moment = str(now // 1000)
    return {EVENT_ID: event_id, SIGNATURE: f"t={moment},v1={signed(moment, body, key)}"}


def signed(moment: str, body: bytes, key: str) -> str:
    text = moment.encode() + b"." + body
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()
