"""The page of the public API lists exactly what the package exports."""

import re
from importlib import import_module
from pathlib import Path

import slotq
import slotq.errors
from tests.api_page import IN_MODULES, PUBLIC, page

ROOT = Path(__file__).parents[3]


def test_the_page_is_up_to_date():
    assert (ROOT / "docs" / "api.md").read_text() == page(), "run `make api`"


def test_the_page_lists_what_the_package_exports():
    assert set(slotq.__all__) == {*PUBLIC, "__version__"}
    for module, exported in IN_MODULES.items():
        assert {*import_module(f"slotq.{module}").__all__} == {*exported}
    text = page()
    for name in slotq.errors.__all__:
        missing = f"{name}: add a line to the tree in slotq/errors.py, then run make api"
        assert re.search(rf"\b{name}\b", text), missing
    for name in ("QueueClient", "QueuedJob", "install"):
        assert getattr(slotq, name).__name__ == name
