"""A document as YAML: always the same text for the same contents, so git shows what changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


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
