"""The files of the page, as packaging has built them from client_sdk/ui.

The page is built where node is at hand and travels inside the wheel. A checkout builds it with
`make ui`.
"""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from slotq.errors import NotConfigured
from slotq.installation import editable_folder

FOLDER = Path(__file__).with_name("built")
_INDEX = "index.html"


@dataclass(frozen=True, kw_only=True)
class File:
    content: bytes
    kind: str
    lasting: bool
    """Whether its name changes with its content, so that a browser may keep it."""


class BuiltPage:
    """The page's files by their address. Read once: nothing but these is ever served."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """Raises NotConfigured: this installation has no page."""
        if not (folder / _INDEX).is_file():
            raise NotConfigured(
                f"this installation has no web page. {_remedy()}. `slotq top` shows the queue in "
                "the terminal"
            )
        self._folder = folder

    @cached_property
    def _files(self) -> dict[str, File]:
        return {
            f"/{path.relative_to(self._folder).as_posix()}": _read(path)
            for path in sorted(self._folder.rglob("*"))
            if path.is_file()
        }

    def at(self, path: str) -> File | None:
        """The file at this address. Each view's address gives the page itself, which then shows
        that view. None: a file that there is not."""
        if found := self._files.get(path):
            return found
        if path.startswith("/assets/"):
            return None
        return self._files[f"/{_INDEX}"]


def _remedy() -> str:
    if folder := editable_folder():
        return f"`make ui` in {folder.parent} builds it, with node and npm"
    return "Its wheel was built without npm: install one that `make wheels` has built"


def _read(path: Path) -> File:
    kind = mimetypes.types_map.get(path.suffix, "application/octet-stream")
    if path.suffix in {".html", ".js", ".css", ".svg"}:
        kind = {".js": "text/javascript"}.get(path.suffix, kind) + "; charset=utf-8"
    return File(content=path.read_bytes(), kind=kind, lasting=path.parent.name == "assets")
