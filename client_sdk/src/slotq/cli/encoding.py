"""Output where the terminal or the pipe cannot take every character (LANG=C, PYTHONIOENCODING)."""

from __future__ import annotations

import codecs
import json
import sys

_PLAIN = {
    "…": "...", "→": "->", "←": "<-", "↑": "^", "↓": "v", "−": "-", "–": "-", "─": "-", "━": "-",
    "│": "|", "·": ".", "•": "*", "▒": "/", "█": "#", "▏": "|", "✔": "+", "✘": "x", "×": "x",
    "“": '"', "”": '"', "‘": "'", "’": "'",
}  # fmt: skip
"""What stands for characters that we print ourselves; for any other it is a question mark."""


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lost = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in lost), error.end


codecs.register_error("slotq", _plain)


def forgive() -> None:
    """Let nothing that we print end the program with a UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="slotq")


def as_json(text: str) -> str:
    """JSON that any stream takes: what stdout cannot encode is escaped, and read back unchanged."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return "".join(map(_escaped, text))
    return text


def _escaped(character: str) -> str:
    return character if character.isascii() else json.dumps(character)[1:-1]
