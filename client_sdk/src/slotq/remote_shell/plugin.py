"""The Session Manager plugin, which runs sessions of AWS Systems Manager on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from slotq.errors import NoShell

PLUGIN = "session-manager-plugin"
_RESPONSE = "AWS_SSM_START_SESSION_RESPONSE"
"""The variable in which newer plugins take SSM's answer."""
_LAST_WITHOUT_VARIABLE = (1, 2, 497, 0)


@dataclass(frozen=True, kw_only=True)
class PluginCall:
    """A call of the plugin."""

    command: Sequence[str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables for the plugin alone."""

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.secrets}


def check_installed() -> None:
    """Raises NoShell if the plugin is not on the PATH."""
    if shutil.which(PLUGIN) is None:
        raise NoShell(
            f"{PLUGIN} is not on the PATH: install it (see “Install the Session Manager plugin "
            "for the AWS CLI” in AWS's documentation), then try again"
        )


def call_of(
    answer: Mapping[str, Any],
    request: Mapping[str, Any],
    *,
    region: str,
    profile: str | None,
    endpoint: str,
) -> PluginCall:
    """The call that runs the session that SSM's answer to `request` has started: the AWS CLI's.

    The answer has the session's token. A plugin that can take it from a variable gets it so: every
    user of the machine can read a command line. boto3 names the profile `default` where none is
    chosen; the plugin would then overlook credentials in the environment.
    """
    started = json.dumps(
        {key: answer[key] for key in ("SessionId", "TokenValue", "StreamUrl") if key in answer}
    )
    hidden = _version() > _LAST_WITHOUT_VARIABLE
    chosen = profile if profile and profile != "default" else ""
    what = [region, "StartSession", chosen, json.dumps(request), endpoint]
    return PluginCall(
        command=[PLUGIN, _RESPONSE if hidden else started, *what],
        secrets={_RESPONSE: started} if hidden else {},
    )


def _version() -> tuple[int, ...]:
    """The plugin's version; empty if unknown."""
    try:
        # The command is the plugin.
        said = subprocess.run(  # noqa: S603 # nosec B603
            [PLUGIN, "--version"], check=False, capture_output=True, text=True, timeout=10
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.fullmatch(r"[0-9]+(\.[0-9]+){1,5}", said.strip(), re.ASCII)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def on_this_terminal(call: PluginCall) -> int:
    """Run a session on this terminal and return its exit code. Keys such as Ctrl-C and Ctrl-Z
    affect the session alone."""
    with _signals_passed_by():
        # The command is the plugin.
        ended = subprocess.run(  # noqa: S603 # nosec B603
            call.command, check=False, env=call.environment
        )
        return ended.returncode


@contextmanager
def _signals_passed_by() -> Iterator[None]:
    names = ("SIGINT", "SIGQUIT", "SIGTSTP")
    kept = {
        number: signal.signal(number, signal.SIG_IGN)
        for number in (getattr(signal, name, None) for name in names)
        if number is not None
    }
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


class Sessions:
    """Sessions side by side. SIGINT and SIGTERM end all of them, so that none outlives us.

    A context manager: leaving it ends what still runs. Only for the main thread.
    """

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []
        self._kept: dict[int, Any] = {}
        self._interrupted = False

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._kept[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end()
            for process in self._running:
                process.wait()
        finally:
            for number, handler in self._kept.items():
                signal.signal(number, handler)

    def start(self, call: PluginCall) -> None:
        # The command is the plugin.
        process = subprocess.Popen(  # noqa: S603 # nosec B603
            call.command, env=call.environment, stdin=subprocess.DEVNULL
        )
        self._running.append(process)
        if self._interrupted:
            self._end()

    def wait(self) -> int:
        """Wait for all; returns the first exit code that is not 0. Raises KeyboardInterrupt if a
        signal ended them."""
        codes = [process.wait() for process in self._running]
        if self._interrupted:
            raise KeyboardInterrupt
        return next((code for code in codes if code), 0)

    def _interrupt(self, *_: object) -> None:
        self._interrupted = True
        self._end()

    def _end(self) -> None:
        for process in self._running:
            if process.poll() is None and os.name == "nt":
                process.terminate()
            elif process.poll() is None:
                process.send_signal(signal.SIGINT)  # The plugin then ends its session with SSM.
