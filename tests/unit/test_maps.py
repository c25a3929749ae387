"""Each folder's `__init__` lists its modules and folders, one line each."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    ROOT / "layers" / "core" / "python" / "slotq_core",
    ROOT / "client_sdk" / "src" / "slotq",
)
FOLDERS = [init.parent for package in PACKAGES for init in sorted(package.rglob("__init__.py"))]
MOST = 13
"""The most modules in one folder."""


def inside(folder: Path) -> set[str]:
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("__")}
    return modules | {init.parent.name for init in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_has_a_map(folder):
    doc = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    named = re.findall(r"^ *(\w+)  +\S", doc, re.MULTILINE)
    assert sorted(named) == sorted(inside(folder))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_is_small(folder):
    modules = [path for path in folder.glob("*.py") if not path.stem.startswith("__")]
    assert len(modules) <= MOST
