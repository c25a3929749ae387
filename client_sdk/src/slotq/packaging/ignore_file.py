"""Which files of a folder stay at home: what an ignore file says, in git's own language.

Of a pattern: `#` begins a comment, `!` takes back, a `/` at the end means folders only, one before
means this very path, `*` and `?` stop at slashes, `**` does not. The last pattern that fits counts,
and nothing below an ignored folder is looked at.
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
"""What no training job needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    folders_only: bool
    ignored: bool


class Ignored:
    """The patterns of an ignore file, after those that always hold."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._rules = [rule for line in (*ALWAYS, *lines) if (rule := _rule(line))]

    def ignores(self, path: str, *, folder: bool) -> bool:
        """`path`: from the root of what is packed, with slashes, without one at its end."""
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
