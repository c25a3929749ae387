"""Writes the Lambda's log lines and metrics to a file instead of the emulator's terminal."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


class LambdaLog(io.TextIOBase):
    """Replaces sys.stdout. Text printed `inside` goes to the file, other text to the terminal as
    before."""

    def __init__(self, file: Path, before: TextIO) -> None:
        super().__init__()
        self._log = file.open("w", encoding="utf-8", buffering=1)
        self._before = before
        self._inside = threading.local()

    @classmethod
    def install(cls, file: Path) -> LambdaLog:
        """Replace sys.stdout permanently."""
        log = cls(file, sys.stdout)
        sys.stdout = log
        return log

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Mark this thread as running the Lambda's code."""
        self._inside.here = True
        try:
            yield
        finally:
            self._inside.here = False

    def write(self, text: str) -> int:
        return self._stream().write(text)

    def flush(self) -> None:
        self._stream().flush()

    def isatty(self) -> bool:
        return self._stream().isatty()

    def fileno(self) -> int:
        return self._stream().fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override] # io declares a plain attribute
        return self._stream().encoding

    def _stream(self) -> TextIO:
        return self._log if getattr(self._inside, "here", False) else self._before
