"""Another person on the emulator: a role that the emulator's own user assumes."""

from __future__ import annotations

import getpass
import re

from slotq.local.endpoint import Endpoint
from slotq.local.keys import USER
from slotq_core.errors import SlotQError

_NAME = r"[\w+=,.@-]"
_ROLE = re.compile(
    r"arn:aws:iam::(?P<of_role>[0-9]{12}):role/([!-~]{1,510}/)?(?P<role>@{1,64})"
    r"|arn:aws:sts::(?P<of_session>[0-9]{12}):assumed-role/(?P<assumed>@{1,64})/(?P<session>@{2,64})"
    r"|(?P<bare>@{1,64})".replace("@", _NAME),
    re.ASCII,
)
_SESSION = re.compile(rf"{_NAME}{{2,64}}", re.ASCII)
_SECONDS = 12 * 3600
"""The longest session that STS gives."""


class NotARole(SlotQError):
    """The emulator can make no credentials for this name."""


def variables(endpoint: Endpoint, name: str) -> dict[str, str]:
    """Environment variables with credentials of a role, given by its name, its ARN, or the ARN of a
    session of it. The role need not exist. Raises NotARole."""
    arn, session = _role(name, endpoint.account)
    made = endpoint.client("sts").assume_role(
        RoleArn=arn, RoleSessionName=session or _user(), DurationSeconds=_SECONDS
    )["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": made["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"],
        "AWS_SESSION_TOKEN": made["SessionToken"],
    }


def _role(name: str, account: str) -> tuple[str, str | None]:
    """The ARN of the role, and the session where the name says one. Raises NotARole."""
    found = _ROLE.fullmatch(name)
    if found is None:
        raise NotARole(
            f"'{name}' is no role: give its name, as in `slotq local as Operator -- slotq whoami`, "
            "or its ARN (of a role, or of a session of one)"
        )
    if (found["of_role"] or found["of_session"] or account) != account:
        raise NotARole(f"{name} is of another account: the emulator's is {account}")
    if found["of_role"]:
        return name, None
    return f"arn:aws:iam::{account}:role/{found['assumed'] or found['bare']}", found["session"]


def _user() -> str:
    """The session's name: who works on this machine."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # A user without an account.
        return USER
    return name if _SESSION.fullmatch(name) else USER
