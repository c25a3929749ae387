"""docs/troubles.md: each message that it quotes is one of the program's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = (ROOT / "client_sdk/src/slotq", ROOT / "layers/core/python/slotq_core")
ROWS = re.findall(
    r"^\| (.+?) \| .* \| .* \|$", (ROOT / "docs" / "troubles.md").read_text(), re.MULTILINE
)
MESSAGES = [
    words for row in ROWS for words in re.findall(r"`([^`]+)`", row) if re.search(r"\w+ \S", words)
]
"""A single word in backticks is the name of something."""
OTHERS = {"slotq why"}
HOLE = "\0"


def literals(tree: ast.AST) -> Iterator[str]:
    """Each text of the code, with HOLE where an f-string has a value."""
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(value) for value in node.values}
            yield "".join(
                str(value.value) if isinstance(value, ast.Constant) else HOLE
                for value in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield "" if id(node) in parts else node.value


@cache
def texts() -> frozenset[str]:
    files = [path for folder in CODE for path in folder.rglob("*.py")]
    return frozenset(text for path in files for text in literals(ast.parse(path.read_text())))


def is_said(message: str) -> bool:
    """Whether one text has all that stands between the holes of the message, in that order."""
    wanted = ".*".join(re.escape(part) for part in message.split("…"))
    return any(re.search(wanted, text, re.DOTALL) for text in texts())


def test_a_message_is_found_by_what_stands_between_its_holes():
    assert is_said("job '…' has ended (…); submit under another name")
    assert not is_said("job '…' has ended (…); submit again")


def test_the_page_quotes_enough():
    assert len(MESSAGES) > 35


@pytest.mark.parametrize("message", [text for text in MESSAGES if text not in OTHERS])
def test_a_quoted_message_is_one_of_the_programs(message):
    assert is_said(message), "the program does not say this (any more)"


@pytest.mark.parametrize("row", [row for row in ROWS if not row.startswith(("you see", "-", "`"))])
def test_a_symptom_without_a_message_is_a_sentence(row):
    assert len(row.split()) > 2
