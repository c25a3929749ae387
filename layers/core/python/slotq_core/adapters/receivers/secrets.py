"""Secrets, read from where an operator has stored them. None is ever logged or shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slotq_core.errors import NotDelivered

KEPT = 300_000
"""How long (ms) a secret that was read is used: a changed one counts five minutes later."""

_LONGEST = 4096


class Secrets:
    def __init__(self, client: Callable[[str], Any]) -> None:
        """`client` creates a client of boto3 for `ssm` or `secretsmanager` on first use."""
        self._client = client
        self._read: dict[str, tuple[int, str]] = {}

    def value(self, reference: str, *, now: int) -> str:
        """Return the secret. Raises NotDelivered."""
        since, value = self._read.get(reference, (0, ""))
        if not value or now - since >= KEPT:
            value = self._fetched(reference)
            self._read[reference] = (now, value)
        return value

    def _fetched(self, reference: str) -> str:
        try:
            if reference.startswith("ssm:"):
                name = reference.removeprefix("ssm:")
                answer = self._client("ssm").get_parameter(Name=name, WithDecryption=True)
                value = answer["Parameter"]["Value"]
            else:
                answer = self._client("secretsmanager").get_secret_value(SecretId=reference)
                value = answer["SecretString"]
        except Exception as error:  # noqa: BLE001 - a right may miss, or the secret, or an answer
            raise NotDelivered(f"its secret cannot be read ({reason(error)})") from None
        value = str(value).strip()
        if not 0 < len(value) <= _LONGEST:
            raise NotDelivered("its secret is empty or too long")
        return value


def reason(error: Exception) -> str:
    """Return AWS's code of an error, or the error's kind. Never its text, which may quote."""
    answer = getattr(error, "response", None)
    code = answer.get("Error", {}).get("Code") if isinstance(answer, dict) else None
    return str(code or type(error).__name__)[:100]
