"""Standard streams that cannot encode every character (LANG=C, PYTHONIOENCODING), or that the
caller has closed: `slotq ls >&-`, a service without any."""

from __future__ import annotations

import codecs
import json
import os
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


def open_closed() -> None:
    """Lead every closed standard stream to the null device.

    Python has None for a closed stream, and the next file or connection would get its number.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
