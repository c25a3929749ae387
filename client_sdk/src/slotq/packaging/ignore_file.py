"""Which files of a folder are not packed, from an ignore file in git's syntax.

In a pattern, `#` begins a comment, `!` cancels an earlier match, a final `/` matches only folders,
and an initial `/` anchors the pattern at the root. `*` and `?` do not match slashes, `**` does. The
last matching pattern counts, and nothing below an ignored folder is examined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

ALWAYS = (
    ".git/",
    ".hg/",
    ".svn/",
    "__pycache__/",
    "*.pyc",
    ".venv/",
    "venv/",
    ".ipynb_checkpoints/",
)
"""Patterns for files that no training job needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    folders_only: bool
    ignored: bool


class Ignored:
    """The patterns of an ignore file, after the patterns in ALWAYS."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._rules = [rule for line in (*ALWAYS, *lines) if (rule := _rule(line))]

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Whether `path` is ignored: relative to the packed folder, without a final slash."""
        fitting = (
            rule.ignored
            for rule in reversed(self._rules)
            if (folder or not rule.folders_only) and rule.pattern.fullmatch(path)
        )
        return next(fitting, False)


def _rule(line: str) -> _Rule | None:
    text = line.rstrip("\n").rstrip()
    if not text or text.startswith("#"):
        return None
    ignored = not text.startswith("!")
    text = text.removeprefix("!").removeprefix("\\")
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    here = "" if "/" in text else "(?:.*/)?"
    return _Rule(
        pattern=re.compile(here + _regex(text.removeprefix("/")), re.DOTALL),
        folders_only=folders_only,
        ignored=ignored,
    )


_PARTS = re.compile(r"(?P<deep>\*\*/)|(?P<all>\*\*)|(?P<some>\*)|(?P<one>\?)|(?P<set>\[[^]/]+\])")
_MEANS = {"deep": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}


def _regex(glob: str) -> str:
    made, at = "", 0
    for found in _PARTS.finditer(glob):
        made += re.escape(glob[at : found.start()])
        kind = found.lastgroup or ""
        made += _MEANS.get(kind, found.group().replace("[!", "[^"))
        at = found.end()
    return made + re.escape(glob[at:])
