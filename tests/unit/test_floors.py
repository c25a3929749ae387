"""The types of contract in `tests/floors.py`: a module that no contract names has a floor, too."""

import grimp
import pytest
from importlinter import configuration
from importlinter.domain.contract import Contract

from tests.floors import Floors, ForbiddenToOthers

FLOORS = (
    Floors,
    {"containers": ["pack"], "layers": ["top | beside", "*", "bottom"]},
)
CHANCE = (
    ForbiddenToOthers,
    {
        "source_modules": ["pack.*"],
        "allowed_modules": ["pack.top"],
        "forbidden_modules": ["random"],
    },
)


@pytest.mark.parametrize(
    ("contract", "importer", "imported", "kept"),
    [
        (FLOORS, "top", "pack.fresh", True),
        (FLOORS, "fresh", "pack.bottom", True),
        (FLOORS, "fresh", "pack.other", True),
        (FLOORS, "fresh", "pack.top", False),
        (FLOORS, "bottom", "pack.fresh", False),
        (FLOORS, "top", "pack.beside", False),
        (CHANCE, "top", "random", True),
        (CHANCE, "fresh", "random", False),
        (CHANCE, "bottom", "random", False),
    ],
)
def test_an_import_is_judged_by_the_floors_of_both(
    contract: tuple[type[Contract], dict[str, list[str]]], importer: str, imported: str, kept: bool
) -> None:
    graph = grimp.ImportGraph()
    for name in ("pack", "pack.top", "pack.beside", "pack.fresh", "pack.other", "pack.bottom"):
        graph.add_module(name)
    graph.add_module("random", is_squashed=True)
    graph.add_import(importer=f"pack.{importer}", imported=imported)
    configuration.configure()
    kind, options = contract
    session = {"root_packages": ["pack"], "include_external_packages": "True"}

    assert kind("A rule", session, options).check(graph, verbose=False).kept is kept
