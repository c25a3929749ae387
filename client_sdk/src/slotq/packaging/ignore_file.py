"""Which files of a folder are not packed, from an ignore file in git's syntax.

In a pattern, `#` begins a comment, `!` cancels an earlier match, a final `/` matches only folders,
and an initial `/` anchors the pattern at the root. `*` and `?` do not match slashes, `**` does. The
last matching pattern counts, and nothing below an ignored folder is examined.
"""

from __future__ import annotations

import re
import string
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
    text = re.sub(r"(?<!\\)\s+$", "", line)
    if not text or text.startswith("#"):
        return None
    ignored = not text.startswith("!")
    text = text.removeprefix("!")
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    here = "" if "/" in text else "(?:.*/)?"
    return _Rule(
        pattern=re.compile(here + _regex(text.removeprefix("/")), re.DOTALL),
        folders_only=folders_only,
        ignored=ignored,
    )


_PARTS = re.compile(
    r"(?P<deep>(?:^|(?<=/))\*\*/)|(?P<all>(?<=/)\*\*$)|(?P<some>\*+)|(?P<one>\?)"
    r"|\[(?P<other>[!^]?)(?P<set>\]?(?:\\.|\[:[a-z]+:\]|[^]\\])*)\]"
    r"|(?P<never>\[|\\$)|\\?(?P<text>.)",
    re.DOTALL,
)
_MEANS = {"deep": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]", "never": "(?!)"}
_MEMBERS = re.compile(r"\[:(?P<class>[a-z]+):\]|\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.DOTALL)
_CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "digit": string.digits,
    "lower": string.ascii_lowercase,
    "punct": string.punctuation,
    "space": string.whitespace,
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


def _regex(glob: str) -> str:
    return "".join(map(_part, _PARTS.finditer(glob)))


def _part(found: re.Match[str]) -> str:
    if found["set"] is not None:
        members = "".join(map(_member, _MEMBERS.finditer(found["set"])))
        among = f"[{members}]" if members else "(?!)"
        return f"(?!{among})[^/]" if found["other"] else f"(?!/){among}"
    return re.escape(found["text"]) if found["text"] else _MEANS[found.lastgroup or ""]


def _member(found: re.Match[str]) -> str:
    """One member of a set, as in a set of `re`; empty where it is none."""
    if found["class"]:
        return re.escape(_CLASSES.get(found["class"], ""))
    low, high = found["low"], found["high"] or found["low"]
    return f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
