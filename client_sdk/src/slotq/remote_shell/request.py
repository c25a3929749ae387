"""What a request needs so that a shell can be opened in its job.

SageMaker starts the SSM agent in a container only with remote debugging, and the agent reaches SSM
only without network isolation. A project may fix either, so its rules are read as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slotq.errors import NoShell
from slotq_core.wire.training.field_paths import MISSING, value_at, with_value

_DEBUG = "RemoteDebugConfig.EnableRemoteDebug"
_ISOLATED = "EnableNetworkIsolation"
_WHY = {
    _DEBUG: "without remote debugging SageMaker opens no shell",
    _ISOLATED: "SSM does not reach a container with network isolation",
}
_NEEDED = {_DEBUG: True, _ISOLATED: False}


def with_remote_debug(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request with remote debugging. Raises NoShell if the request excludes a shell."""
    for path, needed in _NEEDED.items():
        value = value_at(request, path)
        if value is not MISSING and value is not None and value is not needed:
            raise NoShell(
                f"the request sets {path} to {_said(value)}: {_WHY[path]}. Change it, or submit "
                "without --shell and --forward"
            )
    return with_value(request, _DEBUG, _NEEDED[_DEBUG])


def check_project(request: Mapping[str, Any], name: str, project: Mapping[str, Any]) -> None:
    """Check that the project leaves the request a shell. `project` is its entry in the
    configuration. Raises NoShell."""
    rules = project.get("requests") or {}
    for path, needed in _NEEDED.items():
        fixed = _prescribed(rules.get("fixed"), path)
        if fixed is not MISSING and fixed is not needed:
            raise NoShell(
                f"project {name} fixes {path} to {_said(fixed)}: {_WHY[path]}. Submit without "
                "--shell and --forward, or to another project"
            )
        value, default = value_at(request, path), _prescribed(rules.get("defaults"), path)
        if value is MISSING and default is not MISSING and default is not needed:
            raise NoShell(
                f"project {name} sets {path} to {_said(default)} by default: {_WHY[path]}. Set it "
                f"to {_said(needed)} in the request, or submit without --shell and --forward"
            )


def _prescribed(values: Mapping[str, Any] | None, path: str) -> Any:
    """What a project's values make of the field; MISSING if they leave it."""
    filled: Mapping[str, Any] = {}
    for key, value in (values or {}).items():
        filled = with_value(filled, key, value)
    return value_at(filled, path)


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
