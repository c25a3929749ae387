"""Reads and writes what the queue and training scripts tell each other below their checkpoints in
S3 (the formats: `marker_name` of slotq_training.py).

The bucket, its key and what lies in it are the users': whatever goes wrong there, the queue only
cannot reach the script. Each call is short.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from slotq_core.model.attempts import Attempt
from slotq_core.ports.surroundings import Clock

MARKER_VERSION = 1

_CONNECT, _READ, _TRIES = 1, 2, 2
"""Seconds to connect and to read, and the number of tries of each call."""


def s3_client() -> Any:
    """Return a client for short calls."""
    from botocore.config import Config
    from botocore.session import get_session

    config = Config(
        connect_timeout=_CONNECT,
        read_timeout=_READ,
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        user_agent_extra="slotq",
    )
    return get_session().create_client("s3", config=config)


class S3Scripts:
    """The training scripts, through S3 (`ports.Scripts`). `make_client` is called with the first
    call: most cold starts never need it."""

    def __init__(self, *, clock: Clock, make_client: Callable[[], Any] = s3_client) -> None:
        self._clock = clock
        self._make_client = make_client
        self._built: Any = None

    def ask(self, attempt: Attempt) -> bool:
        place = _place(attempt, "suspend.json")
        until = attempt.stop.grace_until if attempt.stop else None
        if place is None or until is None:
            return False
        now = self._clock.now()
        marker = {"version": MARKER_VERSION, "asked_at": now, "grace": max(0, until - now) / 1000}
        try:
            self._client.put_object(**place, Body=json.dumps(marker).encode())
        except Exception:  # noqa: BLE001 - a user's bucket must stop nothing
            return False
        return True

    @property
    def _client(self) -> Any:
        if self._built is None:
            self._built = self._make_client()
        return self._built


def _place(attempt: Attempt, name: str) -> dict[str, str] | None:
    """Where the file of that name of this attempt lies, as arguments of a call; None: nowhere."""
    scheme, _, rest = attempt.checkpoints.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme != "s3" or not bucket:
        return None
    folder = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
    return {"Bucket": bucket, "Key": f"{folder}_slotq/{attempt.training_job}/{name}"}
