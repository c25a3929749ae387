"""Each page of the documentation, from its first block to its last, as the people that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.pages.blocks import PAGES, ROOT, Block, blocks
from tests.e2e.pages.output import missing
from tests.e2e.pages.reader import Reader, free_ports
from tests.e2e.pages.shell import statements
from tests.e2e.pages.worlds import ELSEWHERE, WORLDS, World
from tests.e2e.waiting import until

DRAWN = {"mermaid"}
"""Blocks that are pictures."""
OPTIONS = ("--grace", "5", "--tick", "10", "--pass-sigterm")


def reason(block: Block) -> str | None:
    """Why the block is not run here."""
    known = ELSEWHERE.get(block.page, {})
    return next((why for text, why in known.items() if text in block.text), None)


def here(page: str) -> list[Block]:
    """The blocks of a page that are run here."""
    return [block for block in blocks(page) if block.kind not in DRAWN and not reason(block)]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    folder = tmp_path / "work"
    folder.mkdir()
    reader = Reader(folder)
    yield reader
    reader.close()
    assert "Traceback" not in reader.log()


@pytest.mark.parametrize("page", [page for page in PAGES if here(page)])
def test_a_page_can_be_followed(page: str, reader: Reader) -> None:
    world = WORLDS.get(page, World())
    world = replace(world, instead={**world.instead, **free_ports(world.ports)})
    if world.pools:
        pools = [word for pool in world.pools for word in ("--pool", pool)]
        python = ("--python", reader.shared_python()) if world.on_nodes else ()
        reader.emulator(*pools, *OPTIONS, *python)
    for file, text in world.files.items():
        reader.write(file, text)
    prepare(world.setup, reader)
    if world.reader:
        reader.becomes(world.reader)
    printed: list[str] = []
    for block in here(page):
        for text, setup in world.before.items():
            if text in block.text:
                prepare(setup, reader)
        printed += follow(block, world, reader, printed)


def prepare(setup: tuple[str, ...], reader: Reader) -> None:
    """Do what the page needs beforehand: statements of the shell, and cells of the notebook."""
    for each in setup:
        if each.startswith("python: "):
            reader.python(each.removeprefix("python: "), "setup")
        else:
            ran = reader.run(each)
            assert ran.code == 0, f"setup: {each}: {ran.printed}"


def follow(block: Block, world: World, reader: Reader, printed: list[str]) -> Iterator[str]:
    """Do with a block what its reader does. Yields what is printed."""
    text = replaced(block.text, world)
    if block.file is not None:
        reader.write(block.file, text)
    elif block.kind == "sh":
        for statement in statements(block.text):
            yield entered(statement, block, world, reader)
    elif block.kind == "python":
        yield reader.python(text, str(block)).printed
    elif block.shows_output:
        absent = missing(block.text, printed)
        assert not absent, "\n".join((f"{block}: nothing prints", *absent, "but:", *printed))
    else:
        pytest.fail(f"{block}: name its file in the sentence before, or say in worlds.py why not")


def replaced(text: str, world: World) -> str:
    for of_page, ours in world.instead.items():
        text = text.replace(of_page, ours)
    return text


def entered(statement: str, block: Block, world: World, reader: Reader) -> str:
    """Enter a statement of the page. Returns what it prints."""
    typed = replaced(statement, world)
    ran = reader.run(typed)
    if (wanted := world.again.get(statement)) is not None:
        until(lambda: wanted in reader.run(typed).printed, f"{statement} does not print {wanted}")
        ran = reader.run(typed)
    assert ran.code == world.exits.get(statement, 0), (
        f"{block}: {statement}: {ran.code}\n{ran.printed}"
    )
    if check := world.then.get(statement):
        check(ran.printed)
    return ran.printed


def test_each_reason_is_for_a_block_and_names_tests_that_exist() -> None:
    for page, known in ELSEWHERE.items():
        texts = [block.text for block in blocks(page)]
        for text, why in known.items():
            assert any(text in each for each in texts), f"{page} has no block with '{text}'"
            for path in re.findall(r"tests/[\w/]+(?:\.py)?", why):
                assert (ROOT / path).exists(), f"{page}: there is no {path}"


def test_what_a_page_takes_as_given_is_for_statements_that_it_has() -> None:
    for page, world in WORLDS.items():
        text = PAGES[page].read_text()
        tables = (world.before, world.instead, world.exits, world.again)
        named = [part for table in (*tables, world.then) for part in table]
        for part in (*named, *world.ports):
            assert part in text, f"{page} does not say '{part}'"
