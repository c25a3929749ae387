"""The blocks of a page, in order.

A fenced block is one, and so are lines indented by four spaces after an empty line. A block is the
content of a file if the sentence before names one of its kind in backticks ("Write `queue.yaml`:"),
or its first line is a comment with nothing but the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}

_BLOCK = re.compile(
    r"^```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```$|(?<=\n\n)(?P<indented>(?: {4}[^\n]*\n)+)",
    re.MULTILINE | re.DOTALL,
)
_FILES = {
    "json": ("json",),
    "yaml": ("yaml", "yml"),
    "toml": ("toml",),
    "csv": ("csv",),
    "python": ("py",),
    "": ("yaml", "yml", "json", "toml", "txt", "cfg", "py"),
}
"""Which files a block of each kind may be; the last entry is for blocks without a language."""
_SHOWN = frozenset({"", "none", "text", "indented"})


@dataclass(frozen=True, kw_only=True)
class Block:
    page: str
    line: int
    """The number of its first line in the page."""
    kind: str
    """The language behind the fence; `indented` for a block without a fence."""
    text: str
    file: str | None
    """The path of the file that it is the content of, below the reader's folder."""

    @property
    def shows_output(self) -> bool:
        return self.file is None and self.kind in _SHOWN

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> Iterator[Block]:
    text = PAGES[page].read_text()
    end = 0
    for found in _BLOCK.finditer(text):
        indented = found["indented"]
        kind = "indented" if indented else found["kind"]
        body = re.sub(r"^ {4}", "", indented, flags=re.MULTILINE) if indented else found["text"]
        yield Block(
            page=page,
            line=text.count("\n", 0, found.start()) + 1,
            kind=kind,
            text=body,
            file=_file(kind, body, text[end : found.start()]),
        )
        end = found.end()


def _file(kind: str, body: str, before: str) -> str | None:
    endings = "|".join(_FILES[""] if kind in _SHOWN else _FILES.get(kind, ("$.",)))
    path = rf"[\w./-]+\.(?:{endings})"
    if named := re.match(rf"# ({path})\n", body):
        return named[1]
    paragraph = before.rstrip().rpartition("\n\n")[2]
    if not paragraph.endswith(":"):
        return None
    sentence = re.split(r"(?<=\.)\s", paragraph)[-1]
    found = re.findall(rf"`({path})`", sentence)
    return found[-1] if found else None
