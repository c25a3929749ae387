"""A document as YAML text, and the entries in which two documents differ, as people read them.

The text is always the same for the same contents, so git shows what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import unified_diff
from typing import Any

import yaml

from slotq_core.wire.document.differences import document_differences
from slotq_core.wire.document.views import EntryChangeView, entry_change_view


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    """Repeats a value instead of referring to it."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text_of(value: Any) -> str:
    """Return a value as YAML, one key a line."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return text


def document_text(document: Mapping[str, Any]) -> str:
    """Return the whole document, with an empty line between sections."""
    return "\n".join(text_of({name: section}) for name, section in document.items())


_CONTEXT = 3


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[EntryChangeView]:
    """Return the entries that differ between two canonical documents."""
    return [
        entry_change_view(difference) for difference in document_differences({**before}, {**after})
    ]


def diff_lines(changes: Iterable[EntryChangeView], *, old: str, new: str) -> Iterator[str]:
    """Yield the lines of a unified diff. `old` and `new`: the names of the sides."""
    every = list(changes)
    if every:
        yield f"--- {old}"
        yield f"+++ {new}"
    for change in every:
        yield f"@@ {entry_name(change)} @@"
        sides = (_lines(change.before), _lines(change.after))
        hunks = unified_diff(*sides, n=_CONTEXT, lineterm="")
        yield from (line for line in hunks if not line.startswith(("---", "+++", "@@")))


def entries(number: int) -> str:
    """`1 entry`, `2 entries`."""
    return f"{number} {'entry' if number == 1 else 'entries'}"


def entry_name(change: EntryChangeView) -> str:
    """`projects: vision`, or the section's name."""
    if change.name:
        return f"{change.section}: {change.name}"
    ordered = all(isinstance(side, list) for side in (change.before, change.after))
    named = change.section in {"pools", "departments", "projects"}
    return f"{change.section}: order" if ordered and named else change.section


def _lines(value: Any) -> list[str]:
    return [] if value is None else text_of(value).splitlines()
