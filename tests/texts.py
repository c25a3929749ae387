"""The repository's own text files, and the headings of its pages."""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LEFT_OUT = {".git", ".venv", ".aws-sam", ".cache", "node_modules", "build", "built", "dist"}
TEXT = {"", ".cfg", ".json", ".md", ".mk", ".py", ".sh", ".toml", ".ts", ".tsx", ".txt", ".yaml"}
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def texts() -> Iterator[tuple[Path, str]]:
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in LEFT_OUT and "cache" not in name]
        for path in (Path(folder, name) for name in names):
            if path.suffix in TEXT and path.stat().st_size < 1_000_000:
                yield path, path.read_text(errors="replace")


@cache
def headings(page: Path) -> tuple[str, ...]:
    text = CODE.sub("", page.read_text())
    return tuple(re.findall(r"^#+ (.+?) *$", text, re.MULTILINE))


@cache
def anchors(page: Path) -> frozenset[str]:
    """What `#…` may follow the page's name in a link, as GitHub makes it of the headings."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in headings(page):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(found)
