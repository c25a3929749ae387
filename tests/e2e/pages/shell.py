"""A shell, and how a block is cut into its statements."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.waiting import PATIENCE

_OF_A_SHELL = frozenset("|&;<>$`*?(){}\n")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a statement ended, and what it printed."""

    code: int
    printed: str


class Shell:
    """One bash, which keeps its variables and background processes from statement to statement."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._kept = folder.parent / "variables"
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, statement: str) -> Ran:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        mark, kept = uuid.uuid4().hex, shlex.quote(str(self._kept))
        self._bash.stdin.write(
            f"{{ {statement}\n}} < /dev/null\n"
            f"code=$?; env -0 > {kept}; printf '\\n%s %s\\n' {mark} $code\n"
        )
        self._bash.stdin.flush()
        too_long = threading.Timer(PATIENCE, self.close)
        too_long.start()
        printed = ""
        try:
            for line in self._bash.stdout:
                if line.startswith(mark):
                    return Ran(code=int(line.split()[1]), printed=printed.removesuffix("\n"))
                printed += line
        finally:
            too_long.cancel()
        raise AssertionError(f"{statement}: it has not ended within {PATIENCE:g} s: {printed}")

    def variables(self) -> dict[str, str]:
        """What it has exported, after its last statement."""
        pairs = [pair.partition("=") for pair in self._kept.read_text().split("\0") if pair]
        return {name: value for name, _, value in pairs if name not in {"_", "SHLVL", "OLDPWD"}}

    def close(self) -> None:
        """End it, and what it has left in the background."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)


def statements(text: str) -> Iterator[str]:
    """The statements of a block: a line each, or as many lines as bash wants for one."""
    gathered = ""
    for line in text.splitlines(keepends=True):
        gathered += line
        if gathered.strip() and not gathered.endswith("\\\n") and _is_whole(gathered):
            if not re.match(r"\s*#[^\n]*$", gathered):
                yield gathered.strip()
            gathered = ""
    assert not gathered.strip(), f"no whole statement: {gathered}"


def _is_whole(text: str) -> bool:
    if not re.search(r"[\"'`({]|<<|\b(do|then|in)\b", text):
        return True
    asked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    return asked.returncode == 0 and not asked.stderr


def plain_words(statement: str) -> list[str] | None:
    """The words of a command without anything of a shell in it; None for another statement."""
    unquoted = re.sub(r"\s#[^\n]*", "", re.sub(r"'[^']*'", "", statement))
    if _OF_A_SHELL & set(unquoted):
        return None
    words = shlex.split(statement, comments=True)
    return None if "=" in words[0] else words
