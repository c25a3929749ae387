"""Output to streams that cannot encode every character (LANG=C, PYTHONIOENCODING)."""

from __future__ import annotations

import codecs
import json
import sys

_PLAIN = {
    "…": "...", "→": "->", "←": "<-", "↑": "^", "↓": "v", "−": "-", "–": "-", "─": "-", "━": "-",
    "│": "|", "·": ".", "•": "*", "▒": "/", "█": "#", "░": ".", "▌": "]", "▏": "|",
    "✔": "+", "✘": "x", "✗": "x", "×": "x",
    "“": '"', "”": '"', "‘": "'", "’": "'",
}  # fmt: skip
"""Replacements for characters of our own output; every other character becomes a question mark."""


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lost = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in lost), error.end


codecs.register_error("slotq", _plain)


def forgive() -> None:
    """Replace characters that cannot be encoded, instead of raising UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="slotq")


def as_json(text: str) -> str:
    """JSON for any stream: if stdout cannot encode it, all non-ASCII characters are escaped."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return "".join(map(_escaped, text))
    return text


def _escaped(character: str) -> str:
    return character if character.isascii() else json.dumps(character)[1:-1]
