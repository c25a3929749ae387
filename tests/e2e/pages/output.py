"""Whether what a page shows is what was printed.

A shown line has to be among the printed ones. Any number of spaces is like one, `…` stands for
anything, and a time for any time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_TIMES = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?",
    r"\d{4}-\d\d-\d\d",
    r"\d\d:\d\d(?::\d\d)?",
    r"\d[\d,.]* (?:ms|s|min|h|d)\b",
)
_ANY_TIME = re.compile("|".join(_TIMES))


def missing(shown: str, printed: Iterable[str]) -> list[str]:
    """The shown lines that nobody has printed."""
    lines = [_plain(line) for text in printed for line in text.splitlines()]
    return [
        line
        for line in shown.splitlines()
        if line.strip() and not any(_pattern(line).fullmatch(each) for each in lines)
    ]


def _plain(line: str) -> str:
    return " ".join(_ANY_TIME.sub("TIME", line).split())


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in _plain(line).split("…")))
