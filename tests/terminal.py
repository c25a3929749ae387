"""A terminal that is none: runs a command under a pty, keeps what its screen shows, presses keys,
and makes a picture of it (docs/pictures/top.png is one).

    python -m tests.terminal PICTURE.png KEY… -- COMMAND…

runs the command, presses one key after the other, a second apart, and then takes the picture.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

KEYS = {"up": "\x1b[A", "down": "\x1b[B", "enter": "\r", "escape": "\x1b", "backspace": "\x7f"}
PATIENCE = 120.0
"""Seconds for which something is waited for."""
COLORS = {
    "default": "#d8d8d8",
    "black": "#1c1c1c",
    "red": "#e06c75",
    "green": "#7fb56a",
    "brown": "#d5a74f",
    "blue": "#61afef",
    "magenta": "#c678dd",
    "cyan": "#56b6c2",
    "white": "#d8d8d8",
}
BACKGROUND = "#101418"
_OWN = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal the command's own, so that Ctrl-C reaches it, also where the tests themselves
run in the background, which ignores it."""
SIZES = ("COLUMNS", "LINES")
"""Variables that would count more than the terminal's real size."""


class Terminal:
    """A command on a screen of its own. Ended, at the latest, when it is left."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.written = b""
        """All that the command has written."""
        inherited = {name: it for name, it in os.environ.items() if name not in SIZES}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OWN, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**inherited, "TERM": "xterm-256color", **(environment or {})},
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, key: str) -> None:
        os.write(self._master, KEYS.get(key, key).encode())

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def take(self, seconds: float) -> bool:
        """Take in what is written within the time. False: nothing was."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            written = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self._stream.feed(written)
        self.written += written
        return bool(written)

    def wait_for(self, *texts: str) -> str:
        """The screen, once all of these are on it."""
        until = time.monotonic() + PATIENCE
        while not all(text in self.text for text in texts):
            over = self.process.poll() is not None and not self.take(0.1)
            if over or time.monotonic() > until:
                raise AssertionError(f"{texts} are not on the screen:\n{self.text}")
            self.take(0.2)
        return self.text

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            self.take(0.1)
        while self.take(0):
            pass
        return self.process.wait(timeout=1)

    def picture(self, path: Path, *, size: int = 15) -> None:
        """The screen as a PNG."""
        from matplotlib import font_manager
        from PIL import Image, ImageDraw, ImageFont

        faces = {
            bold: ImageFont.truetype(
                font_manager.findfont(
                    font_manager.FontProperties(
                        family="DejaVu Sans Mono", weight="bold" if bold else "normal"
                    )
                ),
                size,
            )
            for bold in (False, True)
        }
        width, height = round(faces[False].getlength("M")), round(size * 1.3)
        image = Image.new(
            "RGB", (width * self.screen.columns, height * self.screen.lines), BACKGROUND
        )
        drawing = ImageDraw.Draw(image)
        for row in range(self.screen.lines):
            for column in range(self.screen.columns):
                cell = self.screen.buffer[row][column]
                front, back = (
                    _color(cell.fg),
                    BACKGROUND if cell.bg == "default" else _color(cell.bg),
                )
                if cell.reverse:
                    front, back = back, front
                x, y = column * width, row * height
                drawing.rectangle((x, y, x + width - 1, y + height - 1), fill=back)
                drawing.text((x, y), cell.data, font=faces[cell.bold], fill=front)
        image.quantize(128).save(path, optimize=True)


def _color(name: str) -> str:
    return COLORS.get(name.removeprefix("bright"), f"#{name}" if len(name) == 6 else "#d8d8d8")


def main() -> None:
    at = sys.argv.index("--")
    path, *keys = sys.argv[1:at]
    with Terminal(sys.argv[at + 1 :]) as terminal:
        for key in ["", *keys]:
            if key:
                terminal.press(key)
            until = time.monotonic() + 3
            while time.monotonic() < until:
                terminal.take(0.2)
        terminal.picture(Path(path))
        print(terminal.text)


if __name__ == "__main__":
    main()
