"""Keys from a terminal, by name: `a`, `up`, `enter`, `escape` …"""

from __future__ import annotations

import os
import re
import select
import sys
from types import TracebackType
from typing import Any, Protocol, Self

_NAMES = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[H": "home",
    "\x1b[1~": "home",
    "\x1b[F": "end",
    "\x1b[4~": "end",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1bOP": "f1",
    "\x1b[11~": "f1",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
}
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|\x1b|.", re.DOTALL)
_END_OF_INPUT = "q"


class KeySource(Protocol):
    """A source of keys."""

    def read(self, timeout: float) -> list[str]:
        """The keys pressed since the last call; waits for a key for at most `timeout` seconds."""


def named(text: str) -> list[str]:
    """The keys in the input from a terminal; unknown escape sequences are ignored."""
    return [_NAMES.get(key, key) for key in _KEY.findall(text) if key in _NAMES or key[0] != "\x1b"]


class Keyboard:
    """The terminal on standard input: inside the context, it delivers single keys without echo.

    Ctrl-C still interrupts. Ctrl-Z does nothing: it would leave the screen to the shell.
    """

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        import termios
        import tty

        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        ours = termios.tcgetattr(self._fd)
        ours[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(self._fd, termios.TCSANOW, ours)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import termios

        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def read(self, timeout: float) -> list[str]:
        """The keys pressed within `timeout` seconds. A closed terminal counts as `q`."""
        ready, _, _ = select.select([self._fd], [], [], timeout)
        if not ready:
            return []
        sent = os.read(self._fd, 1024)
        return named(sent.decode(errors="replace")) if sent else [_END_OF_INPUT]
