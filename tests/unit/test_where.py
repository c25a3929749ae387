"""docs/where.md: each question leads from the README to the place of the decision."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ROWS = [
    re.findall(r"\]\(([^)]+)\)|\| `(\w+)` \|$", line)
    for line in (DOCS / "where.md").read_text().splitlines()
    if line.startswith(("| that ", "| which ", "| who "))
]
PATHS = [(row[0][0], row[1][0], row[2][1]) for row in ROWS]


def names(path: Path) -> set[str]:
    """The names that a Python file defines, at any depth."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def test_the_page_has_eighteen_questions():
    assert len(PATHS) == 18


@pytest.mark.parametrize(("first", "second", "symbol"), PATHS)
def test_each_path_leads_to_its_place(first, second, symbol):
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text())
    opened = (DOCS / first).resolve()
    assert opened in {(ROOT / link).resolve() for link in links}, "the README links to it"
    target = (DOCS / second).resolve()
    text = opened.read_text()
    dotted = ".".join(target.with_suffix("").parts[-2:])
    assert target.name in text or dotted in text, f"{first} names {target.name}"
    assert symbol in names(target)
