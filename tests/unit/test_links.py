"""Links between pages, mentions of pages in the code, and what the CHANGELOG points to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.texts import ROOT, anchors, headings, texts

HERE = Path(__file__).resolve()
PAGES = {path: text for path, text in texts() if path.suffix == ".md"}
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
MENTION = re.compile(r"(?<![\w/.-])((?:docs/)?[\w-]+\.md)(?:#([\w-]*\w)|, \"([^\"\n]+)\")")
ENTRY = re.compile(r"- [A-Z`].*\(\[[\w.-]+\]\(([\w./-]+)(?:#([\w-]+))?\)\)\.")
LONGEST = 240


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for target, anchor in LINK.findall(PAGES[page]):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), target
        assert not anchor or there.suffix != ".md" or anchor in anchors(there), (target, anchor)


def test_mentions_of_a_section_lead_to_its_heading():
    """`docs/policy-decisions.md#victims`, or the page's name and the heading in quotation marks."""
    found = 0
    for path, text in texts():
        if path in PAGES or path == HERE:
            continue
        for name, anchor, heading in MENTION.findall(text):
            page = ROOT / "docs" / Path(name).name
            assert page.exists(), (path, name)
            assert anchor in anchors(page) if anchor else heading in headings(page), (path, name)
            found += 1
    assert found > 40


def unreleased() -> list[str]:
    text = (ROOT / "CHANGELOG.md").read_text()
    (section,) = re.findall(r"^## \[Unreleased\]$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    return [line for line in section.splitlines() if line and not line.startswith("### ")]


@pytest.mark.parametrize("line", unreleased())
def test_an_entry_of_the_changelog_is_one_line_and_a_link(line):
    entry = ENTRY.fullmatch(line)
    assert entry and len(line) <= LONGEST
    page, anchor = entry.groups()
    assert (ROOT / page).exists()
    assert not anchor or anchor in anchors(ROOT / page)
